//! Who sets the quotas: the node agent, and what it is compared with.

use super::case::FLOOR;
use super::cgroup::{Counters, PERIOD};
use super::nodes::{Nodes, Over, interval, set_changes};
use bloc_node_agent::Cores;
use bloc_node_agent::cpu::{App, Rule, Start};
use std::collections::VecDeque;

/// A way to set quotas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allocator {
    /// Each container has this many times its own measured peak, whatever the limit is.
    Peak(f64),
    /// Each has an equal part of the limit.
    Equal,
    /// The same, and may use what it did not use before, up to one period's quota
    /// (`cpu.cfs_burst_us`).
    Burst,
    /// Each second: the largest use of the last ten seconds and a fifth, all scaled to the limit.
    Autoscaler,
    /// Koordinator's `cfsQuotaBurst` on top of an equal part. Each second a container that was
    /// throttled in the last one gets a fifth more, up to three times its part. While the node is
    /// used by half and more, all lose a fifth, down to their part; from 0.45 on, nothing grows. It
    /// knows of no limit of all, and breaks it.
    Koordinator {
        /// What the node has.
        node: Cores,
    },
    /// The node agent.
    Agent(Rule),
    /// The node agents of several nodes.
    Nodes {
        /// How many.
        nodes: usize,
        /// Who divides the limit between them.
        over: Over,
        /// Each agent's rule.
        rule: Rule,
    },
}

/// What an [`Allocator`] remembers.
pub enum State {
    /// Nothing.
    Fixed,
    /// Uses of the last ten seconds, of each container.
    Autoscaler(VecDeque<Vec<f64>>),
    /// What was counted in this second.
    Koordinator {
        /// What the node has.
        node: Cores,
        /// Each one's part, its quota, and whether it was throttled.
        containers: Vec<(Cores, Cores, bool)>,
        /// CPU time of all.
        used: f64,
    },
    /// The agent's.
    Agent(App<usize>),
    /// The agents'.
    Nodes(Nodes),
}

/// The steps of 100 ms in which the autoscaler looks back, and those between two of its decisions.
const BACK: usize = 100;
const EACH: usize = 10;
const MARGIN: f64 = 1.2;
/// Koordinator's factors, the most, and the shares of the node's use.
const UP: f64 = 1.2;
const DOWN: f64 = 0.8;
const MOST: f64 = 3.0;
const HIGH: f64 = 0.5;
const COOLING: f64 = 0.45;

impl Allocator {
    /// The first quotas, given the peak use of each container and the limit of all.
    pub fn start(self, peaks: &[f64], limit: Cores) -> (State, Vec<Cores>) {
        let part = limit * (1.0 / peaks.len() as f64);
        let equal = vec![part; peaks.len()];
        match self {
            Self::Peak(factor) => (State::Fixed, peaks.iter().map(|peak| Cores::new(peak * factor)).collect()),
            Self::Equal | Self::Burst => (State::Fixed, equal),
            Self::Autoscaler => (State::Autoscaler(VecDeque::new()), equal),
            Self::Koordinator { node } => {
                (State::Koordinator { node, containers: vec![(part, part, false); peaks.len()], used: 0.0 }, equal)
            }
            Self::Agent(rule) => {
                let mut app = App::new(rule, limit);
                // The containers are idle when they come, one after the other.
                let start = Start { used: Cores::ZERO, least: FLOOR, most: Cores::new(64.0) };
                for key in 0..peaks.len() {
                    let _ = app.attach(&[(key, start)]);
                }
                let quotas = (0..peaks.len()).map(|key| app.quota(&key).unwrap_or(FLOOR)).collect();
                (State::Agent(app), quotas)
            }
            Self::Nodes { nodes, over, rule } => {
                let nodes = Nodes::new(nodes, peaks.len(), limit, rule, over);
                let quotas = (0..peaks.len()).map(|key| nodes.quota(key).unwrap_or(FLOOR)).collect();
                (State::Nodes(nodes), quotas)
            }
        }
    }

    /// How much unused CPU time of earlier periods a container may use, in nanoseconds.
    pub fn burst(self, quota: Cores) -> u64 {
        if self == Self::Burst { (quota.get() * PERIOD as f64) as u64 } else { 0 }
    }
}

impl State {
    /// After the step `at` of 100 ms: what each container has counted since the last one. Calls
    /// `set` with each quota that is written.
    pub fn step(&mut self, at: usize, counted: &[Counters], limit: Cores, mut set: impl FnMut(usize, Cores)) {
        let second = (at + 1).is_multiple_of(EACH);
        let uses = counted.iter().map(|counted| counted.used as f64 / PERIOD as f64);
        match self {
            Self::Fixed => {}
            Self::Autoscaler(last) => {
                last.push_back(uses.collect());
                if last.len() > BACK {
                    last.pop_front();
                }
                if !second {
                    return;
                }
                let wanted = |key: usize| {
                    let peak = last.iter().filter_map(|uses| uses.get(key)).copied().fold(0.0, f64::max);
                    (peak * MARGIN).max(FLOOR.get())
                };
                let wanted: Vec<f64> = (0..counted.len()).map(wanted).collect();
                let scale = (limit.get() / wanted.iter().sum::<f64>()).min(1.0);
                for (key, wanted) in wanted.into_iter().enumerate() {
                    set(key, Cores::new(wanted * scale));
                }
            }
            Self::Koordinator { node, containers, used } => {
                *used += uses.sum::<f64>();
                for (container, counted) in containers.iter_mut().zip(counted) {
                    container.2 |= counted.throttled > 0;
                }
                if !second {
                    return;
                }
                let share = *used / EACH as f64 / node.get();
                for (key, (part, quota, throttled)) in containers.iter_mut().enumerate() {
                    let factor = match (share >= HIGH, share >= COOLING, *throttled) {
                        (true, ..) => DOWN,
                        (false, false, true) => UP,
                        _ => 1.0,
                    };
                    let new = (*quota * factor).min(*part * MOST).max(*part);
                    if new != *quota {
                        *quota = new;
                        set(key, new);
                    }
                    *throttled = false;
                }
                *used = 0.0;
            }
            Self::Agent(app) => {
                let intervals = counted.iter().map(|counted| interval(*counted)).enumerate().collect();
                set_changes(app, 0..counted.len(), set, |app| app.step(&intervals));
            }
            Self::Nodes(nodes) => nodes.step(at, counted, limit, set),
        }
    }
}
