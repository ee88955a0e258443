//! The source, and the replicas that read it and answer polls.

use super::{KINDS, NAMES};
use crate::agents::cpu::{CpuMessage, Cpus};
use crate::load::{Loads, ReportInterval};
use crate::snapshot::Snapshot;
use crate::store::decide::{Arrival, State, Wake};
use crate::store::poll::Poll;
use crate::store::proxies::PollId;
use crate::store::version::{Kind, Reach, Version};
use crate::store::{Outcome, StoreError};
use bloc_daemon::cpu::PodCpu;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};
use tokio::time::Instant;

/// How long a proxy that knows more must wait.
const PATIENCE: Duration = Duration::from_secs(3);
/// The kinds that the source is watched for. For each, another one says where the state is really
/// from: the history, and the revision of the last change. No replica lacks the latter.
const KIND: [char; KINDS] = ['a', 'b'];
const TRUTH: [char; KINDS] = ['x', 'y'];

/// Where a state is from, see [`TRUTH`].
pub(super) type Truth = [u64; KINDS];

/// The truth in a version; `None`: it is not one of ours.
pub(super) fn truth(version: &Version) -> Option<Truth> {
    let of = |name| version.stamps.iter().find(|(own, _)| *own == name).map(|(_, stamp)| *stamp);
    Some([of(TRUTH[0])?, of(TRUTH[1])?])
}

/// The source: for each kind the revisions of its changes, and `retries` from then on (none: the
/// service does not exist).
#[derive(Clone)]
pub(super) struct Source {
    pub(super) revision: u64,
    /// How often it was restored from a backup.
    pub(super) history: u64,
    pub(super) changes: [Vec<(u64, Option<u32>)>; KINDS],
}

impl Source {
    pub(super) fn new() -> Self {
        Self { revision: 1, history: 0, changes: [vec![(1, Some(0))], vec![(1, None)]] }
    }

    pub(super) fn change(&mut self, kind: usize, retries: Option<u32>) {
        self.revision += 1;
        self.changes[kind].push((self.revision, retries));
    }

    /// The last change of a kind up to `revision`.
    pub(super) fn at(&self, kind: usize, revision: u64) -> (u64, Option<u32>) {
        *self.changes[kind].iter().rev().find(|(changed, _)| *changed <= revision).unwrap()
    }

    /// The truth of a kind read up to `revision`.
    fn truth(&self, kind: usize, revision: u64) -> u64 {
        self.history << 32 | self.at(kind, revision).0
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
    pub(super) again: Option<Instant>,
    pub(super) version: Option<Version>,
    pub(super) from: Return,
}

/// Where an answer goes: proxy, thread, and the number of that thread's question.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Return(pub(super) usize, pub(super) usize, pub(super) u64);

/// A replica, and how far its watches have read.
pub(super) struct Replica {
    pub(super) state: State,
    pub(super) kinds: [Kind; KINDS],
    pub(super) held: Vec<Held>,
    /// When a proxy first came with a version.
    came: HashMap<(usize, String), Instant>,
    /// The proxies that were answered with an older state than they had, where `adr/0001` allows
    /// it, and that state.
    pub(super) older: Vec<(usize, Truth)>,
}

impl Replica {
    /// A new replica, which has listed the source.
    pub(super) fn start(source: &Source, now: Instant) -> Self {
        let cpus = Cpus::new(ReportInterval::default(), now);
        let mut replica = Self {
            state: State::new("replica".into(), Loads::default(), cpus),
            kinds: KIND.map(Kind::new),
            held: Vec::new(),
            came: HashMap::new(),
            older: Vec::new(),
        };
        (0..KINDS).for_each(|kind| replica.list(source, kind, now));
        replica.publish(source);
        replica
    }

    fn reach(&self, source: &Source) -> Reach {
        let truth = |kind: usize| Kind {
            stamp: source.truth(kind, self.kinds[kind].known),
            known: u64::MAX,
            ..Kind::new(TRUTH[kind])
        };
        Reach(self.kinds.into_iter().chain((0..KINDS).map(truth)).collect())
    }

    pub(super) fn publish(&mut self, source: &Source) {
        let snapshot = snapshot([0, 1].map(|kind| source.at(kind, self.kinds[kind].known).1));
        self.state.publish(snapshot, self.reach(source));
    }

    /// The watch of a kind reads its next change, if any.
    pub(super) fn read_on(&mut self, source: &Source, kind: usize, now: Instant) {
        let next = source.changes[kind].iter().find(|(revision, _)| *revision > self.kinds[kind].known);
        if let Some((revision, _)) = next {
            self.kinds[kind].changed(*revision, now);
            self.publish(source);
        }
    }

    /// The watch of a kind reads all changes.
    pub(super) fn read_all(&mut self, source: &Source, kind: usize, now: Instant) {
        while source.at(kind, source.revision).0 > self.kinds[kind].known {
            self.read_on(source, kind, now);
        }
    }

    /// The watch of a kind reads all changes, and a bookmark.
    pub(super) fn catch_up(&mut self, source: &Source, kind: usize, now: Instant) {
        self.read_all(source, kind, now);
        self.kinds[kind].passed(source.revision, now);
        self.state.advance(self.reach(source));
    }

    /// Lists a kind.
    pub(super) fn list(&mut self, source: &Source, kind: usize, now: Instant) {
        let (changed, object) = source.at(kind, source.revision);
        self.kinds[kind].listed(source.revision, object.map_or(0, |_| changed), now);
        if self.kinds.iter().all(|kind| kind.told.is_some()) {
            self.publish(source);
        }
    }

    /// The agent reports the cores of a proxy's pod.
    pub(super) fn receive_agent(&mut self, proxy: usize, cores: f64, now: Instant) {
        let (namespace, name) = ("shop".to_owned(), format!("proxy-{proxy}"));
        let pods = vec![PodCpu { namespace, name, cores: Some(cores), used_seconds: 0.0 }];
        self.state.receive_cpu(&CpuMessage { node: "n".into(), pods, ..CpuMessage::default() }, now);
    }

    pub(super) fn receive(&mut self, poll: Poll, from: Return, now: Instant) -> Option<Reply> {
        let version = poll.version.clone();
        self.came.entry((from.0, version.as_ref().map(Version::to_string).unwrap_or_default())).or_insert(now);
        match self.state.arrive(&poll, now) {
            Ok(Arrival::Answered(outcome)) => Some(self.reply(outcome, version.as_ref(), from, now)),
            Ok(Arrival::Held(id, woken, again)) => {
                self.held.push(Held { proxy: poll.proxy, id, woken, again, version, from });
                None
            }
            Err(StoreError::NotYours) => Some(None),
        }
    }

    /// Answers to polls that were woken, or that are due for another look.
    pub(super) fn answers(&mut self, now: Instant) -> Vec<(Return, Reply)> {
        let mut answers = Vec::new();
        for mut held in std::mem::take(&mut self.held) {
            let outcome = match held.woken.try_recv() {
                Err(TryRecvError::Empty) if held.again.is_none_or(|again| again > now) => {
                    self.held.push(held);
                    continue;
                }
                Ok(Wake::Moved) | Err(TryRecvError::Empty) => match self.state.resume(&held.proxy, held.id, now) {
                    Arrival::Answered(outcome) => outcome,
                    Arrival::Held(id, woken, again) => {
                        self.held.push(Held { id, woken, again, ..held });
                        continue;
                    }
                },
                Ok(Wake::Superseded | Wake::NoRoom | Wake::Closing) | Err(TryRecvError::Closed) => Outcome::Unchanged,
            };
            self.state.leave(&held.proxy, held.id, now);
            answers.push((held.from, self.reply(outcome, held.version.as_ref(), held.from, now)));
        }
        answers
    }

    /// The wait of a held poll is over.
    pub(super) fn end_wait(&mut self, nth: usize, now: Instant) -> (Return, Reply) {
        let held = self.held.swap_remove(nth);
        self.state.leave(&held.proxy, held.id, now);
        (held.from, None)
    }

    /// Asserts that an answer is not older than the question, except where `adr/0001` allows it.
    fn reply(&mut self, outcome: Outcome, question: Option<&Version>, from: Return, now: Instant) -> Reply {
        if let (Outcome::Changed(answer), Some(question)) = (&outcome, question)
            && let (Some(had), Some(gets)) = (truth(question), truth(&answer.version))
        {
            let stamp =
                |kind| question.stamps.iter().find(|(name, _)| *name == KIND[kind]).map_or(0, |(_, stamp)| *stamp);
            let came = self.came[&(from.0, question.to_string())];
            let lacking: Vec<_> = (0..KINDS).map(|kind| self.kinds[kind].known < stamp(kind)).collect();
            let told = |kind: usize| !lacking[kind] || self.kinds[kind].told > Some(came);
            let is_overdue = now >= came + PATIENCE && (0..KINDS).all(told);
            assert!(is_overdue || !lacking.contains(&true), "{question} is answered with {} too early", answer.version);
            for kind in (0..KINDS).filter(|kind| gets[*kind] < had[*kind]) {
                // Some replica knows the deletion only from a list, this one has not heard of a
                // restored etcd, or it lags for longer than a proxy waits.
                let is_unstamped = stamp(kind) < had[kind] & u64::from(u32::MAX);
                let is_of_before = gets[kind] >> 32 < had[kind] >> 32;
                let allowed = is_unstamped || is_of_before || lacking[kind];
                assert!(allowed, "{question} is answered with the older {}", answer.version);
            }
            if (0..KINDS).any(|kind| gets[kind] < had[kind]) {
                self.older.push((from.0, gets));
            }
        }
        body(outcome)
    }
}

/// The body of a 200; none: any other answer.
pub(super) type Reply = Option<Vec<u8>>;

fn body(outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Changed(answer) => Some(serde_json::to_vec(&answer).unwrap()),
        Outcome::Cpu(answer) => Some(serde_json::to_vec(&answer).unwrap()),
        Outcome::Unchanged | Outcome::Superseded | Outcome::NoRoom | Outcome::Closing { .. } => None,
    }
}
