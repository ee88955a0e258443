//! Nodes, replicas with caches of the record, one store, and a network.

use super::agent::Node;
use crate::{Asks, Grantor, Part, Record, Tolds};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const STEP: Duration = Duration::from_millis(100);
const ASKS: Duration = Duration::from_secs(1);

/// Mistakes that users of the crate could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    /// The replica answers although it could not write.
    AnswersBeforeWriting,
    /// A replica with an old record overwrites the present one.
    WritesWithoutComparing,
    /// The agent reports a fall before the quotas have fallen.
    SaysBeforeLowering,
    /// The agent does not save before it asks.
    SaysBeforeSaving,
}

enum Message {
    Asks(usize, Asks),
    Tolds(usize, Tolds),
    /// An update from a replica's watch.
    Cache(usize, u64, Record),
}

#[derive(Default)]
struct Replica {
    grantor: Grantor,
    cache: Record,
    version: u64,
    /// When its clock started.
    started: Duration,
}

pub struct World {
    pub now: Duration,
    pub rng: Rng,
    pub nodes: Vec<Node>,
    replicas: Vec<Replica>,
    pub record: Record,
    version: u64,
    /// Ordered by time, then at random.
    network: BTreeMap<(Duration, u64), Message>,
    cuts: BTreeSet<(usize, usize)>,
    pub faults: bool,
    pub mistake: Mistake,
}

impl World {
    pub fn new(seed: u64, mistake: Mistake) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = (0..rng.usize(1..=6)).map(Node::new).collect();
        let record = Record::new();
        let replicas = (0..rng.usize(1..=3)).map(|_| Replica { cache: record.clone(), ..Replica::default() }).collect();
        let (now, network, cuts) = (Duration::ZERO, BTreeMap::new(), BTreeSet::new());
        Self { now, rng, nodes, replicas, record, version: 0, network, cuts, faults: true, mistake }
    }

    /// The number of writes.
    pub const fn writes(&self) -> u64 {
        self.version
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            if self.faults {
                self.fail();
            }
            for index in 0..self.nodes.len() {
                self.step(index);
            }
            self.free();
            self.now += STEP;
            while let Some(first) = self.network.first_entry().filter(|first| first.key().0 <= self.now) {
                let message = first.remove();
                self.deliver(message);
                self.check();
            }
            self.check();
        }
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.faults = false;
        self.cuts.clear();
        for node in &mut self.nodes {
            (node.starts_at, node.clings) = (self.now, node.clings.min(50));
        }
    }

    /// The first replica hears all nodes, the others only some.
    pub fn cut_all_but_the_first(&mut self) {
        for link in (1..self.replicas.len()).flat_map(|replica| (0..self.nodes.len()).map(move |node| (node, replica)))
        {
            if self.rng.bool() {
                self.cuts.insert(link);
            }
        }
    }

    /// Loses the record while no agent is down or cut off.
    pub fn lose_record(&mut self) {
        self.record = Record::new();
        self.version += 1;
        self.publish();
    }

    fn check(&self) {
        let existing = self.nodes.iter().filter(|node| node.exists);
        let sum: u64 = existing.clone().map(|node| u64::from(node.uses.get())).sum();
        assert!(sum <= u64::from(Part::WHOLE.get()), "the nodes use {sum} after {:?}", self.now);
        assert!(self.record.held() <= Part::WHOLE, "the record gives {:?}", self.record.held());
        for node in existing.filter(|_| !self.record.is_new()) {
            let known = self.record.part(&node.name);
            assert!(node.uses <= known, "{} uses {:?} of {known:?} after {:?}", node.name, node.uses, self.now);
        }
    }

    /// Breaks, heals or changes something.
    fn fail(&mut self) {
        let (node, replica) = (self.rng.usize(0..self.nodes.len()), self.rng.usize(0..self.replicas.len()));
        match self.rng.u32(0..200) {
            0..2 if self.nodes[node].holder.is_some() => {
                let Self { nodes, rng, now, .. } = self;
                nodes[node].crash(*now, rng);
            }
            2..4 => self.restart(replica),
            4..8 => drop(self.cuts.insert((node, replica))),
            8..16 => drop(self.cuts.pop_first()),
            16..26 => self.wander(node),
            26 if self.nodes.len() > 1 => {
                let deleted = &mut self.nodes[node];
                if deleted.exists {
                    (deleted.exists, deleted.holder, deleted.deleted_at) = (false, None, self.now);
                }
            }
            27..30 => self.nodes[node].clings = self.rng.u8(0..99),
            _ => {}
        }
    }

    /// The replica forgets what it heard. Its cache is current or older.
    fn restart(&mut self, replica: usize) {
        let one = &mut self.replicas[replica];
        (one.grantor, one.started) = (Grantor::default(), self.now);
        if self.rng.bool() {
            (one.cache, one.version) = (self.record.clone(), self.version);
        }
    }

    /// Changes what a node needs, or makes it leave the application.
    pub fn wander(&mut self, node: usize) {
        let rng = &mut self.rng;
        let most = [1_000, 200_000, 1_500_000][rng.usize(0..3)];
        let least = if rng.bool() { 0 } else { rng.u32(0..130_000) };
        let need = (Part::millionths(least), Part::millionths(rng.u32(0..most)));
        self.nodes[node].need = (rng.u8(0..5) > 0).then_some(need);
    }

    fn step(&mut self, index: usize) {
        let Self { nodes, rng, now, mistake, .. } = self;
        let node = &mut nodes[index];
        if !node.exists {
            return;
        }
        if node.holder.is_none() && node.starts_at <= *now {
            node.start(*now);
        }
        node.step(rng, *mistake == Mistake::SaysBeforeLowering);
        if node.asks_at > *now {
            return;
        }
        node.asks_at = *now + ASKS;
        let Some(asks) = node.ask(*mistake != Mistake::SaysBeforeSaving) else { return };
        for replica in 0..self.replicas.len() {
            self.send((index, replica), || Message::Asks(replica, asks.clone()));
        }
    }

    fn send(&mut self, link: (usize, usize), message: impl Fn() -> Message) {
        if self.cuts.contains(&link) {
            return;
        }
        let copies = if self.faults { [0, 1, 1, 1, 1, 1, 1, 2][self.rng.usize(0..8)] } else { 1 };
        for _ in 0..copies {
            let most = if self.faults && self.rng.u8(0..3) == 0 { 5_000 } else { 150 };
            self.put(most, message());
        }
    }

    fn put(&mut self, most: u64, message: Message) {
        let at = self.now + Duration::from_millis(self.rng.u64(0..most));
        self.network.insert((at, self.rng.u64(..)), message);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Asks(replica, asks) => self.answer(replica, &asks),
            Message::Tolds(node, tolds) => self.nodes[node].receive(&tolds),
            Message::Cache(replica, version, record) => {
                let replica = &mut self.replicas[replica];
                if version > replica.version {
                    (replica.version, replica.cache) = (version, record);
                }
            }
        }
    }

    fn answer(&mut self, replica: usize, asks: &Asks) {
        let one = &mut self.replicas[replica];
        let mut record = one.cache.clone();
        let mut tolds = Tolds::default();
        for ask in &asks.apps {
            let told = one.grantor.receive(&mut record, &asks.node, asks.life, ask, self.now - one.started);
            tolds.apps.extend(told);
        }
        let written = record == one.cache || self.write(replica, record);
        if written || self.mistake == Mistake::AnswersBeforeWriting {
            let node = self.nodes.iter().position(|node| node.name == asks.node).unwrap();
            self.send((node, replica), || Message::Tolds(node, tolds.clone()));
        }
    }

    fn write(&mut self, replica: usize, record: Record) -> bool {
        if self.replicas[replica].version != self.version && self.mistake != Mistake::WritesWithoutComparing {
            return false;
        }
        self.version += 1;
        self.record = record;
        let one = &mut self.replicas[replica];
        (one.version, one.cache) = (self.version, self.record.clone());
        self.publish();
        true
    }

    fn publish(&mut self) {
        for replica in 0..self.replicas.len() {
            let most = if self.faults { 3_000 } else { 50 };
            self.put(most, Message::Cache(replica, self.version, self.record.clone()));
        }
    }

    /// Frees deleted nodes that have been silent for long.
    fn free(&mut self) {
        for replica in 0..self.replicas.len() {
            let one = &self.replicas[replica];
            let mut record = one.cache.clone();
            for node in self.nodes.iter().filter(|node| !node.exists) {
                let is_silent = one.grantor.silent(&one.cache).contains(&&node.name);
                if is_silent && self.now - node.deleted_at > Duration::from_secs(15) {
                    record.free(&node.name);
                }
            }
            if record != one.cache {
                self.write(replica, record);
            }
        }
    }
}
