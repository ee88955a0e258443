//! `bloc-sim quota`: the node agent's CPU quotas beside others.

use anyhow::{bail, ensure};
use bloc_figures::service_time::ServiceTime;
use bloc_figures::stats::{Spread, median};
use bloc_node_agent::Cores;
use bloc_node_agent::cpu::Rule;
use bloc_sim::quota::{self, Allocator, Case, Outcome, Over};
use comfy_table::Table;
use std::time::Duration;

/// Simulates containers with one CPU limit and bursts that wander, with each way to set their
/// quotas, and prints a table: medians of the seeds, and ratios to a static quota of 1.5 peaks.
#[derive(Debug, clap::Args)]
pub struct Quota {
    /// What all containers may have together; a quarter of a core each if not given.
    #[arg(long)]
    limit: Option<Cores>,
    /// CPU that a container uses without a burst.
    #[arg(long, default_value = "60m")]
    base: Cores,
    /// CPU that it uses in a burst.
    #[arg(long, default_value = "600m")]
    peak: Cores,
    /// CPU time of a request.
    #[arg(long, default_value = "exponential:10ms")]
    work: ServiceTime,
    /// Containers.
    #[arg(long, default_value_t = 4)]
    containers: usize,
    /// Requests that a container works on at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long a client waits for its answer.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// What is measured.
    #[arg(long, default_value = "20m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// A quota that is written is not filled up at once, other than in the kernel.
    #[arg(long)]
    no_refill: bool,
    /// Parts of what is free that a throttled container gets.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().grow])]
    grow: Vec<f64>,
    /// Parts of the mean slack that are taken.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().shrink])]
    shrink: Vec<f64>,
    /// Slack that is left alone.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().slack])]
    slack: Vec<Cores>,
    /// Steps of the means.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().window])]
    window: Vec<usize>,
    /// Numbers of nodes, with an agent each: the limit in equal parts, and leased.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
    /// One row for each of eleven regimes, with the first rule, instead.
    #[arg(long)]
    regimes: bool,
    /// Seeds.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

/// What differs from the case of the command line: burst and base in thousandths of a core, a
/// request in milliseconds, containers, threads.
const REGIMES: [(u32, u32, u64, usize, usize); 11] = [
    (600, 60, 10, 4, 2),
    (400, 60, 10, 4, 2),
    (800, 60, 10, 4, 2),
    (600, 30, 10, 4, 2),
    (600, 100, 10, 4, 2),
    (600, 60, 1, 4, 2),
    (600, 60, 50, 4, 2),
    (600, 60, 10, 16, 2),
    (600, 60, 10, 68, 2),
    (600, 60, 10, 4, 1),
    (600, 60, 10, 4, 8),
];

impl Quota {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        ensure!(self.containers > 0, "--containers: 0 is not allowed; allowed: 1 and more");
        if let Some(nodes) = self.nodes.iter().find(|nodes| !(1..=self.containers).contains(*nodes)) {
            bail!("--nodes: {nodes} is not allowed; allowed: 1 to --containers, {}", self.containers);
        }
        ensure!(self.threads > 0, "--threads: 0 is not allowed; allowed: 1 and more");
        ensure!(self.peak > Cores::ZERO, "--peak: 0 is not allowed; allowed: more");
        ensure!(self.peak >= self.base, "--base: {} is more than --peak: {}", self.base, self.peak);
        let table = if self.regimes { self.table_of_regimes() } else { self.table_of_allocators() };
        println!("{table}");
        Ok(())
    }

    fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for &grow in &self.grow {
            for &shrink in &self.shrink {
                for &slack in &self.slack {
                    rules.extend(self.window.iter().map(|&window| Rule { grow, shrink, slack, window }));
                }
            }
        }
        rules
    }

    fn case(&self) -> Case {
        Case {
            containers: self.containers,
            limit: self.limit.unwrap_or(Cores::new(self.containers as f64 * 0.25)),
            base: self.base.get(),
            peak: self.peak.get(),
            work: self.work,
            threads: self.threads,
            patience: self.patience,
            duration: self.duration,
            refill: !self.no_refill,
            ..Case::default()
        }
    }

    fn runs(&self, case: &Case, allocator: Allocator) -> Vec<Outcome> {
        (1..=self.seeds).map(|seed| quota::run(&Case { seed, ..case.clone() }, allocator)).collect()
    }

    /// The agent, when the limit is what static quotas have in sum.
    fn same_sum(&self, case: &Case, fixed: &[Outcome], rule: Rule) -> Vec<Outcome> {
        let limit = |fixed: &Outcome| Cores::new(fixed.sum * case.limit.get());
        let run =
            |(seed, fixed)| quota::run(&Case { seed, limit: limit(fixed), ..case.clone() }, Allocator::Agent(rule));
        (1..).zip(fixed).map(run).collect()
    }

    fn table_of_allocators(&self) -> Table {
        let case = self.case();
        let fixed = self.runs(&case, Allocator::Peak(1.5));
        let node = case.limit * 2.0;
        let mut rows = vec![
            ("limit / n".to_owned(), self.runs(&case, Allocator::Equal)),
            ("limit / n, cfs_burst".to_owned(), self.runs(&case, Allocator::Burst)),
            ("autoscaler, 1 s".to_owned(), self.runs(&case, Allocator::Autoscaler)),
            (format!("Koordinator, a node of {node}"), self.runs(&case, Allocator::Koordinator { node })),
        ];
        for rule in self.rules() {
            let Rule { grow, shrink, slack, window } = rule;
            let name = format!("agent, grow {grow}, shrink {shrink}, slack {slack}, window {window}");
            rows.push((format!("{name}, limit as static"), self.same_sum(&case, &fixed, rule)));
            rows.push((name, self.runs(&case, Allocator::Agent(rule))));
            for &nodes in &self.nodes {
                for (over, how) in [(Over::Equal, "an equal part each"), (Over::Leases, "leases")] {
                    let allocator = Allocator::Nodes { nodes, over, rule };
                    rows.push((format!("{nodes} nodes with agents, {how}"), self.runs(&case, allocator)));
                }
            }
        }
        rows.insert(0, ("static, 1.5 peaks".to_owned(), fixed.clone()));
        let mut table = Table::new();
        table.set_header([
            "quotas",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "answered",
            "slack p50",
            "slack p99",
            "throttled",
            "sum",
            "used",
            "writes/s",
        ]);
        for (name, runs) in rows {
            let of = |of| median_of(&runs, of);
            let ratio = |of| ratios(&runs, &fixed, of).map_or(f64::NAN, |ratios| ratios.median);
            let cell = |what| format!("{:.3} ({:.2})", of(what), ratio(what));
            table.add_row([
                name,
                cell(|run| run.p50_ms),
                cell(|run| run.p99_ms),
                cell(|run| run.p999_ms),
                format!("{:.3}", of(share)),
                cell(|run| run.slack_p50),
                cell(|run| run.slack_p99),
                format!("{:.3}", of(|run| run.throttled)),
                format!("{:.2}", of(|run| run.sum)),
                format!("{:.2}", of(|run| run.used)),
                format!("{:.2}", of(|run| run.writes)),
            ]);
        }
        table
    }

    fn table_of_regimes(&self) -> Table {
        let mut table = Table::new();
        table.set_header([
            "regime",
            "static: p99.9 ms, slack",
            "agent, same sum: p99.9",
            "slack p50",
            "agent: p99.9",
            "slack p50",
            "answers / (limit / n)",
            "answered",
            "used",
        ]);
        for rule in self.rules().into_iter().take(1) {
            for (peak, base, work, containers, threads) in REGIMES {
                let case = Case {
                    containers,
                    limit: Cores::new(containers as f64 * 0.25),
                    base: Cores::milli(base).get(),
                    peak: Cores::milli(peak).get(),
                    work: ServiceTime::Exponential(Duration::from_millis(work)),
                    threads,
                    ..self.case()
                };
                let fixed = self.runs(&case, Allocator::Peak(1.5));
                let equal = self.runs(&case, Allocator::Equal);
                let same = self.same_sum(&case, &fixed, rule);
                let agent = self.runs(&case, Allocator::Agent(rule));
                let range = |runs: &[Outcome], beside: &[Outcome], of: fn(&Outcome) -> f64| {
                    ratios(runs, beside, of).map_or_else(|| "-".to_owned(), |ratios| ratios.shown(2))
                };
                table.add_row([
                    format!("{peak}m / {base}m, {work} ms, {containers} x {threads}"),
                    format!(
                        "{:.0}, {:.2}",
                        median_of(&fixed, |run| run.p999_ms),
                        median_of(&fixed, |run| run.slack_p50)
                    ),
                    range(&same, &fixed, |run| run.p999_ms),
                    range(&same, &fixed, |run| run.slack_p50),
                    range(&agent, &fixed, |run| run.p999_ms),
                    range(&agent, &fixed, |run| run.slack_p50),
                    range(&agent, &equal, |run| run.answered as f64),
                    format!("{:.3}", median_of(&agent, share)),
                    format!("{:.2}", median_of(&agent, |run| run.used)),
                ]);
            }
        }
        table
    }
}

/// The share of the requests that was answered.
fn share(run: &Outcome) -> f64 {
    run.answered as f64 / run.requests as f64
}

/// The median ratio and its range, seed by seed.
fn ratios(runs: &[Outcome], beside: &[Outcome], of: fn(&Outcome) -> f64) -> Option<Spread> {
    Spread::of(&runs.iter().zip(beside).map(|(run, beside)| of(run) / of(beside)).collect::<Vec<_>>())
}

/// The median of the seeds; NaN without any.
fn median_of(runs: &[Outcome], of: fn(&Outcome) -> f64) -> f64 {
    median(&runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}
