//! `bloc-lab stats`.

use super::up::mesh_file;
use anyhow::Context;
use bloc_mesh::{Admins, Counters};
use clap::Args;
use std::path::PathBuf;

/// Print the counters of the mesh that `up` started.
#[derive(Debug, Args)]
pub struct Stats {
    /// Print JSON, which --since reads
    #[arg(long)]
    json: bool,
    /// Print the growth since these counters, a file written by `stats --json`
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
}

impl Stats {
    /// Reads and prints them.
    pub async fn run(self) -> anyhow::Result<()> {
        let file = mesh_file();
        let text = std::fs::read(&file).with_context(|| format!("{}: is `bloc-lab up` running?", file.display()))?;
        let admins: Admins = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        let mut counters = admins.read().await.context("is `bloc-lab up` still running?")?;
        if let Some(earlier) = &self.since {
            let read = || anyhow::Ok(serde_json::from_slice::<Counters>(&std::fs::read(earlier)?)?);
            counters = counters.since(&read().with_context(|| format!("--since {}", earlier.display()))?);
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&counters)?);
            return Ok(());
        }
        let line =
            |name: &str, count: u64, note: &str| println!("{}", format!("{name:<44} {count:>10}  {note}").trim_end());
        line("requests", counters.requests, "");
        line("attempts", counters.attempts, &format!("{:.2} per request", counters.attempts_per_request()));
        line("shed", counters.shed(), "rejected after all retries");
        for (reason, count) in counters.rejected() {
            line(&format!("rejected attempts, {reason}"), count, "");
        }
        for (name, count) in &counters.filters {
            line(name, *count, "");
        }
        Ok(())
    }
}
