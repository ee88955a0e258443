//! `bloc-sim qos`: the node agent's CPU shares beside others.

use anyhow::ensure;
use bloc_figures::stats::Spread;
use bloc_node_agent::qos::Rule;
use bloc_sim::qos::{self, Allocator, Case, Hot, Outcome};
use comfy_table::Table;
use std::time::Duration;

/// Simulates an application on a node that is contended, with each way to set the CPU shares of its
/// containers, and prints a table: medians of the seeds, their range, and ratios to shares that
/// stay at what is requested.
#[derive(Debug, clap::Args)]
pub struct Qos {
    /// What all containers of the node request, as a part of its cores.
    #[arg(long, default_value_t = Case::default().requested)]
    requested: f64,
    /// What the container outside of the application requests, as a part of that; 0: there is none.
    #[arg(long, default_value_t = Case::default().outside)]
    outside: f64,
    /// Cores of the node.
    #[arg(long, default_value_t = Case::default().cores)]
    cores: f64,
    /// Containers of the application.
    #[arg(long, default_value_t = Case::default().containers)]
    containers: usize,
    /// Cores that one of them uses at most.
    #[arg(long, default_value_t = Case::default().threads)]
    threads: f64,
    /// CPU that the application wants, as a part of what its requests give it at least.
    #[arg(long, default_value_t = Case::default().load)]
    load: f64,
    /// How long a container is hot.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    burst: Duration,
    /// The first container is slow for ever, instead.
    #[arg(long)]
    slow: bool,
    /// Mean CPU time of a request.
    #[arg(long, default_value = "20ms", value_parser = humantime::parse_duration)]
    work: Duration,
    /// The agent knows all answers, instead of those that sidecars have reported.
    #[arg(long)]
    no_delay: bool,
    /// The least that is measured.
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Mean response time that is to be kept.
    #[arg(long, default_value = "100ms", value_parser = humantime::parse_duration)]
    target: Duration,
    /// Parts of it from which on a container is late.
    #[arg(long, value_delimiter = ',', default_values_t = [1.1, 1.2, 1.8])]
    threshold: Vec<f64>,
    /// What one gives or gets, in per cent of its requests; with equal steps and in the paper, in
    /// shares.
    #[arg(long, value_delimiter = ',', default_values_t = [10.0, 50.0])]
    step: Vec<f64>,
    /// One row for each of many regimes, instead.
    #[arg(long)]
    regimes: bool,
    /// Seeds.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

/// Parts of the node that are requested, containers, loads, and seconds of a burst (0: one is
/// slow).
const REQUESTED: [f64; 3] = [0.5, 0.75, 1.0];
const CONTAINERS: [usize; 3] = [2, 4, 8];
const LOADS: [f64; 5] = [0.7, 0.8, 0.9, 1.0, 1.3];
const BURSTS: [u64; 4] = [20, 60, 300, 0];

impl Qos {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        ensure!(self.containers > 0, "--containers: 0 is not allowed; allowed: 1 and more");
        ensure!(self.threads > 0.0, "--threads: {} is not allowed; allowed: more than 0", self.threads);
        ensure!(self.cores >= 1.0, "--cores: {} is not allowed; allowed: 1 and more", self.cores);
        ensure!(self.requested > 0.0, "--requested: {} is not allowed; allowed: more than 0", self.requested);
        ensure!((0.0..1.0).contains(&self.outside), "--outside: {} is not allowed; allowed: 0 to 1", self.outside);
        ensure!(self.load > 0.0, "--load: {} is not allowed; allowed: more than 0", self.load);
        ensure!(self.burst >= Duration::from_secs(1), "--burst: allowed: 1s and more");
        ensure!(!self.work.is_zero(), "--work: 0 is not allowed; allowed: more");
        println!("{}", if self.regimes { self.table_of_regimes() } else { self.table_of_allocators() });
        Ok(())
    }

    fn case(&self) -> Case {
        Case {
            cores: self.cores,
            requested: self.requested,
            outside: self.outside,
            containers: self.containers,
            threads: self.threads,
            load: self.load,
            hot: if self.slow { Hot::Slow } else { Hot::Wanders(self.burst) },
            work: self.work,
            target: self.target,
            delayed: !self.no_delay,
            duration: self.duration,
            ..Case::default()
        }
    }

    fn runs(&self, case: &Case, allocator: Allocator) -> Vec<Outcome> {
        std::thread::scope(|scope| {
            let run = |seed| scope.spawn(move || qos::run(&Case { seed, ..case.clone() }, allocator));
            let runs: Vec<_> = (1..=self.seeds).map(run).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    fn table_of_allocators(&self) -> Table {
        let case = self.case();
        let mut rows = vec![("requests".to_owned(), Allocator::Requests), ("oracle".to_owned(), Allocator::Oracle)];
        for &step in &self.step {
            for &threshold in &self.threshold {
                let rule = Rule { target: self.target, threshold, step };
                rows.push((format!("agent, threshold {threshold}, step {step}"), Allocator::Agent(rule)));
            }
        }
        for &step in &self.step {
            let rule = Rule { step, ..Rule::new(self.target) };
            rows.push((format!("equal steps of {step}"), Allocator::Steps(rule)));
            rows.push((format!("paper, steps of {step}"), Allocator::Paper(rule)));
        }
        let mut table = Table::new();
        table.set_header([
            "shares",
            "violations",
            "over requests",
            "left",
            "mean ms",
            "p99 ms",
            "worst",
            "cores",
            "outside: cores",
            "p99 ms",
            "sum",
        ]);
        let unaided = self.runs(&case, Allocator::Requests);
        for (name, allocator) in rows {
            let runs = self.runs(&case, allocator);
            table.add_row([
                name,
                range(3, &runs, |run| run.violations as f64 / run.requests as f64),
                ratio(&runs, &unaided, |run| run.violations as f64),
                range(3, &runs, |run| run.left as f64 / run.requests as f64),
                range(0, &runs, |run| run.mean_ms),
                range(0, &runs, |run| run.p99_ms),
                range(2, &runs, |run| run.worst),
                range(2, &runs, |run| run.cores),
                range(2, &runs, |run| run.outside_cores),
                range(0, &runs, |run| run.outside_p99_ms),
                range(2, &runs, |run| run.sum),
            ]);
        }
        table
    }

    fn table_of_regimes(&self) -> Table {
        let mut table = Table::new();
        table.set_header([
            "regime",
            "violations",
            "worst",
            "agent: violations",
            "mean",
            "p99",
            "worst",
            "outside: cores over its part",
            "over requests",
            "p99",
            "equal steps",
            "oracle",
        ]);
        let rule = Rule::new(self.target);
        for requested in REQUESTED {
            for containers in CONTAINERS {
                for load in LOADS {
                    for burst in BURSTS {
                        let hot = if burst == 0 { Hot::Slow } else { Hot::Wanders(Duration::from_secs(burst)) };
                        let case = Case { requested, containers, load, hot, ..self.case() };
                        let all =
                            [Allocator::Requests, Allocator::Agent(rule), Allocator::Steps(rule), Allocator::Oracle];
                        let [unaided, agent, steps, oracle] = all.map(|allocator| self.runs(&case, allocator));
                        let violations = |runs: &[Outcome]| ratio(runs, &unaided, |run| run.violations as f64);
                        let beside = |of| ratio(&agent, &unaided, of);
                        let part = case.cores * case.outside;
                        let burst = if burst == 0 { "slow".to_owned() } else { format!("{burst} s") };
                        table.add_row([
                            format!("{requested}, {containers}, {load}, {burst}"),
                            range(3, &unaided, |run| run.violations as f64 / run.requests as f64),
                            range(2, &unaided, |run| run.worst),
                            violations(&agent),
                            beside(|run| run.mean_ms),
                            beside(|run| run.p99_ms),
                            range(2, &agent, |run| run.worst),
                            range(2, &agent, |run| run.outside_cores / part),
                            beside(|run| run.outside_cores),
                            beside(|run| run.outside_p99_ms),
                            violations(&steps),
                            violations(&oracle),
                        ]);
                    }
                }
            }
        }
        table
    }
}

fn shown(digits: usize, values: &[f64]) -> String {
    Spread::of(values).map_or_else(|| "-".to_owned(), |spread| spread.brief(digits))
}

/// The median, and the range if there is one.
fn range(digits: usize, runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> String {
    shown(digits, &runs.iter().map(of).collect::<Vec<_>>())
}

/// The same of the ratios, seed by seed.
fn ratio(runs: &[Outcome], beside: &[Outcome], of: fn(&Outcome) -> f64) -> String {
    shown(2, &runs.iter().zip(beside).map(|(a, b)| of(a) / of(b)).collect::<Vec<_>>())
}
