//! `bloc-lab ablation`.

use super::page;
use crate::console::this_command;
use crate::experiments::ablation;
use crate::record::Record;
use crate::report;
use crate::series;
use anyhow::Context;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Compare chips alone, bids alone, both and neither at four service times (about 8 minutes).
#[derive(Debug, Args)]
pub struct Ablation {
    /// How long each case is measured; cases of 250 ms take twice as long; 1s to 1h
    #[arg(long, default_value = "12s", value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Duration,
    /// Rounds; shows each case's round with the median p99, and the range of p99; 1 to 100
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// Only this service time in milliseconds: 1, 10, 50 or 250
    #[arg(long, value_name = "MILLISECONDS")]
    only: Option<u64>,
    /// Seed of the arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where records.json and report.html go; default target/ablation
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Ablation {
    /// Runs the cases, prints the table, writes records and page.
    pub async fn run(self) -> anyhow::Result<()> {
        let out = self.out.unwrap_or_else(|| target_directory().join("ablation"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let mut cases = ablation::cases(self.duration, self.seed);
        if let Some(millis) = self.only {
            cases.retain(|case| case.mesh.service_time.mean() == Duration::from_millis(millis));
        }
        let runs = series::measure(&cases, self.rounds).await?;
        let records: Vec<Record> = runs.iter().filter_map(|run| run.middle().cloned()).collect();
        println!("{}", page::ablation_table(&records));
        print!("{}", report::spreads(&runs));
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        report::write_page(&records, &this_command(), &[page::SECTION], &out.join("report.html"))
            .context("report.html")?;
        println!("{}", out.display());
        Ok(())
    }
}
