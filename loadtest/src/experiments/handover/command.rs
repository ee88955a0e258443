//! `bloc-lab handover`.

use super::{Options, Round, Sidecar, Summary, Variant};
use crate::console::{bar, run_directory, tools};
use anyhow::Context;
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::{duration, number};
use bloc_mesh::target_directory;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Measure the time between two requests of a busy application, with the queue in its sidecar and
/// in itself.
#[derive(Debug, Args)]
pub struct HandoverCommand {
    /// Worker threads of each Envoy, one table each; 1 to 16 each
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = |text: &str| number::<usize>(text, 1, 16))]
    workers: Vec<usize>,
    /// How long the application takes for a request, one at a time; 0s to 1s
    #[arg(long, default_value = "5ms", value_parser = |text: &str| duration(text, Duration::ZERO, Duration::from_secs(1)))]
    service_time: Duration,
    /// Clients that send their next request at once; 1 to 1000
    #[arg(long, default_value = "20", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    clients: usize,
    /// Rounds; each loads every sidecar; 1 to 1000
    #[arg(long, default_value = "5", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    rounds: usize,
    /// How long each load lasts; 100ms to 1h
    #[arg(long, default_value = "2s", value_parser = |text: &str| duration(text, Duration::from_millis(100), Duration::from_secs(3600)))]
    duration: Duration,
    /// Other modules that hold the queue, such as one from before a change
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,
    /// Where the figures go; default target/handover.json
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One sidecar's figures.
#[derive(Serialize)]
struct Row {
    workers: usize,
    variant: String,
    #[serde(flatten)]
    summary: Summary,
    rounds: Vec<Round>,
}

impl HandoverCommand {
    /// Measures, prints, writes.
    pub async fn run(self) -> anyhow::Result<()> {
        let tools = tools()?;
        tools.need(Policy::Mu, false)?;
        let (module, others) = (tools.module.clone(), self.module.iter().cloned());
        let holding = std::iter::once(module.clone()).chain(others).map(Variant::Holds);
        let variants: Vec<Variant> =
            [Variant::NoFilter, Variant::Measures(module)].into_iter().chain(holding).collect();
        let Self { service_time, clients, duration, .. } = self;
        let options = Options { service_time, clients, duration };
        let bar = bar("handover".into());
        bar.set_length((self.workers.len() * self.rounds * variants.len()) as u64);
        let mut all: Vec<Row> = Vec::new();
        for &workers in &self.workers {
            let mut sidecars = Vec::new();
            for (n, variant) in variants.iter().enumerate() {
                let directory = run_directory("handover").join(format!("{workers}-{n}"));
                let sidecar = Sidecar::start(&tools.envoy, &directory, variant, workers, service_time).await?;
                sidecars.push((variant, sidecar, Vec::new()));
            }
            for round in 0..self.rounds {
                // Each variant goes first equally often.
                sidecars.rotate_left(usize::from(round > 0));
                for (_, sidecar, rounds) in &mut sidecars {
                    rounds.extend(sidecar.measure(options).await?);
                    bar.inc(1);
                }
            }
            sidecars.sort_by_key(|(variant, ..)| variants.iter().position(|one| one == *variant));
            for (variant, sidecar, rounds) in sidecars {
                let summary = Summary::new(&rounds).context("the application was never busy")?;
                sidecar.end().await;
                all.push(Row { workers, variant: variant.name(), summary, rounds });
            }
        }
        bar.finish_and_clear();
        println!("microseconds between two executions, medians of {} rounds; Envoy per request", self.rounds);
        for Row { workers, variant, summary: Summary { median, range_us: [low, high] }, .. } in &all {
            let Round { gap_p50_us, gap_p90_us, gap_mean_us, cpu_us, sleeps } = median;
            println!(
                "{workers} workers  {variant:<24} p50 {gap_p50_us:>6.0} ({low:.0} to {high:.0})  p90 {gap_p90_us:>6.0}  \
                 mean {gap_mean_us:>6.0}  CPU {cpu_us:>4.0}  sleeps {sleeps:.2}"
            );
        }
        let json = self.json.unwrap_or_else(|| target_directory().join("handover.json"));
        std::fs::write(&json, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("--json {}", json.display()))?;
        println!("{}", json.display());
        Ok(())
    }
}
