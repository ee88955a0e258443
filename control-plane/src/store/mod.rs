//! What is in force, who listens, and the polls that wait for a change.
//!
//! One lock guards it all: every step under it is short (no I/O, no waiting), and a change costs its subscribers only.
//! The decisions are in `state`, the numbers of states in `versions`.

mod catalog;
mod poll;
mod polls;
mod proxies;
mod state;
#[cfg(test)]
mod tests;
mod versions;
mod view;

pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use versions::MAX_PRESENTED;
pub use view::{Counts, Overview, ProxyView, Refusal, ServiceDetail, ServiceView};

use crate::clock::Clock;
use crate::load::{ReportInterval, Signals};
use crate::snapshot::{Service, Snapshot};
use polls::{PollId, Wake};
use proxies::Record;
use serde::{Serialize, Serializer};
use state::Arrival;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, timeout};

/// The shared state of the control plane; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Shared>);

struct Shared {
    clock: Clock,
    source: String,
    report_interval: ReportInterval,
    inner: Mutex<Inner>,
}

struct Inner {
    state: state::State,
    loaded: Option<SystemTime>,
    refusal: Option<(String, SystemTime, bool)>,
}

/// The state of a subscription; serializes as [`bloc_policy::sync::SyncResponse`], without copying the specs.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its version.
    pub version: u64,
    /// The services that exist; the others are absent.
    #[serde(serialize_with = "as_specs")]
    pub services: BTreeMap<String, Arc<Service>>,
}

fn as_specs<S: Serializer>(services: &BTreeMap<String, Arc<Service>>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(services.iter().map(|(name, service)| (name, service.spec())))
}

/// How a poll ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With a state.
    Changed(Answer),
    /// The wait is over and nothing changed.
    Unchanged,
    /// The same proxy has sent a newer poll.
    Superseded,
    /// The control plane shuts down.
    Closing,
}

/// Why a poll cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// So many proxies were heard of within the last hour that there is no room for another.
    #[error("too many proxies")]
    TooManyProxies,
}

/// What a published snapshot changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The newest version; unchanged if nothing changed.
    pub version: u64,
    /// The services that changed, by name.
    pub changed: Vec<String>,
    /// Held polls that were woken.
    pub woken: usize,
}

impl Store {
    /// An empty store, not ready before the first snapshot. `source` says where the services come from, for operators; the polls of
    /// proxies that serve something are held for `report_interval` at most.
    pub fn new(source: impl Into<String>, clock: Clock, report_interval: ReportInterval) -> Self {
        let inner = Inner { state: state::State::new(report_interval), loaded: None, refusal: None };
        Self(Arc::new(Shared { clock, source: source.into(), report_interval, inner: Mutex::new(inner) }))
    }

    /// Puts a snapshot in force and wakes the polls that subscribed to what it changes.
    pub fn publish(&self, snapshot: Snapshot) -> Published {
        let now = self.0.clock.now();
        let mut inner = self.lock();
        let (changed, woken) = inner.state.publish(snapshot, self.0.clock.unix_millis());
        inner.loaded = Some(now);
        if let Some((_, _, resolved)) = &mut inner.refusal {
            *resolved = true;
        }
        Published { version: inner.state.versions.newest(), changed: changed.into_iter().collect(), woken }
    }

    /// Notes that the source had something that was refused; what is in force stays.
    pub fn refuse(&self, message: String) {
        let now = self.0.clock.now();
        self.lock().refusal = Some((message, now, false));
    }

    /// Answers a poll, at once or when something that it subscribed to changes, its wait is over, a newer poll of the same proxy
    /// arrives or the store closes. Dropping the future (the client left) releases the poll.
    ///
    /// # Errors
    /// [`StoreError::TooManyProxies`].
    pub async fn sync(&self, mut poll: Poll) -> Result<Outcome, StoreError> {
        poll.report_every(self.0.report_interval);
        let arrival = self.lock().state.arrive(&poll, Instant::now())?;
        let (id, woken) = match arrival {
            Arrival::Answered(outcome) => return Ok(outcome),
            Arrival::Held(id, woken) => (id, woken),
        };
        let held = HeldPoll { store: self, poll: &poll, id };
        let wake = timeout(poll.wait, woken).await;
        drop(held);
        Ok(match wake {
            Ok(Ok(Wake::Changed)) => Outcome::Changed(self.lock().state.resume(&poll)),
            Ok(Ok(Wake::Superseded)) => Outcome::Superseded,
            Ok(Ok(Wake::Closing)) => Outcome::Closing,
            Ok(Err(_)) | Err(_) => Outcome::Unchanged,
        })
    }

    /// Ends all held polls and holds none from now on. Returns how many were held.
    pub fn close(&self) -> usize {
        self.lock().state.close()
    }

    /// Whether there is something in force and the store is not closing.
    pub fn is_ready(&self) -> bool {
        let inner = self.lock();
        inner.state.catalog.is_published() && !inner.state.closing
    }

    /// Everything, for operators.
    pub fn overview(&self) -> Overview {
        let inner = self.lock();
        let refusal = inner.refusal.as_ref().map(|(message, at, resolved)| Refusal {
            message: message.clone(),
            at: rfc3339(*at),
            resolved: *resolved,
        });
        Overview {
            version: inner.state.versions.newest(),
            source: self.0.source.clone(),
            loaded: inner.loaded.map(rfc3339),
            refusal,
            services: inner.state.catalog.current().iter().map(|(name, e)| (name.clone(), view(e))).collect(),
            proxies: self.proxies(&inner, |_| true),
        }
    }

    /// One service, for operators; `None` if it does not exist.
    pub fn service(&self, name: &str) -> Option<ServiceDetail> {
        let inner = self.lock();
        let service = view(inner.state.catalog.current().get(name)?);
        let proxies = self.proxies(&inner, |record| record.services.iter().chain(&record.serves).any(|s| s == name));
        let load = inner.state.loads.signals(name, Instant::now());
        Some(ServiceDetail { name: name.to_owned(), service, load, proxies })
    }

    /// The signals for scaling of the services that were reported, by name; their number is bounded.
    pub fn signals(&self) -> BTreeMap<String, Signals> {
        self.lock().state.loads.all(Instant::now())
    }

    /// Numbers for the metrics.
    pub fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            version: inner.state.versions.newest(),
            services: inner.state.catalog.current().len(),
            polls_held: inner.state.polls.len(),
            proxies_connected: inner.state.proxies.connected(Instant::now()),
            load_reports_dropped: inner.state.loads.dropped(),
            loaded_unix_seconds: inner
                .loaded
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .map(|since| since.as_secs()),
        }
    }

    fn proxies(&self, inner: &Inner, wanted: impl Fn(&Record) -> bool) -> Vec<ProxyView> {
        let (now, wall) = (Instant::now(), self.0.clock.now());
        let view = |(proxy, record): (&String, &Record)| ProxyView {
            proxy: proxy.clone(),
            version: record.acknowledged,
            connected: record.is_connected(now),
            last_seen: rfc3339(wall.checked_sub(now.saturating_duration_since(record.seen)).unwrap_or(UNIX_EPOCH)),
            services: record.services.clone(),
            serves: record.serves.clone(),
            load: record.load.clone(),
        };
        inner.state.proxies.iter().filter(|(_, record)| wanted(record)).map(view).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under the lock would be a bug in `state`; the rest of the mesh is better served by what is there.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A poll that is held; dropping it, however the poll ends, releases it.
struct HeldPoll<'a> {
    store: &'a Store,
    poll: &'a Poll,
    id: PollId,
}

impl Drop for HeldPoll<'_> {
    fn drop(&mut self) {
        self.store.lock().state.leave(self.poll, self.id, Instant::now());
    }
}

fn view(entry: &catalog::Entry) -> ServiceView {
    ServiceView { version: entry.version, spec: entry.service.spec().clone() }
}

fn rfc3339(time: SystemTime) -> String {
    // humantime cannot write years before 1970 or after 9999, which a broken clock may show.
    let year_9999 = UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.clamp(UNIX_EPOCH, year_9999)).to_string()
}
