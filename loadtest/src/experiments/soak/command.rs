//! `bloc-lab soak`.

use super::page;
use crate::console::{bar, run_directory, this_command, tools};
use crate::experiments::soak::Soak;
use anyhow::{Context, bail};
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Caches and buffers fill in the first 90 s. A slope needs a few bursts after that.
const SHORTEST: Duration = Duration::from_secs(180);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Load and overload for a long time while servers come and go: does anything grow, and do all
/// parts count the same requests?
#[derive(Debug, Args)]
pub struct SoakCommand {
    /// What balances the load: bloc, bid or mu
    #[arg(long, value_enum, default_value = "bid")]
    policy: Policy,
    /// How long; 3m to 24h. Growth has wider bounds below 22m
    #[arg(long, default_value = "30m", value_parser = |text: &str| duration(text, SHORTEST, LONGEST))]
    duration: Duration,
    /// Requests per second beside the bursts of 900; four servers serve 400, two that come and go
    /// 200 more; 1 to 2000
    #[arg(long, default_value = "300", value_parser = |text: &str| number(text, 1.0, 2_000.0))]
    rate: f64,
    /// Seed of the arrivals and the service times
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Where soak.json and report.html go; default target/soak
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

impl SoakCommand {
    /// Runs it, prints a table, writes the page.
    pub async fn run(self) -> anyhow::Result<()> {
        let Self { policy, duration, rate, seed, .. } = self;
        if policy.routing().is_none() {
            bail!("--policy {}: only bloc, bid and mu have counters of ours", policy.name());
        }
        let out = self.out.unwrap_or_else(|| target_directory().join("soak"));
        std::fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let bar = bar("soak".into());
        let soak = Soak { policy, duration, rate, seed };
        let lived = soak.run(&tools()?, &run_directory("soak"), &bar).await?;
        bar.finish_and_clear();
        println!(
            "{} requests in {duration:?}, {} changes, {} bursts",
            lived.books.sent, lived.changes, lived.books.bursts
        );
        println!("{}", page::soak_table(&lived));
        std::fs::write(out.join("soak.json"), serde_json::to_string(&lived)?).context("soak.json")?;
        let page = page::soak_page(&lived, &this_command()).into_string();
        std::fs::write(out.join("report.html"), page).context("report.html")?;
        println!("{}", out.join("report.html").display());
        if lived.holds() { Ok(()) } else { bail!("a promise is broken: see the table") }
    }
}
