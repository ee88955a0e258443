//! `bloc-sim sweep`: a grid of cases, one CSV line each.

use super::case::CaseOptions;
use anyhow::Context;
use bloc_figures::service_time::ServiceTime;
use bloc_sim::load::Load;
use bloc_sim::policies::PolicyKind;
use bloc_sim::{Outcome, Scenario};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Simulates every combination and writes one CSV line for each, as soon as it is known.
#[derive(Debug, clap::Args)]
pub struct Sweep {
    /// The policies.
    #[arg(long, value_delimiter = ',', default_values = ["least_request", "bloc", "prequal", "jsq"])]
    policies: Vec<PolicyKind>,
    /// The loads.
    #[arg(long, value_delimiter = ',')]
    loads: Vec<Load>,
    /// The numbers of senders.
    #[arg(long, value_delimiter = ',')]
    sender_counts: Vec<u32>,
    /// The numbers of servers.
    #[arg(long, value_delimiter = ',')]
    server_counts: Vec<u32>,
    /// The service times.
    #[arg(long, value_delimiter = ',')]
    service_times: Vec<ServiceTime>,
    /// The seeds.
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,
    /// The options of all cases. Unless set, warm-up and duration scale with the service time, from
    /// their values for the nominal 250 ms.
    #[command(flatten)]
    case: CaseOptions,
    /// Write here instead of printing.
    #[arg(long)]
    csv: Option<PathBuf>,
}

/// One line. It repeats the outcome's columns, because CSV has no nesting.
#[derive(Serialize)]
struct Line {
    policy: &'static str,
    load: String,
    senders: u32,
    servers: u32,
    service_time: String,
    seed: u64,
    requests: u64,
    ok: u64,
    shed: u64,
    errors: u64,
    p10_ms: Option<f64>,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    mean_ms: Option<f64>,
    throughput_rps: f64,
    attempts_per_request: f64,
    probes_per_request: f64,
    max_in_server: u32,
    max_overshoot: f64,
}

impl Line {
    fn new(scenario: &Scenario, outcome: &Outcome) -> Self {
        Self {
            policy: scenario.policy.name(),
            load: scenario.load.to_string(),
            senders: scenario.senders,
            servers: scenario.servers,
            service_time: scenario.service_time.to_string(),
            seed: scenario.seed,
            requests: outcome.requests,
            ok: outcome.ok,
            shed: outcome.shed,
            errors: outcome.errors,
            p10_ms: outcome.p10_ms,
            p50_ms: outcome.p50_ms,
            p90_ms: outcome.p90_ms,
            p99_ms: outcome.p99_ms,
            mean_ms: outcome.mean_ms,
            throughput_rps: outcome.throughput_rps,
            attempts_per_request: outcome.attempts_per_request,
            probes_per_request: outcome.probes_per_request,
            max_in_server: outcome.max_in_server,
            max_overshoot: outcome.max_overshoot,
        }
    }
}

impl Sweep {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let cases = self.cases()?;
        for case in &cases {
            case.validate()?;
        }
        let into: Box<dyn Write> = match &self.csv {
            Some(path) => Box::new(std::fs::File::create(path).with_context(|| path.display().to_string())?),
            None => Box::new(std::io::stdout()),
        };
        let mut csv = csv::Writer::from_writer(into);
        for (number, case) in cases.iter().enumerate() {
            let outcome = bloc_sim::run(case)?;
            csv.serialize(Line::new(case, &outcome))?;
            csv.flush()?;
            eprintln!("{} of {} cases", number + 1, cases.len());
        }
        Ok(())
    }

    fn cases(&self) -> anyhow::Result<Vec<Scenario>> {
        let base = self.case.scenario(Scenario::default(), None)?;
        let mut cases = Vec::new();
        for &service_time in &or_one(&self.service_times, base.service_time) {
            let factor = service_time.mean().div_duration_f64(Scenario::default().service_time.mean());
            for &load in &or_one(&self.loads, base.load) {
                for &senders in &or_one(&self.sender_counts, base.senders) {
                    for &servers in &or_one(&self.server_counts, base.servers) {
                        for &seed in &or_one(&self.seeds, base.seed) {
                            for &policy in &self.policies {
                                cases.push(Scenario {
                                    service_time,
                                    load,
                                    senders,
                                    servers,
                                    seed,
                                    policy,
                                    warm_up: self.case.warm_up.unwrap_or(base.warm_up.mul_f64(factor)),
                                    duration: self.case.duration.unwrap_or(base.duration.mul_f64(factor)),
                                    ..base.clone()
                                });
                            }
                        }
                    }
                }
            }
        }
        Ok(cases)
    }
}

fn or_one<T: Copy>(values: &[T], default: T) -> Vec<T> {
    if values.is_empty() { vec![default] } else { values.to_vec() }
}
