//! `bloc-lab goals`.

use super::series;
use anyhow::Context;
use bloc_lab::goals;
use bloc_lab::mesh::target_directory;
use bloc_lab::quantity::{duration, number};
use bloc_lab::record::Record;
use bloc_lab::report;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Check what bids are claimed to do: each claim with its aim and the median of the rounds.
#[derive(Debug, Args)]
pub struct Goals {
    /// Rounds of all cases; medians count; 1 to 100
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// How long each case is measured; 1s to 1h
    #[arg(long, default_value = "20s", value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Duration,
    /// Only cases whose name begins so, such as 50ms, two-speeds, 10ms or 2ms
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Determines the arrivals of the first round; each further one has the next
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where goals.json and records.json go; default target/goals
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Goals {
    /// Runs the cases, prints medians and claims, writes both. A claim that does not hold is no error: it says so.
    pub async fn run(self) -> anyhow::Result<()> {
        let out = self.out.unwrap_or_else(|| target_directory().join("goals"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let mut cases = goals::cases(self.duration, self.seed);
        if let Some(only) = &self.only {
            cases.retain(|case| case.name().starts_with(only));
        }
        let runs = series::measure(&cases, self.rounds).await?;
        let middle: Vec<Record> = runs.iter().filter_map(|run| run.middle().cloned()).collect();
        let goals = goals::goals(&runs);
        let records: Vec<Record> = runs.into_iter().flat_map(|run| run.records).collect();
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        std::fs::write(out.join("goals.json"), serde_json::to_string_pretty(&goals)? + "\n").context("goals.json")?;
        println!("of each case the round with the median p99:\n{}", report::table(&middle));
        println!("medians of {} rounds:\n{}", self.rounds, report::goal_table(&goals));
        println!("{}", out.display());
        Ok(())
    }
}
