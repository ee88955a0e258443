//! Several nodes with an agent each: the limit is divided once, or leased.
//!
//! Not modelled: the way of messages, replicas of the control plane, and the kernel's period
//! between the fall of a quota and its report.

use super::case::FLOOR;
use super::cgroup::{Counters, PERIOD};
use bloc_leases::{Grantor, Holder, Part, Record};
use bloc_node_agent::Cores;
use bloc_node_agent::cpu::{App, Interval, Rule, Start, WANTED};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Who divides the limit between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Each node has an equal part, for good.
    Equal,
    /// Nodes lease parts.
    Leases,
}

/// The nodes. Container `key` is on node `key % n`.
pub struct Nodes {
    nodes: Vec<Node>,
    leases: Option<Leases>,
}

struct Node {
    app: App<usize>,
    /// What it could use, in the last steps.
    wanted: VecDeque<f64>,
}

/// A control plane of one replica, and what the agents hold.
struct Leases {
    record: Record,
    grantor: Grantor,
    holders: Vec<Holder>,
}

/// Steps of 100 ms between two asks of a node.
const EACH: usize = 5;
const NAME: &str = "app";

impl Nodes {
    /// Idle containers on so many nodes, with the limit divided evenly.
    pub fn new(nodes: usize, containers: usize, limit: Cores, rule: Rule, over: Over) -> Self {
        let part = limit * (1.0 / nodes as f64);
        let start = Start { used: Cores::ZERO, least: FLOOR, most: Cores::new(64.0) };
        let node = |node: usize| {
            let mut app = App::new(rule, part);
            // They come one after the other.
            for key in (node..containers).step_by(nodes) {
                let _ = app.attach(&[(key, start)]);
            }
            Node { app, wanted: VecDeque::with_capacity(WANTED) }
        };
        let leases = (over == Over::Leases).then(|| {
            let held = Part::millionths(Part::WHOLE.get() / nodes as u32);
            let holder = |_| Holder::new(1, BTreeMap::from([(NAME.to_owned(), held)]));
            Leases { record: Record::new(), grantor: Grantor::default(), holders: (0..nodes).map(holder).collect() }
        });
        Self { nodes: (0..nodes).map(node).collect(), leases }
    }

    /// The quota of a container.
    pub fn quota(&self, key: usize) -> Option<Cores> {
        self.nodes[key % self.nodes.len()].app.quota(&key)
    }

    /// After the step `at` of 100 ms, as [`State::step`](super::allocator::State::step).
    pub fn step(&mut self, at: usize, counted: &[Counters], limit: Cores, mut set: impl FnMut(usize, Cores)) {
        let count = self.nodes.len();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let of_node = counted.iter().enumerate().skip(number).step_by(count);
            let intervals = of_node.map(|(key, counted)| (key, interval(*counted))).collect();
            let keys = (number..counted.len()).step_by(count);
            set_changes(&mut node.app, keys.clone(), &mut set, |app| app.step(&intervals));
            if node.wanted.len() == WANTED {
                node.wanted.pop_front();
            }
            node.wanted.push_back(node.app.wants().get());
            if let Some(leases) = &mut self.leases {
                let to = leases.step(at, number, node, limit);
                set_changes(&mut node.app, keys, &mut set, |app| _ = app.set_limit(to));
                leases.holders[number].lower(NAME, Part::of(node.app.limit().get(), limit.get()));
            }
        }
    }
}

/// Sets the quotas that `act` has changed.
pub fn set_changes(
    app: &mut App<usize>,
    keys: impl Iterator<Item = usize> + Clone,
    mut set: impl FnMut(usize, Cores),
    act: impl FnOnce(&mut App<usize>),
) {
    let before: Vec<Option<Cores>> = keys.clone().map(|key| app.quota(&key)).collect();
    act(app);
    for (key, before) in keys.zip(before) {
        if let Some(now) = app.quota(&key).filter(|now| Some(*now) != before) {
            set(key, now);
        }
    }
}

/// What a container has counted in 100 ms.
pub fn interval(counted: Counters) -> Interval {
    let throttled = counted.throttled as f64 / counted.periods.max(1) as f64;
    Interval { used: Cores::new(counted.used as f64 / PERIOD as f64), throttled }
}

impl Leases {
    /// The limit that this node may apply.
    fn step(&mut self, at: usize, number: usize, node: &Node, limit: Cores) -> Cores {
        let part = |cores: Cores| Part::of(cores.get(), limit.get());
        let least = part(node.app.least());
        let holder = &mut self.holders[number];
        if at % EACH == number % EACH {
            let wants = node.wanted.iter().sum::<f64>() / node.wanted.len() as f64;
            let ask = holder.ask(NAME, part(Cores::new(wants)), least, None);
            let now = Duration::from_millis(at as u64 * 100);
            let told = self.grantor.receive(&mut self.record, &number.to_string(), holder.life(), &ask, now);
            if let Some(told) = told {
                holder.receive(&told);
            }
        }
        let lease = holder.lease(NAME);
        Cores::new(lease.part.min(lease.goal.max(least)).times(limit.get()))
    }
}
