//! All turns of all rounds.

use super::allocator::Allocator;
use super::claims::Measured;
use super::figures::{Figure, Turn};
use super::memory::allocator::MemoryAllocator;
use super::memory::testbed as memory;
use super::name::Name;
use super::node;
use super::plan::Plan;
use super::qos;
use super::testbed::{self, Programs};
use crate::experiments::follow;
use crate::timeline::Point;
use anyhow::{Context, ensure};
use bloc_mesh::cgroups::Containers;
use bloc_mesh::policy::Policy;
use bloc_mesh::{Tools, ToolsMissing, seeds};
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Order {
    /// The load.
    pub plan: Plan,
    /// How often.
    pub rounds: usize,
    /// The seed of the first round.
    pub seed: u64,
    /// Whom.
    pub names: Vec<Name>,
    /// `bloc-lab`.
    pub lab: PathBuf,
    /// `bloc-node-agent`.
    pub agent: PathBuf,
    /// `bloc-control-plane`.
    pub control_plane: PathBuf,
    /// Parameters of its rule about CPU, as in YAML.
    pub rule: String,
    /// Parameters of its rule about memory.
    pub memory_rule: String,
    /// Shares that it moves in a second.
    pub qos_step: u32,
    /// Changes of the quota in a turn about delays.
    pub changes: usize,
    /// Where files and logs go.
    pub directory: PathBuf,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// How often it was measured.
    pub rounds: usize,
    /// The version of the control groups.
    pub cgroups: &'static str,
    /// The most that each container used in 100 ms without a quota, in cores.
    pub peaks: Vec<f64>,
    /// The most memory that each container used without a limit, in bytes.
    pub memory_peaks: Vec<u64>,
    /// What went wrong, which leaves the figures of a turn out.
    pub failed: Vec<String>,
    /// The figures.
    pub measured: Vec<Measured>,
    /// The quotas, limits or shares of each container over time, in the first round.
    #[serde(skip)]
    pub limits: Vec<(Name, Vec<Vec<Point>>)>,
    /// Late requests of each second, in the first round.
    #[serde(skip)]
    pub late: Vec<(Name, Vec<Vec<Point>>)>,
}

impl Order {
    /// Measures all in turns. Every second round reverses the order.
    ///
    /// # Errors
    /// No groups can be made here, a program is missing, or the peaks cannot be measured.
    pub async fn run(&self, bar: &ProgressBar) -> anyhow::Result<Results> {
        let cgroups = Containers::new()?.version();
        let missing = |path: &Path| ToolsMissing::Unbuilt { path: path.display().to_string(), command: "make release" };
        if self.names.iter().any(|name| name.has_agent()) && !self.agent.is_file() {
            return Err(missing(&self.agent).into());
        }
        if self.names.contains(&Name::Of(Allocator::NodesLeases)) && !self.control_plane.is_file() {
            return Err(missing(&self.control_plane).into());
        }
        if self.names.iter().any(|name| name.kind().has_sidecars()) {
            self.tools()?.need(Policy::Bloc, true)?;
        }
        ensure!(self.rounds > 0 && !self.names.is_empty(), "there is nothing to measure");
        let measured = self.names.iter().map(|name| Measured { name: *name, turns: Vec::new() }).collect();
        let mut results = Results {
            rounds: self.rounds,
            cgroups,
            peaks: Vec::new(),
            memory_peaks: Vec::new(),
            failed: Vec::new(),
            measured,
            limits: Vec::new(),
            late: Vec::new(),
        };
        if self.names.contains(&Name::Of(Allocator::Static)) {
            bar.set_message("peaks without quotas");
            results.peaks = testbed::peaks(self.programs(), &self.place("peaks", 0)?, self.plan, self.seed).await?;
        }
        if self.names.contains(&Name::Memory(MemoryAllocator::Static)) {
            bar.set_message("peaks without limits");
            let place = self.place("memory-peaks", 0)?;
            results.memory_peaks = memory::peaks(self.memory_programs(), &place, self.plan).await?;
        }
        bar.set_length((self.rounds * self.names.len()) as u64);
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..self.names.len()).collect();
            if round % 2 != 0 {
                order.reverse();
            }
            for place in order {
                let name = self.names[place];
                bar.set_message(name.name());
                // If it fails, the others go on; a round without figures has no median.
                let (turn, shown) = match self.turn(name, round, &mut results).await {
                    Ok(turn) => (turn.clone(), shown(&turn)),
                    Err(error) => (Turn::new(), format!("{error:#}")),
                };
                let shown = format!("{}, round {}: {shown}", name.name(), round + 1);
                bar.inc(1);
                bar.suspend(|| eprintln!("{shown}"));
                if turn.is_empty() {
                    results.failed.push(shown);
                }
                results.measured[place].turns.push(turn);
            }
        }
        Ok(results)
    }

    async fn turn(&self, name: Name, round: usize, results: &mut Results) -> anyhow::Result<Turn> {
        let directory = self.place(name.name(), round)?;
        let seed = seeds::round(self.seed, round);
        let (turn, limits) = match name {
            Name::Follow(case) => {
                let tools = self.tools()?;
                let programs = follow::testbed::Programs { tools: &tools, agent: &self.agent };
                return follow::turn::turn(programs, &directory, case, self.changes, seed).await;
            }
            Name::Cost => return node::cost(self.programs(), &directory, self.plan.every).await,
            Name::Of(allocator) => {
                let turn = testbed::turn(self.programs(), &directory, self.plan, seed, allocator, &results.peaks);
                turn.await.map(|(turn, seen)| (turn, seen.quotas))?
            }
            Name::Memory(allocator) => {
                let programs = self.memory_programs();
                let turn = memory::turn(programs, &directory, self.plan, allocator, &results.memory_peaks);
                turn.await.map(|(turn, seen)| (turn, seen.limits))?
            }
            Name::Qos(case) => {
                let (tools, plan) = (self.tools()?, qos::plan::plan(self.plan));
                let programs = qos::testbed::Programs { tools: &tools, agent: &self.agent, step: self.qos_step };
                let turn = qos::turn::turn(programs, &directory, plan, seed, case);
                let (turn, charts) = turn.await?;
                if round == 0 {
                    results.late.push((name, charts.late));
                }
                (turn, charts.shares)
            }
        };
        if round == 0 {
            results.limits.push((name, limits));
        }
        Ok(turn)
    }

    fn programs(&self) -> Programs<'_> {
        Programs { lab: &self.lab, agent: &self.agent, control_plane: &self.control_plane, rule: &self.rule }
    }

    fn tools(&self) -> Result<Tools, ToolsMissing> {
        Tools::beside(&self.lab)
    }

    fn memory_programs(&self) -> Programs<'_> {
        Programs { rule: &self.memory_rule, ..self.programs() }
    }

    fn place(&self, name: &str, round: usize) -> anyhow::Result<PathBuf> {
        let directory = self.directory.join(format!("{name}-{}", round + 1));
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }
}

/// A turn in a line.
fn shown(turn: &Turn) -> String {
    let value = |(figure, digits): (Figure, usize)| {
        turn.get(&figure).map(|value| format!("{} {value:.digits$}", figure.title()))
    };
    let values: Vec<String> = Figure::SHOWN.into_iter().filter_map(value).collect();
    values.join("; ")
}
