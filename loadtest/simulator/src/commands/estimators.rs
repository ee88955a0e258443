//! `bloc-sim estimators`: our capacity estimators beside published ones.

use anyhow::ensure;
use bloc_figures::service_time::ServiceTime;
use bloc_sim::estimators::{self, PHASES, Source};
use clap::ValueEnum;
use comfy_table::Table;
use std::time::Duration;

/// Simulates capacity estimators under overload, light load, overload again and a slow-down, and
/// prints a table for each service time.
#[derive(Debug, clap::Args)]
pub struct Estimators {
    /// The estimators.
    #[arg(long, value_delimiter = ',')]
    sources: Vec<Source>,
    /// The service times.
    #[arg(long, value_delimiter = ',', default_values = ["fixed:250ms", "uniform:40ms-650ms", "normal:250ms/125ms"])]
    service_times: Vec<ServiceTime>,
    /// How long each phase lasts.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    phase: Duration,
    /// The number of seeds, from 1 on, that the means cover.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

impl Estimators {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        let sources = if self.sources.is_empty() { Source::value_variants() } else { &self.sources };
        eprintln!("seeds 1 to {}", self.seeds);
        for &service_time in &self.service_times {
            let slo = humantime::format_duration(service_time.mean() * estimators::SLO);
            println!("{service_time}, SLO {slo}");
            println!("{}", self.table(sources, service_time)?);
        }
        Ok(())
    }

    fn table(&self, sources: &[Source], service_time: ServiceTime) -> anyhow::Result<Table> {
        let mut table = Table::new();
        table.set_header(["capacity", "load", "speed", "goodput", "p50 ms", "p99 ms", "shed", "in time", "at the end"]);
        for &source in sources {
            let runs: Vec<_> = (1..=self.seeds)
                .map(|seed| {
                    estimators::simulate(source, &estimators::scenario(service_time, self.phase, seed), self.phase)
                })
                .collect::<Result<_, _>>()?;
            let name = source.to_possible_value().map(|name| name.get_name().to_owned()).unwrap_or_default();
            for (place, (load, speed)) in PHASES.iter().enumerate() {
                let phases: Vec<_> = runs.iter().map(|phases| phases[place]).collect();
                let mean = estimators::mean(&phases);
                table.add_row([
                    name.clone(),
                    load.to_string(),
                    speed.to_string(),
                    format!("{:.3}", mean.goodput),
                    format!("{:.0}", mean.p50_ms),
                    format!("{:.0}", mean.p99_ms),
                    format!("{:.3}", mean.shed),
                    format!("{:.3}", mean.in_time),
                    mean.capacity.map_or_else(|| "none".to_owned(), |capacity| format!("{capacity:.1}")),
                ]);
            }
        }
        Ok(table)
    }
}
