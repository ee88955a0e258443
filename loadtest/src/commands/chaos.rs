//! `bloc-lab chaos`.

use super::console::{bar, run_directory, this_command};
use super::mesh_options::tools;
use anyhow::{Context, bail};
use bloc_lab::chaos::{Chaos, Outcome, enter_namespace};
use bloc_lab::mesh::target_directory;
use bloc_lab::policy::Policy;
use bloc_lab::quantity::duration;
use bloc_lab::report;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::time::Duration;

/// Break one thing after the other under load, and check what is promised.
#[derive(Debug, Args)]
pub struct ChaosCommand {
    /// What balances the load: bloc, bid or mu
    #[arg(long, value_enum, default_value = "bloc")]
    policy: Policy,
    /// Only these
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(Chaos::names()))]
    only: Vec<String>,
    /// How long the flood lasts; 5s to 10m
    #[arg(long, default_value = "60s", value_parser = |text: &str| duration(text, Duration::from_secs(5), Duration::from_secs(600)))]
    flood: Duration,
    /// Nothing begins that would end later than this; 1m to 1h
    #[arg(long, default_value = "25m", value_parser = |text: &str| duration(text, Duration::from_secs(60), Duration::from_secs(3600)))]
    limit: Duration,
    /// Determines the order, the victims and the arrivals
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where chaos.json and report.html go; default target/chaos
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl ChaosCommand {
    /// Runs it, prints a table, writes the page.
    pub async fn run(self) -> anyhow::Result<()> {
        if self.policy.routing().is_none() {
            bail!("--policy {}: only bloc, bid and mu promise anything", self.policy.name());
        }
        enter_namespace();
        let out = self.out.unwrap_or_else(|| target_directory().join("chaos"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let Self { policy, only, flood, limit, seed, .. } = self;
        let chaos = Chaos { policy, only, flood, limit, seed };
        let bar = bar("chaos".into());
        let tell = |outcome: &Outcome| {
            let word = if outcome.not_run.is_some() {
                "NOT RUN"
            } else if outcome.holds() {
                "ok"
            } else {
                "BROKEN"
            };
            eprintln!("{word}: {}", outcome.name);
        };
        let outcomes = chaos.run(&tools()?, &run_directory("chaos"), &bar, tell).await?;
        bar.finish_and_clear();
        println!("{}", report::chaos_table(&outcomes));
        std::fs::write(out.join("chaos.json"), serde_json::to_string(&outcomes)?).context("chaos.json")?;
        let page = report::chaos_page(&outcomes, &this_command()).into_string();
        std::fs::write(out.join("report.html"), page).context("report.html")?;
        println!("{}", out.join("report.html").display());
        let broken: Vec<&str> =
            outcomes.iter().filter(|outcome| !outcome.holds()).map(|outcome| outcome.name).collect();
        if !broken.is_empty() {
            bail!("promises broken: {}", broken.join(", "));
        }
        let not_run: Vec<&str> =
            outcomes.iter().filter(|outcome| outcome.not_run.is_some()).map(|outcome| outcome.name).collect();
        if !not_run.is_empty() {
            bail!("not run, for the reasons above: {}; --only names those that are to be run", not_run.join(", "));
        }
        Ok(())
    }
}
