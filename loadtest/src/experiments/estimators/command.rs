//! `bloc-lab estimators`.

use super::page;
use crate::console::{bar, run_directory, this_command, tools};
use crate::experiments::estimators::{self, candidates};
use anyhow::Context;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::quantity::duration;
use bloc_mesh::{show_capacity, target_directory};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Compare sources of a backend's capacity: known, average, SLO.
#[derive(Debug, Args)]
pub struct Estimators {
    /// Service times, the three estimators each; the defaults are the paper's, scaled by 5
    #[arg(long, value_delimiter = ',', default_value = "fixed:50ms,uniform:8ms-130ms,normal:50ms/25ms")]
    service_times: Vec<ServiceTime>,
    /// How long each of the four phases takes; 1s to 1h
    #[arg(long, default_value = "10s", value_parser = |text: &str| duration(text, SECOND, SECOND * 3600))]
    phase: Duration,
    /// The interval of the average; 1s to 1h
    #[arg(long, default_value = "3s", value_parser = |text: &str| duration(text, SECOND, SECOND * 3600))]
    interval: Duration,
    /// Seed of the arrivals and service times
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where estimators.json and estimators.html go; default target/estimators
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Estimators {
    /// Runs them one after the other, prints, writes the page.
    pub async fn run(self) -> anyhow::Result<()> {
        let tools = tools()?;
        let out = self.out.unwrap_or_else(|| target_directory().join("estimators"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let mut runs = Vec::new();
        for time in self.service_times {
            for capacity in candidates(time, self.interval) {
                let name = format!("estimators-{}-{time}", show_capacity(Some(&capacity)));
                let bar = bar(name.clone());
                let directory = run_directory(&name.replace([':', '/'], "-"));
                let run = estimators::run(&capacity, time, self.phase, self.seed, (&tools, &directory, &bar)).await?;
                bar.finish_and_clear();
                eprintln!("{name}");
                runs.push(run);
            }
        }
        println!("{}", page::estimator_table(&runs));
        std::fs::write(out.join("estimators.json"), serde_json::to_string(&runs)?).context("estimators.json")?;
        let page = page::estimator_page(&runs, &this_command()).into_string();
        std::fs::write(out.join("estimators.html"), page).context("estimators.html")?;
        println!("{}", out.join("estimators.html").display());
        Ok(())
    }
}
