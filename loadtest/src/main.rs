//! `bloc-lab`: a local mesh of real Envoys, the load on it, and the report.

use bloc_lab::commands::Command;
use clap::Parser;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
#[command(name = "bloc-lab", version, about = "A local mesh of real Envoys, the load on it, and the report")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // A backend needs one thread, the lab two: one to send, one to watch.
    let mut runtime = match command {
        Command::Backend(_) | Command::Hog(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    match runtime.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(until_signal(command)),
        Err(error) => failed(&error.into()),
    }
}

/// Runs the command. A signal drops it, and with it every process that it has started.
async fn until_signal(command: Command) -> ExitCode {
    let (interrupt, terminate) = match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(error), _) | (_, Err(error)) => return failed(&error.into()),
    };
    let (mut interrupt, mut terminate) = (interrupt, terminate);
    // By convention 128 plus the number of the signal.
    tokio::select! {
        done = command.run() => match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        _ = interrupt.recv() => ExitCode::from(130),
        _ = terminate.recv() => ExitCode::from(143),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("bloc-lab: {error:#}");
    ExitCode::FAILURE
}
