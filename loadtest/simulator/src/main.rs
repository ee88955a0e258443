//! `bloc-sim`: the simulator on the command line.

mod commands;

use clap::{Parser, Subcommand};

/// Simulates sidecars, servers and load in virtual time, with the policy code of the filters.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<commands::run::Run>),
    #[command(name = "figure-5-6")]
    Figure(Box<commands::figure::FigureCommand>),
    Sweep(Box<commands::sweep::Sweep>),
    Estimators(commands::estimators::Estimators),
    Regimes(commands::regimes::Regimes),
    Reserve(commands::reserve::Reserve),
    Quota(commands::quota::Quota),
    Memory(commands::memory::Memory),
    Qos(commands::qos::Qos),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Run(command) => command.run(),
        Command::Figure(command) => command.run(),
        Command::Sweep(command) => command.run(),
        Command::Estimators(command) => command.run(),
        Command::Regimes(command) => command.run(),
        Command::Reserve(command) => command.run(),
        Command::Quota(command) => command.run(),
        Command::Memory(command) => command.run(),
        Command::Qos(command) => command.run(),
    }
}
