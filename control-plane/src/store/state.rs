//! The decisions of the store, without locks, waiting or I/O: time is handed in.
//!
//! When a poll arrives, it is answered at once or held:
//! 1. Before the first snapshot it is held: nothing is known yet, and an empty answer would take services away.
//! 2. Something that it subscribed to has changed after its version: answered.
//! 3. It presents what it was last answered with, for no more services than then: held.
//! 4. Its version is not surely ours (the control plane was restarted after its clock was set back): answered, under a version above
//!    both; see [`Versions`].
//! 5. We know the proxy, but not that it has what it asks for (its subscription grew, or an answer was lost): answered, under a
//!    new number, so that the acknowledgement tells this answer from the one before.
//! 6. Otherwise its version speaks for itself: held.

use super::catalog::Catalog;
use super::poll::Poll;
use super::polls::{PollId, Polls, Wake};
use super::proxies::Proxies;
use super::versions::Versions;
use super::{Answer, Outcome, StoreError};
use crate::load::{Loads, ReportInterval};
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

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
    pub versions: Versions,
    pub catalog: Catalog,
    pub proxies: Proxies,
    pub polls: Polls,
    pub loads: Loads,
    pub closing: bool,
}

impl State {
    /// Nothing yet.
    pub fn new(report_interval: ReportInterval) -> Self {
        Self { loads: Loads::new(report_interval), ..Self::default() }
    }

    /// Decides about a poll.
    pub fn arrive(&mut self, poll: &Poll, now: Instant) -> Result<Arrival, StoreError> {
        if self.closing {
            return Ok(Arrival::Answered(Outcome::Closing));
        }
        let record = self.proxies.note(poll, now).ok_or(StoreError::TooManyProxies)?;
        if let Some(older) = record.held.take() {
            self.polls.wake(older, Wake::Superseded);
        }
        self.loads.hear(&poll.proxy, &poll.load, |name| self.catalog.current().contains_key(name), now);
        let changed = self.catalog.version_of(&poll.subscription);
        let version = if !self.catalog.is_published() {
            None
        } else if changed > poll.version {
            Some(changed)
        } else if record.has_received(poll) {
            None
        } else if self.versions.is_doubtful(poll.version) {
            Some(self.versions.raise_above(poll.version))
        } else if record.was_answered() {
            Some(self.versions.renumber())
        } else {
            None
        };
        Ok(match version {
            Some(version) => {
                record.answer(poll, version);
                Arrival::Answered(Outcome::Changed(self.answer(&poll.subscription, version)))
            }
            None => {
                let (id, woken) = self.polls.hold(Arc::clone(&poll.subscription));
                record.held = Some(id);
                Arrival::Held(id, woken)
            }
        })
    }

    /// The answer to a poll that was held until something it subscribed to changed.
    pub fn resume(&mut self, poll: &Poll) -> Answer {
        let changed = self.catalog.version_of(&poll.subscription);
        // The version presented can only be the higher one after the first snapshot, as in rule 4.
        let version = if changed > poll.version { changed } else { self.versions.raise_above(poll.version) };
        if let Some(record) = self.proxies.get_mut(&poll.proxy) {
            record.answer(poll, version);
        }
        self.answer(&poll.subscription, version)
    }

    /// A held poll has ended, for whatever reason.
    pub fn leave(&mut self, poll: &Poll, id: PollId, now: Instant) {
        self.polls.release(id);
        if let Some(record) = self.proxies.get_mut(&poll.proxy)
            && record.held == Some(id)
        {
            record.held = None;
            record.seen = now;
        }
    }

    /// Puts a snapshot in force. Returns the names that changed and how many polls were woken.
    pub fn publish(&mut self, snapshot: Snapshot, unix_millis: u64) -> (BTreeSet<String>, usize) {
        let first = !self.catalog.is_published();
        let changes = self.catalog.changes(&snapshot);
        if changes.is_empty() && !first {
            // Same meaning, perhaps other words: no new version, nobody is woken.
            self.catalog.replace(snapshot, &changes, self.versions.newest());
            return (changes, 0);
        }
        let version = self.versions.advance(unix_millis);
        self.catalog.replace(snapshot, &changes, version);
        self.loads.retain(|name| self.catalog.current().contains_key(name));
        let woken = if first { self.polls.wake_all(Wake::Changed) } else { self.polls.wake_subscribers(&changes) };
        (changes, woken)
    }

    /// Ends all polls and holds none from now on.
    pub fn close(&mut self) -> usize {
        self.closing = true;
        self.polls.wake_all(Wake::Closing)
    }

    fn answer(&self, subscription: &BTreeSet<String>, version: u64) -> Answer {
        let services = subscription
            .iter()
            .filter_map(|name| self.catalog.current().get(name).map(|e| (name.clone(), Arc::clone(&e.service))))
            .collect();
        Answer { version, services }
    }
}
