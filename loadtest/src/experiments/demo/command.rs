//! `bloc-lab demo`.

use crate::console::this_command;
use crate::experiments::demo::cases;
use crate::record::Record;
use crate::report::{self, Part};
use crate::series;
use anyhow::Context;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use comfy_table::presets;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Run the paper's experiment.
#[derive(Debug, Args)]
pub struct Demo {
    /// All times as a share of the paper's (250 ms, reset interval 1 s); 0.02 to 1
    #[arg(long, default_value = "0.2", value_parser = |text: &str| number(text, 0.02, 1.0))]
    scale: f64,
    /// How long each case is measured; default 50 s times the scale, 55 s for servers of different
    /// speeds; 1s to 1h
    #[arg(long, value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Option<Duration>,
    /// Rounds of all cases; shows each case's round with the median p99, and the range of p99; 1 to
    /// 100
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    rounds: usize,
    /// Seed of the arrivals and service times; the seeds of further rounds are derived from it
    #[arg(long, default_value = "1")]
    seed: u64,
    /// No control plane, only the static configuration
    #[arg(long)]
    no_control_plane: bool,
    /// Write the table into this document, between the lines `<!-- written by bloc-lab demo -->`
    /// and `<!-- end -->`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Where summary.json, records.json and report.html go; default target/demo
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Demo {
    /// Runs all cases, prints, writes.
    pub async fn run(self) -> anyhow::Result<()> {
        let began = Instant::now();
        let out = self.out.unwrap_or_else(|| target_directory().join("demo"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let record = self
            .record
            .as_deref()
            .map(|file| Part::find(file, "bloc-lab demo").with_context(|| format!("--record {}", file.display())));
        let record = record.transpose()?;
        let cases = cases(self.scale, self.duration, self.seed, !self.no_control_plane);
        let runs = series::measure(&cases, self.rounds).await?;
        let records: Vec<Record> = runs.iter().filter_map(|run| run.middle().cloned()).collect();
        println!("{}", report::table(&records));
        print!("{}", report::spreads(&runs));
        report::write_summary(&records, &out.join("summary.json")).context("summary.json")?;
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        report::write_page(&records, &this_command(), &[], &out.join("report.html")).context("report.html")?;
        if let (Some(part), Some(first)) = (record, records.first()) {
            let mut table = report::table(&records);
            table.load_style(presets::ASCII_MARKDOWN);
            let origin = report::origin(&first.environment, &this_command());
            part.write(&format!("{origin}\n\n{table}")).context("--record")?;
        }
        for finding in report::findings(&records) {
            let mark = if finding.reached { "reached" } else { "missed " };
            println!("{mark}  {}: {} (aim: {})", finding.what, finding.measured, finding.expected);
        }
        let what = match self.rounds {
            1 => format!("one run with seed {}", self.seed),
            rounds => format!("the one with the median p99 of {rounds} rounds from seed {} on", self.seed),
        };
        println!("each line is {what}; `make goals` has medians of several seeds with their range");
        println!("{} in {:.0} s", out.display(), began.elapsed().as_secs_f64());
        Ok(())
    }
}
