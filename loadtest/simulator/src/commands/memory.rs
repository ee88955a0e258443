//! `bloc-sim memory`: the node agent's memory limits beside others.

use anyhow::ensure;
use bloc_figures::stats::{Spread, median};
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::memory::{RECLAIM, Rule};
use bloc_sim::memory::{self, AgentSettings, Allocator, Case, Outcome, Version};
use comfy_table::Table;
use std::time::Duration;

/// Simulates containers with one memory limit and use that grows in turns, with each way to set
/// their limits, and prints a table: medians of the seeds, and their range.
#[derive(Debug, clap::Args)]
pub struct Memory {
    /// What all containers may have together, as a multiple of the most that they want at once.
    #[arg(long, default_value_t = Case::default().room)]
    room: f64,
    /// Memory that a burst takes in a second.
    #[arg(long, default_value_t = Case::default().speed)]
    speed: Bytes,
    /// Containers.
    #[arg(long, default_value_t = Case::default().containers)]
    containers: usize,
    /// How long a burst stays.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    hold: Duration,
    /// From a container above its limit to the agent's answer.
    #[arg(long, default_value = "10ms", value_parser = humantime::parse_duration)]
    delay: Duration,
    /// The least that is measured.
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Parts of the limit that are kept for grants at the start.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().reserve])]
    reserve: Vec<f64>,
    /// What a container may grow by before it asks.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().margin])]
    margin: Vec<Bytes>,
    /// What a grant adds.
    #[arg(long, value_delimiter = ',', default_values_t = [Rule::default().step])]
    step: Vec<Bytes>,
    /// How often memory is reclaimed.
    #[arg(long, value_delimiter = ',', default_values_t = [humantime::Duration::from(RECLAIM)])]
    reclaim: Vec<humantime::Duration>,
    /// The margin while another container lacks memory; other than the agent, which keeps the
    /// margin.
    #[arg(long)]
    tight: Option<Bytes>,
    /// Steps above its use, at most, that a container gets that asks again and again; other than
    /// the agent, which grants up to one.
    #[arg(long, default_value_t = 1)]
    most_steps: u32,
    /// Version 1 of the control groups, which holds nothing up.
    #[arg(long)]
    v1: bool,
    /// One row for each of 36 regimes, with the first rule, instead.
    #[arg(long)]
    regimes: bool,
    /// Seeds.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
}

/// Containers, MiB in a second, and the limit as a multiple of what is wanted.
const CONTAINERS: [usize; 3] = [4, 16, 68];
const SPEEDS: [u64; 4] = [10, 100, 300, 1_024];
const ROOMS: [f64; 3] = [1.1, 1.5, 2.0];

/// The runs of all seeds; none if the agent refuses one.
type Runs = Option<Vec<Outcome>>;

impl Memory {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.seeds > 0, "--seeds: 0 is not allowed; allowed: 1 and more");
        ensure!(self.containers > 0, "--containers: 0 is not allowed; allowed: 1 and more");
        ensure!(self.room >= 1.0, "--room: {} is not allowed; allowed: 1 and more", self.room);
        ensure!(self.speed >= Bytes::mebi(1), "--speed: {} is not allowed; allowed: 1Mi and more", self.speed);
        println!("{}", if self.regimes { self.table_of_regimes() } else { self.table_of_allocators() });
        Ok(())
    }

    fn agents(&self) -> Vec<AgentSettings> {
        let version = if self.v1 { Version::One } else { Version::Two };
        let mut agents = Vec::new();
        for &reserve in &self.reserve {
            for &margin in &self.margin {
                for &step in &self.step {
                    agents.extend(self.reclaim.iter().map(|reclaim| AgentSettings {
                        rule: Rule { reserve, margin, step },
                        tight: self.tight.unwrap_or(margin).min(margin),
                        reclaim: **reclaim,
                        most_steps: self.most_steps,
                        version,
                    }));
                }
            }
        }
        agents
    }

    fn case(&self) -> Case {
        Case {
            containers: self.containers,
            room: self.room,
            speed: self.speed,
            hold: self.hold,
            delay: self.delay,
            duration: self.duration,
            ..Case::default()
        }
    }

    fn runs(&self, case: &Case, allocator: Allocator) -> Runs {
        (1..=self.seeds).map(|seed| memory::run(&Case { seed, ..case.clone() }, allocator).ok()).collect()
    }

    fn table_of_allocators(&self) -> Table {
        let case = self.case();
        let mut rows = vec![
            ("static, 1.5 peaks".to_owned(), Allocator::Peak(1.5)),
            ("limit / n".to_owned(), Allocator::Equal),
            ("autoscaler, 1 s".to_owned(), Allocator::Autoscaler),
        ];
        for agent in self.agents() {
            let Rule { reserve, margin, step } = agent.rule;
            let reclaim = humantime::Duration::from(agent.reclaim);
            let name = format!("agent, reserve {reserve}, margin {margin}, step {step}, reclaim {reclaim}");
            rows.push((name, Allocator::Agent(agent)));
        }
        let mut table = Table::new();
        table.set_header([
            "limits",
            "bursts",
            "kills",
            "slack p50",
            "slack p99",
            "mean sum",
            "sum",
            "used",
            "grants",
            "refused",
            "held up, ms a burst",
            "longest ms",
        ]);
        let fixed = self.runs(&case, Allocator::Peak(1.5));
        for (name, allocator) in rows {
            let runs = self.runs(&case, allocator);
            let cell = |digits, of| range(digits, &runs, of);
            let beside = |of| ratio(&runs, &fixed, of);
            table.add_row([
                name,
                cell(0, |run| run.bursts as f64),
                cell(0, |run| run.kills as f64),
                format!("{}; {}", cell(0, |run| run.slack_p50), beside(|run| run.slack_p50)),
                format!("{}; {}", cell(0, |run| run.slack_p99), beside(|run| run.slack_p99)),
                cell(2, |run| run.mean_sum),
                cell(2, |run| run.sum),
                cell(2, |run| run.used),
                cell(0, |run| run.grants as f64),
                cell(0, |run| run.refused as f64),
                cell(0, |run| run.held_ms),
                cell(0, |run| run.longest_ms as f64),
            ]);
        }
        table
    }

    fn table_of_regimes(&self) -> Table {
        let mut table = Table::new();
        table.set_header([
            "regime",
            "bursts",
            "kills: limit / n",
            "autoscaler",
            "agent",
            "slack p50, p99 MiB: static",
            "autoscaler",
            "agent",
            "agent / static",
            "agent / autoscaler",
            "mean sum",
            "held up, ms a burst",
            "longest ms",
        ]);
        let Some(agent) = self.agents().into_iter().next() else { return table };
        for containers in CONTAINERS {
            for room in ROOMS {
                for speed in SPEEDS {
                    let case = Case { containers, room, speed: Bytes::mebi(speed), ..self.case() };
                    let all = [Allocator::Peak(1.5), Allocator::Equal, Allocator::Autoscaler, Allocator::Agent(agent)];
                    let [fixed, equal, scaled, agent] = all.map(|allocator| self.runs(&case, allocator));
                    let kills = |runs: &Runs| range(0, runs, |run| run.kills as f64);
                    let slack = |runs: &Runs| {
                        format!("{}, {}", middle(runs, |run| run.slack_p50), middle(runs, |run| run.slack_p99))
                    };
                    let beside = |other: &Runs| {
                        let of: [fn(&Outcome) -> f64; 2] = [|run| run.slack_p50, |run| run.slack_p99];
                        of.map(|of| ratio(&agent, other, of)).join(", ")
                    };
                    table.add_row([
                        format!("{containers}, {room}, {speed} MiB/s"),
                        middle(&fixed, |run| run.bursts as f64),
                        kills(&equal),
                        kills(&scaled),
                        kills(&agent),
                        slack(&fixed),
                        slack(&scaled),
                        slack(&agent),
                        beside(&fixed),
                        beside(&scaled),
                        range(2, &agent, |run| run.mean_sum),
                        range(0, &agent, |run| run.held_ms),
                        range(0, &agent, |run| run.longest_ms as f64),
                    ]);
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
fn range(digits: usize, runs: &Runs, of: fn(&Outcome) -> f64) -> String {
    runs.as_ref().map_or("refused".to_owned(), |runs| shown(digits, &runs.iter().map(of).collect::<Vec<_>>()))
}

fn middle(runs: &Runs, of: fn(&Outcome) -> f64) -> String {
    let median = runs.as_ref().and_then(|runs| median(&runs.iter().map(of).collect::<Vec<_>>()));
    median.map_or("-".to_owned(), |median| format!("{median:.0}"))
}

/// The same of the ratios, seed by seed.
fn ratio(runs: &Runs, beside: &Runs, of: fn(&Outcome) -> f64) -> String {
    let shown = |(runs, beside): (&Vec<_>, &Vec<_>)| {
        shown(2, &runs.iter().zip(beside).map(|(a, b)| of(a) / of(b)).collect::<Vec<_>>())
    };
    runs.as_ref().zip(beside.as_ref()).map_or("-".to_owned(), shown)
}
