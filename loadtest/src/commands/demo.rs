//! `bloc-lab demo`.

use super::mesh_options::tools;
use super::{bar, run_directory};
use anyhow::Context;
use bloc_lab::case::Case;
use bloc_lab::demo::cases;
use bloc_lab::mesh::target_directory;
use bloc_lab::quantity::{duration, number};
use bloc_lab::record::Record;
use bloc_lab::report;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Run the paper's experiment.
#[derive(Debug, Args)]
pub struct Demo {
    /// All times as a share of the paper's (250 ms, reset interval 1 s); 0.02 to 1
    #[arg(long, default_value = "0.2", value_parser = |text: &str| number(text, 0.02, 1.0))]
    scale: f64,
    /// How long each case is measured; default 100 s times the scale; 1s to 1h
    #[arg(long, value_parser = |text: &str| duration(text, Duration::from_secs(1), Duration::from_secs(3600)))]
    duration: Option<Duration>,
    /// Determines the arrivals
    #[arg(long, default_value = "1")]
    seed: u64,
    /// No control plane, only the static configuration
    #[arg(long)]
    no_control_plane: bool,
    /// Where summary.json, records.json and report.html go; default target/demo
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl Demo {
    /// Runs all cases, one after the other.
    pub async fn run(self) -> anyhow::Result<()> {
        let (tools, began) = (tools()?, Instant::now());
        tools.need(true, !self.no_control_plane)?;
        let out = self.out.unwrap_or_else(|| target_directory().join("demo"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let cases = cases(self.scale, self.duration, self.seed, !self.no_control_plane);
        let mut records = Vec::with_capacity(cases.len());
        let mut left: Vec<(usize, &Case)> = cases.iter().enumerate().collect();
        while let Some(&(_, first)) = left.first() {
            // Cases that differ only in their load share a mesh, whose start is what takes long.
            let (same, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, case)| case.mesh == first.mesh);
            left = others;
            let starting = bar(first.name());
            let mut standing = first.start(&tools, &run_directory(&first.name()), &starting).await?;
            starting.finish_and_clear();
            for (n, case) in same {
                let name = case.name();
                let bar = bar(format!("{}/{} {name}", records.len() + 1, cases.len()));
                let record = case.measure(&mut standing, &bar).await?;
                bar.finish_and_clear();
                let (row, done) = (&record.row, records.len() + 1);
                eprintln!("{done}/{} {name}: {} ok, {} shed, {} errors", cases.len(), row.ok, row.shed, row.errors);
                records.push((n, record));
            }
            standing.mesh.end().await;
        }
        records.sort_by_key(|(n, _)| *n);
        let records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
        println!("{}", report::table(&records));
        report::write_summary(&records, &out.join("summary.json")).context("summary.json")?;
        report::write_records(&records, &out.join("records.json")).context("records.json")?;
        report::write_page(&records, &super::this_command(), &out.join("report.html")).context("report.html")?;
        for finding in report::findings(&records) {
            let mark = if finding.reached { "reached" } else { "missed " };
            println!("{mark}  {}: {} (aim: {})", finding.what, finding.measured, finding.expected);
        }
        println!("{} in {:.0} s", out.display(), began.elapsed().as_secs_f64());
        Ok(())
    }
}
