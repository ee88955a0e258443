//! The source, and the replicas that read it and answer polls.

use super::{KINDS, NAMES};
use crate::agents::cpu::{CpuMessage, Cpus};
use crate::load::{Loads, ReportInterval};
use crate::snapshot::Snapshot;
use crate::store::poll::Poll;
use crate::store::polls::{PollId, Wake};
use crate::store::seal::KEY_BYTES;
use crate::store::state::{Arrival, State};
use crate::store::version::{Progress, Reach};
use crate::store::{Outcome, StoreError};
use bloc_daemon::cpu::PodCpu;
use std::cell::RefCell;
use std::collections::HashMap;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};
use tokio::time::Instant;

/// The seal key that the replicas share.
const KEY: [u8; KEY_BYTES] = [1; KEY_BYTES];

/// The source: for each kind the revisions of its changes, and `retries` from then on (none: the
/// service does not exist).
pub(super) struct Source {
    pub(super) revision: u64,
    pub(super) changes: [Vec<(u64, Option<u32>)>; KINDS],
}

impl Source {
    pub(super) fn new() -> Self {
        Self { revision: 1, changes: [vec![(1, Some(0))], vec![(1, None)]] }
    }

    pub(super) fn change(&mut self, kind: usize, retries: Option<u32>) {
        self.revision += 1;
        self.changes[kind].push((self.revision, retries));
    }

    /// The last change of a kind up to `revision`.
    pub(super) fn at(&self, kind: usize, revision: u64) -> (u64, Option<u32>) {
        *self.changes[kind].iter().rev().find(|(changed, _)| *changed <= revision).unwrap()
    }
}

/// The snapshot of a source with these `retries`. Cached, because parsing would take most of the
/// time.
pub(super) fn snapshot(retries: [Option<u32>; KINDS]) -> Snapshot {
    thread_local! {
        static READ: RefCell<HashMap<[Option<u32>; KINDS], Snapshot>> = RefCell::default();
    }
    let read = || {
        let specs = NAMES.iter().zip(retries).filter_map(|(name, retries)| Some((name, retries?)));
        let specs: Vec<String> = specs.map(|(name, retries)| format!("{name}: {{retries: {retries}}}")).collect();
        Snapshot::from_yaml(&format!("services: {{{}}}", specs.join(", "))).unwrap()
    };
    READ.with(|all| all.borrow_mut().entry(retries).or_insert_with(read).clone())
}

/// A poll that a replica holds.
pub(super) struct Held {
    pub(super) proxy: String,
    pub(super) id: PollId,
    pub(super) woken: Receiver<Wake>,
    pub(super) from: Return,
}

/// Where an answer goes: proxy, thread, and number of that thread's question.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Return(pub(super) usize, pub(super) usize, pub(super) u64);

/// A replica, and how far its watches have read.
pub(super) struct Replica {
    pub(super) state: State,
    pub(super) read: [u64; KINDS],
    pub(super) changed: [u64; KINDS],
    pub(super) held: Vec<Held>,
}

impl Replica {
    /// A new replica, which has listed the source.
    pub(super) fn start(source: &Source, now: Instant) -> Self {
        let cpus = Cpus::new(ReportInterval::default(), now);
        let all = [source.revision; KINDS];
        let mut replica = Self {
            state: State::new("replica".into(), Loads::default(), cpus),
            read: all,
            changed: all,
            held: Vec::new(),
        };
        replica.state.seal_with(&KEY);
        replica.publish(source);
        replica
    }

    pub(super) fn publish(&mut self, source: &Source) {
        let snapshot = snapshot([0, 1].map(|kind| source.at(kind, self.read[kind]).1));
        let reach = Reach { known: Progress::new(self.read), changed: Progress::new(self.changed) };
        self.state.publish(snapshot, reach);
    }

    /// The watch of a kind reads its next change, if there is one.
    pub(super) fn read_on(&mut self, source: &Source, kind: usize) {
        let next = source.changes[kind].iter().find(|(revision, _)| *revision > self.read[kind]);
        if let Some((revision, _)) = next {
            (self.read[kind], self.changed[kind]) = (*revision, *revision);
            self.publish(source);
        }
    }

    /// The watch of a kind reads all changes, and learns the current revision.
    pub(super) fn catch_up(&mut self, source: &Source, kind: usize) {
        while source.at(kind, source.revision).0 > self.read[kind] {
            self.read_on(source, kind);
        }
        self.read[kind] = source.revision;
        self.state.advance(Progress::new(self.read));
    }

    /// Lists a kind if a proxy has seen more of it than we have.
    pub(super) fn list(&mut self, source: &Source, kind: usize, now: Instant) {
        if self.state.wants_at(kind) {
            self.catch_up(source, kind);
            self.state.listed(kind, source.revision, now);
        }
    }

    /// The agent says how many cores the pod of a proxy has.
    pub(super) fn hear_agent(&mut self, proxy: usize, cores: f64, now: Instant) {
        let (namespace, name) = ("shop".to_owned(), format!("proxy-{proxy}"));
        let pods = vec![PodCpu { namespace, name, cores: Some(cores), used_seconds: 0.0 }];
        self.state.hear_cpu(&CpuMessage { node: "n".into(), pods, ..CpuMessage::default() }, now);
    }

    pub(super) fn hear(&mut self, poll: Poll, from: Return, now: Instant) -> Option<Reply> {
        match self.state.arrive(&poll, now) {
            Ok(Arrival::Answered(outcome)) => Some(reply(outcome)),
            Ok(Arrival::Held(id, woken, _)) => {
                self.held.push(Held { proxy: poll.proxy, id, woken, from });
                None
            }
            Err(StoreError::NotYours) => Some(None),
        }
    }

    /// The answers to the polls that were woken.
    pub(super) fn answers(&mut self, now: Instant) -> Vec<(Return, Reply)> {
        let mut answers = Vec::new();
        for mut held in std::mem::take(&mut self.held) {
            let outcome = match held.woken.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.held.push(held);
                    continue;
                }
                Ok(Wake::Moved) => match self.state.resume(&held.proxy, held.id, now) {
                    Arrival::Answered(outcome) => outcome,
                    Arrival::Held(id, woken, _) => {
                        self.held.push(Held { id, woken, ..held });
                        continue;
                    }
                },
                Ok(Wake::Superseded | Wake::NoRoom | Wake::Closing) | Err(TryRecvError::Closed) => Outcome::Unchanged,
            };
            self.state.leave(&held.proxy, held.id, now);
            answers.push((held.from, reply(outcome)));
        }
        answers
    }

    /// The wait of a held poll is over.
    pub(super) fn end_wait(&mut self, nth: usize, now: Instant) -> (Return, Reply) {
        let held = self.held.swap_remove(nth);
        self.state.leave(&held.proxy, held.id, now);
        (held.from, None)
    }
}

/// The body of a 200; none: any other answer.
pub(super) type Reply = Option<Vec<u8>>;

pub(super) fn reply(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Changed(answer) => Some(serde_json::to_vec(&answer).unwrap()),
        Outcome::Cpu(answer) => Some(serde_json::to_vec(&answer).unwrap()),
        Outcome::Unchanged | Outcome::Superseded | Outcome::NoRoom | Outcome::Closing { .. } => None,
    }
}
