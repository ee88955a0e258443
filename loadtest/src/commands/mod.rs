//! The commands of `bloc-lab`.
//!
//! Here are those that belong to no experiment; `experiments/NAME/command.rs` has the others. A
//! command reads its options, measures, and writes the results.

mod backend;
mod mesh_options;
mod report;
mod run;
mod stats;
mod up;

use crate::experiments::{
    ablation, agility, agree, bounce, chaos, cost, demo, estimators, follow, goals, handover, overhead, quota, regimes,
    retries, soak,
};
use clap::Subcommand;

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one case: start a mesh, load it, measure, end it
    Run(run::Run),
    /// Start a mesh and leave it running until Ctrl-C
    Up(up::Up),
    /// Print the counters of the mesh that `up` started
    Stats(stats::Stats),
    /// Run the paper's experiment, print a table, write summary.json and report.html
    Demo(demo::command::Demo),
    /// A new server joins four that are nearly overloaded: how soon does it help?
    Agility(agility::command::AgilityCommand),
    /// Compare where a backend's capacity comes from: known, average, SLO
    Estimators(estimators::command::Estimators),
    /// Measure the cost of a request in a real Envoy, with and without filters
    Cost(cost::command::CostCommand),
    /// Measure the cost of the hold queue for a request that does not wait
    Overhead(overhead::command::OverheadCommand),
    /// Measure the time between two requests of a busy application, with the queue in its sidecar
    /// and in itself
    Handover(handover::command::HandoverCommand),
    /// Check that simulator and real mesh agree within 15%, in times and attempts
    Agree(agree::command::Agree),
    /// Check the performance claims, medians of five rounds; fails if a claim is missed
    Goals(goals::command::Goals),
    /// Measure a dozen cells of the map of regimes, and list the bounds that bids miss
    Regimes(regimes::command::Regimes),
    /// Compare chips alone, bids alone, both and neither at four service times
    Ablation(ablation::command::Ablation),
    /// Count how often a failing application receives a request: stock Envoy beside the filters
    Retries(retries::command::Retries),
    /// Measure the cost of a bounce for sender and server
    Bounce(bounce::command::Bounce),
    /// Inject one fault after the other under load, and check the promises
    Chaos(chaos::command::ChaosCommand),
    /// Load for a long time while servers come and go: does anything grow, and do all parts count
    /// the same requests?
    Soak(soak::command::SoakCommand),
    /// Make a table and a page from the files of other commands
    Report(report::Report),
    /// Compare who sets CPU quotas and limits of memory: the node agent, fixed ones and others;
    /// with the turns of `follow`
    Quota(quota::command::QuotaCommand),
    /// Halve the CPU quota of a server under overload, with sidecars that follow and ones that do
    /// not: that part of `quota` alone
    Follow(follow::command::Follow),
    /// Serve as an application with a known service time
    Backend(backend::Serve),
    /// Take and give back memory, for `quota`
    #[command(hide = true)]
    Hog(quota::memory::hog::Hog),
}

impl Command {
    /// Runs it.
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Run(run) => run.run().await,
            Self::Up(up) => up.run().await,
            Self::Stats(stats) => stats.run().await,
            Self::Demo(demo) => demo.run().await,
            Self::Agility(agility) => agility.run().await,
            Self::Estimators(estimators) => estimators.run().await,
            Self::Cost(cost) => cost.run().await,
            Self::Overhead(overhead) => overhead.run().await,
            Self::Handover(handover) => handover.run().await,
            Self::Agree(agree) => agree.run().await,
            Self::Goals(goals) => goals.run().await,
            Self::Regimes(regimes) => regimes.run().await,
            Self::Ablation(ablation) => ablation.run().await,
            Self::Retries(retries) => retries.run().await,
            Self::Bounce(bounce) => bounce.run().await,
            Self::Chaos(chaos) => chaos.run().await,
            Self::Soak(soak) => soak.run().await,
            Self::Quota(quota) => quota.run().await,
            Self::Follow(follow) => follow.run().await,
            Self::Report(report) => report.run(),
            Self::Backend(backend) => backend.run().await,
            Self::Hog(hog) => hog.run().await,
        }
    }
}
