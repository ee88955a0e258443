//! `bloc-lab chaos`.

use super::page;
use crate::console::{bar, run_directory, this_command, tools};
use crate::experiments::chaos::{self, Chaos, Claim, Place, Row, Verdict};
use anyhow::{Context, bail};
use bloc_mesh::envoy::Guard;
use bloc_mesh::network_faults::enter_namespace;
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::duration;
use bloc_mesh::target_directory;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::time::Duration;

/// Inject one fault after the other under load: into stock Envoy, stock Envoy with circuit breakers
/// and outlier detection, ours, and ours with the same settings.
///
/// Fails if ours breaks a promise or does harm, if ours with the settings is worse than stock Envoy
/// with them, if stock Envoy keeps the promise too, or if a row was not run.
#[derive(Debug, Args)]
pub struct ChaosCommand {
    /// What balances the load in our column: bloc, bid or mu
    #[arg(long, value_enum, default_value = "bid")]
    policy: Policy,
    /// Only these rows
    #[arg(long, value_name = "ROW", value_delimiter = ',', value_parser = PossibleValuesParser::new(chaos::claims().map(|(name, _)| name)))]
    only: Vec<String>,
    /// How long a flood lasts; 5s to 10m
    #[arg(long, default_value = "20s", value_parser = |text: &str| duration(text, Duration::from_secs(5), Duration::from_secs(600)))]
    flood: Duration,
    /// Tune Envoy in this way in the second and fourth column of each row, instead of the best way
    /// for the row: requests in flight of a sender, and how long an attempt may take, such as
    /// 10:1500ms
    #[arg(long, value_name = "REQUESTS:ATTEMPT")]
    guard: Option<Guard>,
    /// Nothing starts that would end later than this; 1m to 1h
    #[arg(long, default_value = "59m", value_parser = |text: &str| duration(text, Duration::from_secs(60), Duration::from_secs(3600)))]
    limit: Duration,
    /// Seed of the order, the victims, the arrivals and the service times
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
        let Self { policy, only, flood, guard, limit, seed, .. } = self;
        let order = Chaos { policy, only, flood, guard, limit, seed };
        let bar = bar("chaos".into());
        let place = Place { tools: &tools()?, directory: &run_directory("chaos"), bar: &bar };
        let tell = |row: &Row| eprintln!("{}: {}", row.name, page::verdict(row));
        let rows = chaos::run(&order, place, tell).await?;
        bar.finish_and_clear();
        println!("{}", page::chaos_table(&rows));
        std::fs::write(out.join("chaos.json"), serde_json::to_string(&rows)?).context("chaos.json")?;
        let page = page::chaos_page(&rows, &this_command()).into_string();
        std::fs::write(out.join("report.html"), page).context("report.html")?;
        println!("{}", out.join("report.html").display());
        let of = |wanted: fn(&Row) -> bool| {
            let names: Vec<&str> = rows.iter().filter(|row| wanted(row)).map(|row| row.name).collect();
            names.join(", ")
        };
        let promises = of(|row| row.claim == Claim::Ours && row.verdict() == Verdict::Holds);
        println!("seed {seed}; promises of ours that no other column keeps: {promises}");
        let wrong = [
            ("broken", of(|row| matches!(row.verdict(), Verdict::Broken(_)))),
            ("worse than tuned Envoy", of(|row| matches!(row.verdict(), Verdict::Worse(_)))),
            ("promises that stock Envoy keeps too", of(|row| matches!(row.verdict(), Verdict::Shared(_)))),
            ("not run, which is no pass", of(|row| row.verdict() == Verdict::NotRun)),
        ];
        let wrong: Vec<String> = wrong
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(what, rows)| format!("{what}: {rows}"))
            .collect();
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("; ")) }
    }
}
