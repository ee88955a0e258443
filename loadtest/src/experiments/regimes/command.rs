//! `bloc-lab regimes`.

use super::{BOUNDS, CELLS, cells};
use crate::console::this_command;
use crate::experiments::goals::{self, Measured, Outcome, page, side_by_side};
use crate::record::Record;
use crate::report;
use anyhow::Context;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::time::Duration;

/// Measure a dozen cells of the map of regimes, and list the bounds that bids miss (about 80
/// minutes).
#[derive(Debug, Args)]
pub struct Regimes {
    /// Rounds, each with its own arrivals and service times; ratios are paired by round, and their
    /// medians count; 1 to 100
    #[arg(long, default_value = "5", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// How long each candidate is measured in a round; 1s to 1h
    #[arg(long, default_value = "18s", value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Duration,
    /// Only these cells
    #[arg(long, value_name = "CELL", value_delimiter = ',', value_parser = PossibleValuesParser::new(CELLS))]
    only: Vec<String>,
    /// Seed of the arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where regimes.md, report.html and records.json go; default target/regimes-envoy
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Regimes {
    /// Measures the cells one after the other. After each, all files hold what is known.
    pub async fn run(self) -> anyhow::Result<()> {
        let out = self.out.unwrap_or_else(|| target_directory().join("regimes-envoy"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let mut kinds = cells(self.duration, self.seed);
        kinds.retain(|cell| self.only.is_empty() || self.only.iter().any(|only| only == cell.name));
        let mut measured: Vec<Measured> = Vec::new();
        let mut missed: Vec<&str> = Vec::new();
        for at in 0..kinds.len() {
            let those = side_by_side::measure(&kinds[at], self.rounds).await?;
            println!("{}: {}\n{}", kinds[at].name, kinds[at].what, page::candidate_table(&those));
            measured.extend(those);
            let names: Vec<&str> = kinds[..=at].iter().map(|cell| cell.name).collect();
            let verdicts = goals::judge(BOUNDS, &names, &measured, self.rounds, self.seed);
            let of_cell: Vec<_> = verdicts.iter().filter(|one| one.kind == kinds[at].name).cloned().collect();
            println!("{}", page::claim_table(&of_cell));
            let not_kept = |outcome| matches!(outcome, Outcome::Missed | Outcome::NotMeasured);
            missed = verdicts.iter().filter(|one| not_kept(one.outcome)).map(|one| one.id).collect();
            let records: Vec<Record> = measured.iter().flat_map(|one| one.runs.records.clone()).collect();
            report::write_records(&records, &out.join("records.json")).context("records.json")?;
            report::write_page(&records, &this_command(), &[], &out.join("report.html")).context("report.html")?;
            let text = page::claims_text(&kinds[..=at], &verdicts);
            std::fs::write(out.join("regimes.md"), text).context("regimes.md")?;
        }
        println!("{}", out.display());
        println!("missed or not measured: {}", if missed.is_empty() { "none".to_owned() } else { missed.join(", ") });
        Ok(())
    }
}
