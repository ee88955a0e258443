//! The interface of the store to the rest of the program: publishing, and polls that wait for it.

use super::decide::{Arrival, State, Wake};
use super::history::{Coming, History};
use super::outcome::{Outcome, StoreError};
use super::poll::Poll;
use super::proxies::{PollId, Record};
use super::version::{Reach, Version};
use crate::agents::cpu::Cpus;
use crate::clock::Clock;
use crate::load::{Loads, ReportInterval};
use crate::snapshot::Snapshot;
use bloc_daemon::lock;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::SystemTime;
use tokio::time::{Instant, sleep, timeout_at};

/// The most names of changed services in one log line.
const LOGGED_NAMES: usize = 10;

/// The shared state of the control plane; cheap to clone.
#[derive(Clone)]
pub struct Store(pub(super) Arc<Shared>);

/// What all clones of a store share.
pub struct Shared {
    pub(super) clock: Clock,
    pub(super) replica: String,
    pub(super) source: String,
    report_interval: ReportInterval,
    inner: Mutex<Inner>,
}

/// The guarded data.
pub struct Inner {
    pub state: State,
    pub loaded: Option<SystemTime>,
    /// Contents of the source accepted since the start, and those refused.
    pub accepted: u64,
    pub rejected: u64,
    /// The origins of unresolved refusals.
    pub refused: BTreeSet<String>,
    pub history: History,
}

impl Inner {
    /// The number of stale proxies.
    pub fn stale(&self) -> usize {
        let now = Instant::now();
        let stale = |record: &Record| record.window.contains(now) && self.state.is_stale(record, now);
        self.state.proxies.iter().filter(|(_, record)| stale(record)).count()
    }
}

/// The effect of publishing a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The version of everything in force.
    pub version: Version,
    /// The services that changed, by name.
    pub changed: Vec<String>,
    /// How many held polls were woken.
    pub woken: usize,
}

impl Store {
    /// An empty store, not ready before the first snapshot. `source` tells operators where services
    /// come from. Polls of proxies that serve something are held for at most `report_interval`.
    pub fn new(source: impl Into<String>, clock: Clock, report_interval: ReportInterval) -> Self {
        // A new name at each start, because the counters restart at 0.
        let replica = format!("{:016x}", fastrand::u64(..));
        let now = Instant::now();
        let loads = Loads::new(report_interval, report_interval.next(&clock, now));
        let inner = Inner {
            state: State::new(replica.clone(), loads, Cpus::new(report_interval, now)),
            loaded: None,
            accepted: 0,
            rejected: 0,
            refused: BTreeSet::new(),
            history: History::default(),
        };
        Self(Arc::new(Shared { clock, replica, source: source.into(), report_interval, inner: Mutex::new(inner) }))
    }

    /// Puts a snapshot in force and wakes the polls that subscribed to what changes. `reach` is how
    /// far the source had read for it; empty for a source without revisions.
    pub fn publish(&self, snapshot: Snapshot, reach: Reach) -> Published {
        let now = self.0.clock.now();
        let mut inner = self.lock();
        let coming = Coming::compare(inner.state.catalog.iter(), &snapshot);
        let (changed, woken) = inner.state.publish(snapshot, reach);
        inner.loaded = Some(now);
        inner.accepted += 1;
        let version = inner.state.version();
        if let Some(coming) = coming {
            inner.history.changed(&self.0.source, coming, version.to_string(), now);
        }
        drop(inner);
        let changed: Vec<String> = changed.into_iter().collect();
        if changed.is_empty() {
            tracing::debug!(%version, "read the services again: no change");
        } else {
            let names = changed.get(..LOGGED_NAMES).unwrap_or(&changed).join(",");
            tracing::info!(%version, changed = changed.len(), names, woken, "new services in force");
        }
        Published { version, changed, woken }
    }

    /// Feeds the predictions the arrival rates at each tick, until all clones are dropped. Reports
    /// do this too, but those of a service with few servers may all go to other replicas for a
    /// while, and the arrival rate here is then 0.
    pub async fn keep_observing(shared: Weak<Shared>) {
        loop {
            let Some(every) = shared.upgrade().map(|shared| shared.report_interval.get()) else { return };
            sleep(every / 2).await;
            if let Some(shared) = shared.upgrade() {
                Self(shared).lock().state.observe(Instant::now());
            }
        }
    }

    /// The argument of [`keep_observing`](Self::keep_observing).
    pub fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    /// Notes that the source has read as far as `reach`, and that nothing changed.
    pub fn advance(&self, reach: Reach) {
        self.lock().state.advance(reach);
    }

    /// Notes that content of the source was refused; the state in force stays. `origin` says where
    /// it comes from; `reason` has path, value and allowed range.
    pub fn refuse(&self, origin: &str, reason: &str) {
        tracing::error!(reason, "configuration refused; the last good state stays in force");
        let now = self.0.clock.now();
        let mut inner = self.lock();
        inner.rejected += 1;
        inner.history.refused(origin, reason, now);
        inner.refused.insert(origin.to_owned());
    }

    /// Notes that the content of `origin` is good again, or gone.
    pub fn resolve(&self, origin: &str) {
        let mut inner = self.lock();
        inner.refused.remove(origin);
        inner.history.resolved(origin);
    }

    /// Answers a poll: at once, or when something that it subscribed to changes, its wait is over,
    /// a newer poll of the same proxy arrives or the store closes. Dropping the future (the client
    /// has left) releases the poll.
    ///
    /// # Errors
    /// [`StoreError::NotYours`].
    pub async fn sync(&self, mut poll: Poll) -> Result<Outcome, StoreError> {
        let now = Instant::now();
        let arrival = {
            let state = &mut self.lock().state;
            poll.report_within(state.report_within(&poll.proxy, self.0.report_interval.get(), now));
            state.arrive(&poll, now)?
        };
        let ends = now + poll.wait;
        let (id, mut woken, mut again) = match arrival {
            Arrival::Answered(outcome) => return Ok(outcome),
            Arrival::Held(id, woken, again) => (id, woken, again),
        };
        // Only the record of a held poll is kept.
        let proxy = std::mem::take(&mut poll.proxy);
        drop(poll);
        let mut held = HeldPoll { store: self, proxy, id };
        loop {
            let until = again.map_or(ends, |at| at.min(ends));
            match timeout_at(until, woken).await {
                Ok(Ok(Wake::Moved)) => {}
                Err(_) if until < ends => {}
                Ok(Ok(Wake::NoRoom)) => return Ok(Outcome::NoRoom),
                Ok(Ok(Wake::Superseded)) => return Ok(Outcome::Superseded),
                Ok(Ok(Wake::Closing)) => return Ok(Outcome::Closing { within: self.lock().state.spread }),
                Ok(Err(_)) | Err(_) => return Ok(self.lock().state.end_wait(&held.proxy, held.id, Instant::now())),
            }
            let arrival = self.lock().state.resume(&held.proxy, held.id, Instant::now());
            match arrival {
                Arrival::Answered(outcome) => return Ok(outcome),
                Arrival::Held(id, next, look) => (held.id, woken, again) = (id, next, look),
            }
        }
    }

    /// Ends all held polls and holds none from now on. Returns the number of polls ended.
    pub fn close(&self) -> usize {
        self.lock().state.close()
    }

    /// The name by which proxies know this replica: 16 hex digits, new at each start.
    pub fn replica(&self) -> &str {
        &self.0.replica
    }

    /// Whether services are in force and the store is not closing.
    pub fn is_ready(&self) -> bool {
        let inner = self.lock();
        inner.state.catalog.is_published() && !inner.state.closing
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0.inner)
    }
}

/// A held poll; dropping it releases the poll, however it ends.
struct HeldPoll<'a> {
    store: &'a Store,
    proxy: String,
    id: PollId,
}

impl Drop for HeldPoll<'_> {
    fn drop(&mut self) {
        self.store.lock().state.leave(&self.proxy, self.id, Instant::now());
    }
}
