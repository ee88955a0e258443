//! `bloc-lab agility`.

use super::page;
use crate::console::{bar, run_directory, this_command, tools};
use crate::experiments::agility::Agility;
use anyhow::Context;
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// A fast server joins four that are nearly overloaded: how soon does it help?
#[derive(Debug, Args)]
pub struct AgilityCommand {
    /// Policies, one run each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "least_request,mu")]
    policies: Vec<Policy>,
    /// Load as a share of what the four can do; 0.1 to 2
    #[arg(long, default_value = "0.98", value_parser = |text: &str| number(text, 0.1, 2.0))]
    share: f64,
    /// When the fifth joins, from the start of the load; 1s to 1h
    #[arg(long, default_value = "20s", value_parser = seconds)]
    join_after: Duration,
    /// How long is watched after that; 1s to 1h
    #[arg(long, default_value = "20s", value_parser = seconds)]
    watch: Duration,
    /// Gateways; 1 to 200
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 200))]
    frontends: usize,
    /// Seed of the arrivals and service times
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where agility.json and agility.html go; default target/agility
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl AgilityCommand {
    /// Runs each policy, prints, writes the page.
    pub async fn run(self) -> anyhow::Result<()> {
        let tools = tools()?;
        let Self { share, join_after, watch, frontends, seed, .. } = self;
        let agility = Agility { share, join_after, watch, frontends, seed };
        let mut runs = Vec::new();
        for policy in self.policies {
            let name = format!("agility-{}-{frontends}", policy.name());
            let bar = bar(name.clone());
            let run = agility.run(policy, &tools, &run_directory(&name), &bar).await?;
            bar.finish_and_clear();
            println!("{}", page::joining_line(&run));
            runs.push(run);
        }
        let out = self.out.unwrap_or_else(|| target_directory().join("agility"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        std::fs::write(out.join("agility.json"), serde_json::to_string(&runs)?).context("agility.json")?;
        let page = page::joining_page(&runs, &this_command()).into_string();
        std::fs::write(out.join("agility.html"), page).context("agility.html")?;
        println!("{}", out.join("agility.html").display());
        Ok(())
    }
}

fn seconds(text: &str) -> Result<Duration, bloc_mesh::quantity::NotAllowed> {
    duration(text, Duration::from_secs(1), Duration::from_secs(3600))
}
