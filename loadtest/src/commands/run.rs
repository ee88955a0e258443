//! `bloc-lab run`.

use super::mesh_options::MeshOptions;
use crate::case::Case;
use crate::console::{bar, run_directory, tools};
use crate::report;
use anyhow::Context;
use bloc_mesh::load::Load;
use bloc_mesh::quantity::duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Run one case.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    mesh: MeshOptions,
    /// closed:CLIENTS or poisson:RPS
    #[arg(long, default_value = "closed:100")]
    load: Load,
    /// Clients keep their connections; otherwise each request opens a new one
    #[arg(long)]
    keep_alive: bool,
    /// How long is measured; 100ms to 24h
    #[arg(long, default_value = "28s", value_parser = |text: &str| duration(text, Duration::from_millis(100), DAY))]
    duration: Duration,
    /// How long the load runs before anything counts; 0s to 1h
    #[arg(long, default_value = "3s", value_parser = |text: &str| duration(text, Duration::ZERO, DAY / 24))]
    warm_up: Duration,
    /// A request without an answer for this long is an error; 1ms to 1h
    #[arg(long, default_value = "20s", value_parser = |text: &str| duration(text, Duration::from_millis(1), DAY / 24))]
    timeout: Duration,
    /// Name of the case in the row; default closed-loop or poisson
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Write the row of summary.json (an array with one row)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write everything that was measured, for `bloc-lab report`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Run {
    /// Runs it, prints the table, writes the files.
    pub async fn run(self) -> anyhow::Result<()> {
        let case = Case {
            experiment: self.experiment,
            mesh: self.mesh.spec(),
            load: self.load,
            keep_alive: self.keep_alive,
            timeout: self.timeout,
            warm_up: self.warm_up,
            duration: self.duration,
        };
        let (name, bar) = (case.name(), bar(case.name()));
        let record = case.run(&tools()?, &run_directory(&name), &bar).await?;
        bar.finish_and_clear();
        let records = [record];
        println!("{}", report::table(&records));
        if let Some(file) = &self.json {
            report::write_summary(&records, file).with_context(|| format!("--json {}", file.display()))?;
        }
        if let Some(file) = &self.record {
            report::write_records(&records, file).with_context(|| format!("--record {}", file.display()))?;
        }
        Ok(())
    }
}
