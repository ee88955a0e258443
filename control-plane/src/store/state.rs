//! The decisions of the store, without locks, waiting or I/O: time is handed in.
//!
//! A poll is answered or held, when it arrives and again whenever something moves:
//! 1. Before the first snapshot it is held: nothing is known yet, and an empty answer would take
//!    services away.
//! 2. It presents the digest of what it asks for: held, it is up to date.
//! 3. It presents progress that we lack, under a seal of ours: held, and the source is told to make
//!    sure that it is up to date. What differs may be what we do not know yet, and the proxy would
//!    fall back to an older state. If the source finds that its whole history ends before that, the
//!    version is of another history (a restored etcd, another cluster), and counts for nothing.
//! 4. Otherwise it is answered, under the digest and the progress of the last change.
//!
//! Nothing is remembered of a proxy for that: it may ask any replica, and an answer that was lost
//! is given again.

use super::catalog::Catalog;
use super::charge;
use super::outcome::{Answer, Outcome, StoreError};
use super::poll::Poll;
use super::polls::{PollId, Polls, Wake};
use super::proxies::{Gone, Proxies, Record};
use super::seal::{KEY_BYTES, Seal};
use super::subscription::Subscription;
use super::version::{Progress, Reach, Version};
use super::wants::{Revision, Wants};
use crate::load::{Loads, Report, Signals};
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How many proxies may come back in a second when we close; a replica takes in some thousands on
/// one core.
const RECONNECTS_PER_SECOND: u64 = 1_000;
/// The longest that they are spread over, in seconds; as long they would miss a change.
const MOST_SPREAD: u64 = 15;

/// What becomes of a poll that arrives.
pub enum Arrival {
    /// It is answered at once.
    Answered(Outcome),
    /// It is held until the receiver says why it ends, or its wait is over.
    Held(PollId, oneshot::Receiver<Wake>),
}

/// All that the store knows.
#[derive(Debug, Default)]
pub struct State {
    pub catalog: Catalog,
    pub proxies: Proxies,
    pub polls: Polls,
    pub loads: Loads,
    pub closing: bool,
    /// What proxies know this replica by.
    pub replica: String,
    /// Within which time proxies are to come back after we have closed.
    pub spread: Duration,
    /// How far the source has surely read.
    known: Progress,
    /// Up to where something changed: what answers are stamped with. Never ahead of `known`.
    changed: Progress,
    /// Revisions that proxies presented and we lack.
    wants: Wants,
    seal: Seal,
}

impl State {
    /// Nothing yet, at the replica of this name.
    pub fn new(replica: String, loads: Loads) -> Self {
        Self { replica, loads, ..Self::default() }
    }

    /// Decides about a poll that arrives.
    pub fn arrive(&mut self, poll: &Poll, now: Instant) -> Result<Arrival, StoreError> {
        if self.closing {
            return Ok(Arrival::Answered(Outcome::Closing { within: self.spread }));
        }
        if self.proxies.is_of_another(poll) {
            return Err(StoreError::NotYours);
        }
        let charge = charge::of(poll, |name| self.catalog.get(name).is_some());
        let room = self.proxies.make_room(poll, charge, now);
        self.drop_gone();
        if !room {
            return Ok(Arrival::Answered(Outcome::NoRoom));
        }
        let record = self.proxies.note(poll, charge, now);
        record.check(&self.seal);
        if let Some(older) = record.held.take() {
            self.polls.wake(older, Wake::Superseded);
        }
        record.window.arrive(poll.last.as_ref(), &self.replica, now);
        self.drop_gone();
        let report = Report { proxy: &poll.proxy, load: &poll.load, since: poll.since() };
        let counts = |proxy: &str, at| self.proxies.count_here(proxy, at);
        self.loads.hear(report, |name| self.catalog.get(name).is_some(), counts, now);
        Ok(self.decide(&poll.proxy, now))
    }

    /// Ends the polls of proxies that gave way, and drops their loads.
    fn drop_gone(&mut self) {
        for Gone { proxy, held, left } in self.proxies.gone() {
            if let Some(id) = held {
                self.polls.wake(id, Wake::NoRoom);
            }
            left.iter().for_each(|name| self.loads.forget(&proxy, &name.text));
        }
    }

    /// Decides again about the poll of `proxy` that was held as `id`, after something moved.
    pub fn resume(&mut self, proxy: &str, id: PollId, now: Instant) -> Arrival {
        if self.closing {
            return Arrival::Answered(Outcome::Closing { within: self.spread });
        }
        match self.proxies.get(proxy) {
            Some(record) if record.held == Some(id) => self.decide(proxy, now),
            _ => Arrival::Answered(Outcome::Superseded),
        }
    }

    /// By the record: what the poll said is in it, and nowhere else.
    fn decide(&mut self, proxy: &str, now: Instant) -> Arrival {
        let Some(record) = self.proxies.get(proxy) else { return Arrival::Answered(Outcome::Superseded) };
        let subscription = Arc::clone(&record.subscription);
        let (digest, current) = (self.digest_for(record), self.is_current(record));
        let lacking = self.lacking(record);
        if self.catalog.is_published() && !current && lacking.is_empty() {
            if let Some(record) = self.proxies.get_mut(proxy) {
                record.behind.get_or_insert(now);
            }
            self.count(proxy, now);
            return Arrival::Answered(Outcome::Changed(self.answer(&subscription, digest)));
        }
        let behind = !lacking.is_empty();
        for revision in lacking {
            self.wants.add(revision, record.identity(), now);
        }
        let (id, woken) = self.polls.hold(subscription, behind);
        if let Some(record) = self.proxies.get_mut(proxy) {
            (record.held, record.behind) = (Some(id), None);
        }
        Arrival::Held(id, woken)
    }

    /// The wait of the poll of `proxy` that was held as `id` is over.
    pub fn end_wait(&mut self, proxy: &str, id: PollId, now: Instant) -> Outcome {
        if self.closing {
            return Outcome::Closing { within: self.spread };
        }
        match self.proxies.get(proxy) {
            Some(record) if record.held == Some(id) => {
                self.count(proxy, now);
                Outcome::Unchanged
            }
            _ => Outcome::Superseded,
        }
    }

    /// The signals of a service, as far as it counts here.
    pub fn signals(&self, service: &str, now: Instant) -> Option<Signals> {
        self.loads.signals(service, |proxy, at| self.proxies.count_here(proxy, at), now)
    }

    /// Lets the predictions see the arrival rates of the last tick.
    pub fn observe(&mut self, now: Instant) {
        self.loads.observe(|proxy, at| self.proxies.count_here(proxy, at), now);
    }

    /// Counts what the poll of `proxy` reported, because it is answered: exactly with the answers
    /// after which a proxy counts anew.
    fn count(&mut self, proxy: &str, now: Instant) {
        let Some(record) = self.proxies.get_mut(proxy) else { return };
        (record.held, record.seen) = (None, now);
        record.window.answer(now);
        let report = Report { proxy, load: &record.load, since: record.since };
        self.loads.count(report, |name| self.catalog.get(name).is_some(), now);
    }

    /// The version of everything.
    pub fn version(&self) -> Version {
        self.seal.version(self.catalog.digest(), self.changed.clone())
    }

    /// Seals versions with this key from now on. Proxies that came before it count anew.
    pub fn seal_with(&mut self, key: &[u8; KEY_BYTES]) {
        self.seal = Seal::new(key);
        self.proxies.iter_mut().for_each(|record| record.check(&self.seal));
    }

    /// Whether there is a newer state for a proxy than it has. One that has seen more of the source
    /// than we did is not behind, we are.
    pub fn is_behind(&self, record: &Record) -> bool {
        self.catalog.is_published() && !self.is_current(record) && self.lacking(record).is_empty()
    }

    /// Whether somebody wants progress that we lack.
    pub fn wants(&self) -> bool {
        self.wants.any()
    }

    /// Whether a proxy has what is in force of what it subscribed to.
    pub fn is_current(&self, record: &Record) -> bool {
        record.version.as_ref().is_some_and(|version| version.digest == self.digest_for(record))
    }

    /// The digest of what a proxy subscribed to; computed once in each generation.
    fn digest_for(&self, record: &Record) -> u64 {
        let generation = self.catalog.generation();
        match record.digest.get() {
            Some((of, digest)) if of == generation => digest,
            _ => {
                let digest = self.catalog.digest_of(&record.subscription);
                record.digest.set(Some((generation, digest)));
                digest
            }
        }
    }

    /// The progress that a proxy surely has and we lack.
    fn lacking(&self, record: &Record) -> Vec<Revision> {
        let Some(version) = record.issued() else { return Vec::new() };
        self.known.behind(&version.progress).filter(|revision| !self.wants.is_foreign(revision)).collect()
    }

    /// The poll of `proxy` that was held as `id` has ended, for whatever reason.
    pub fn leave(&mut self, proxy: &str, id: PollId, now: Instant) {
        self.polls.release(id);
        if let Some(record) = self.proxies.get_mut(proxy)
            && record.held == Some(id)
        {
            record.held = None;
            record.seen = now;
            record.window.leave(now);
        }
    }

    /// Puts a snapshot in force, which is what the source says at `reach`. Returns the names that
    /// changed and how many polls were woken.
    pub fn publish(&mut self, snapshot: Snapshot, reach: Reach) -> (BTreeSet<String>, usize) {
        let first = !self.catalog.is_published();
        let changes = self.catalog.replace(snapshot);
        self.changed = reach.changed;
        self.loads.retain(|name| self.catalog.get(name).is_some());
        let woken = if first { self.polls.wake_all(Wake::Moved) } else { self.wake_subscribers(&changes) };
        (changes, woken + self.advance(reach.known))
    }

    fn wake_subscribers(&mut self, changes: &BTreeSet<String>) -> usize {
        self.polls.wake_subscribers(changes.iter().filter_map(|name| self.proxies.name_id(name)))
    }

    /// The source has read on, and nothing changed. Returns how many polls were woken.
    pub fn advance(&mut self, progress: Progress) -> usize {
        self.known = progress;
        self.wants.reached(&self.known);
        self.polls.wake_behind()
    }

    /// Whether proxies presented revisions at `place` that we lack.
    pub fn wants_at(&self, place: usize) -> bool {
        self.wants.at(place)
    }

    /// Whether that is a reason to list, see [`Wants::list`].
    pub fn is_to_list(&mut self, place: usize, now: Instant) -> bool {
        self.wants.list(place, now)
    }

    /// The source was listed at `place`, see [`Wants::listed`]. Returns how many polls were woken.
    pub fn listed(&mut self, place: usize, revision: u64, begun: Instant) -> usize {
        if self.wants.listed(place, revision, begun) { self.polls.wake_behind() } else { 0 }
    }

    /// Ends all polls and holds none from now on.
    pub fn close(&mut self) -> usize {
        self.closing = true;
        let seconds = u64::try_from(self.polls.len()).unwrap_or(u64::MAX) / RECONNECTS_PER_SECOND;
        self.spread = Duration::from_secs(seconds.clamp(1, MOST_SPREAD));
        self.polls.wake_all(Wake::Closing)
    }

    fn answer(&self, subscription: &Subscription, digest: u64) -> Answer {
        let services =
            self.catalog.of(subscription).map(|(name, service)| (name.clone(), Arc::clone(service))).collect();
        Answer { version: self.seal.version(digest, self.changed.clone()), services }
    }
}
