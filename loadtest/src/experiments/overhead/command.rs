//! `bloc-lab overhead`.

use crate::console::{bar, run_directory, tools};
use crate::experiments::overhead::{Overhead, Sidecars, VARIANTS};
use anyhow::ensure;
use bloc_mesh::quantity::number;
use clap::Args;

/// Measure the cost of the hold queue for a request that does not wait.
#[derive(Debug, Args)]
pub struct OverheadCommand {
    /// Rounds; each sends a block of requests to every sidecar; 1 to 10000
    #[arg(long, default_value = "60", value_parser = |text: &str| number::<usize>(text, 1, 10_000))]
    rounds: usize,
    /// Requests per block; 1 to 100000
    #[arg(long, default_value = "200", value_parser = |text: &str| number::<usize>(text, 1, 100_000))]
    block: usize,
}

impl OverheadCommand {
    /// Measures with an application that takes no time, and with one that takes a millisecond.
    pub async fn run(self) -> anyhow::Result<()> {
        let bar = bar("overhead".into());
        let sidecars = Sidecars::start(&tools()?, &run_directory("overhead"), &bar).await?;
        let Self { rounds, block } = self;
        let mut failed = 0;
        for (what, path) in [("0 ms", "/cost/0"), ("1 ms", "/")] {
            let medians = sidecars.measure(Overhead { rounds, block, path }).await;
            failed += medians.failed;
            for (variant, name) in VARIANTS.iter().enumerate() {
                let median = medians.of(variant).unwrap_or_default().as_secs_f64() * 1e6;
                let more = (variant > 0).then(|| medians.difference_us(variant, variant - 1)).flatten();
                let more = more.map(|[low, middle, high]| {
                    format!("  {middle:+.1} us ({low:+.1} to {high:+.1}, p10 to p90 of {rounds} rounds)")
                });
                println!("service time {what}  {name:<24} median {median:>7.1} us{}", more.unwrap_or_default());
            }
        }
        bar.finish_and_clear();
        sidecars.end().await;
        ensure!(failed == 0, "{failed} requests failed");
        Ok(())
    }
}
