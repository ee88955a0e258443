//! What is in force, who listens, and the polls that wait for a change.
//!
//! One lock guards it all: every step under it is short (no I/O, no waiting), and a change costs its subscribers only.
//! The decisions are in `state`, what a version says in `version`.

mod catalog;
mod history;
mod poll;
mod polls;
mod proxies;
#[cfg(test)]
mod simulation;
mod staleness;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod version;
mod view;

pub use history::{Difference, Event, EventKind};
pub use poll::{DEFAULT_WAIT, Poll, WAIT_RANGE};
pub use staleness::LOOK_EVERY;
pub use status::{Condition, ProxyCounts, ProxyState, SenderStatus, ServiceReport, ServiceStatus, Status};
pub use version::{Progress, Reach, Version};
pub use view::{Counts, Overview, ProxyView, Refusal, ServiceDetail, ServiceView};

use crate::clock::Clock;
use crate::load::{ReportInterval, Signals};
use crate::snapshot::{Service, Snapshot};
use history::{Coming, History};
use polls::{PollId, Wake};
use proxies::Record;
use serde::{Serialize, Serializer};
use staleness::Staleness;
use state::Arrival;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The shared state of the control plane; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Shared>);

struct Shared {
    clock: Clock,
    source: String,
    report_interval: ReportInterval,
    inner: Mutex<Inner>,
    /// Told when a poll wants progress that we lack.
    wants: Notify,
}

struct Inner {
    state: state::State,
    loaded: Option<SystemTime>,
    /// What was refused and was not made good yet, by where it comes from.
    refused: BTreeMap<String, (String, SystemTime)>,
    /// What was refused last, and where it came from.
    refusal: Option<(String, String, SystemTime)>,
    history: History,
    staleness: Staleness,
}

/// The state of a subscription; serializes as [`bloc_policy::sync::SyncResponse`], without copying the specs.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its version.
    #[serde(serialize_with = "as_text")]
    pub version: Version,
    /// The services that exist; the others are absent.
    #[serde(serialize_with = "as_specs")]
    pub services: BTreeMap<String, Arc<Service>>,
}

fn as_text<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
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
    Closing {
        /// The proxy is to come back at a random moment within this time, of 1 s at least: a thousand others do too.
        within: Duration,
    },
}

/// Why a poll cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// So many proxies were heard of within the last hour that there is no room for another.
    #[error("too many proxies")]
    TooManyProxies,
    /// The proxy's id was first heard of from somebody else.
    #[error("proxy: this id belongs to another certificate")]
    NotYours,
}

/// What a published snapshot changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The version of all that is in force.
    pub version: Version,
    /// The services that changed, by name.
    pub changed: Vec<String>,
    /// Held polls that were woken.
    pub woken: usize,
}

impl Store {
    /// An empty store, not ready before the first snapshot. `source` says where the services come from, for operators; the polls of
    /// proxies that serve something are held for `report_interval` at most.
    pub fn new(source: impl Into<String>, clock: Clock, report_interval: ReportInterval) -> Self {
        let inner = Inner {
            state: state::State::new(report_interval),
            loaded: None,
            refused: BTreeMap::new(),
            refusal: None,
            history: History::default(),
            staleness: Staleness::default(),
        };
        Self(Arc::new(Shared {
            clock,
            source: source.into(),
            report_interval,
            inner: Mutex::new(inner),
            wants: Notify::new(),
        }))
    }

    /// Puts a snapshot in force and wakes the polls that subscribed to what it changes. `reach` is how far the source had read for it; nowhere for a source
    /// that has no revisions.
    pub fn publish(&self, snapshot: Snapshot, reach: Reach) -> Published {
        let now = self.0.clock.now();
        let mut inner = self.lock();
        let coming = Coming::compare(inner.state.catalog.iter(), &snapshot);
        let (changed, woken) = inner.state.publish(snapshot, reach);
        inner.loaded = Some(now);
        let version = inner.state.version();
        if let Some(coming) = coming {
            inner.history.changed(&self.0.source, coming, version.to_string(), now);
        }
        Published { version, changed: changed.into_iter().collect(), woken }
    }

    /// Notes that the source has read up to `progress`, and that nothing changed.
    pub fn advance(&self, progress: Progress) {
        self.lock().state.advance(progress);
    }

    /// Whether proxies have seen revisions of the source at `place` elsewhere that we lack.
    pub fn wants_at(&self, place: usize) -> bool {
        self.lock().state.wants_at(place)
    }

    /// Completes when a poll may want progress that we lack.
    pub async fn wants(&self) {
        self.0.wants.notified().await;
    }

    /// Notes that a list of all that there was at `place`, begun at `begun`, was at `revision`: if a proxy came with more before that, it has it from
    /// another history.
    pub fn listed(&self, place: usize, revision: u64, begun: Instant) {
        self.lock().state.listed(place, revision, begun);
    }

    /// Notes that something of the source was refused; what is in force stays. `origin` says where it comes from.
    pub fn refuse(&self, origin: &str, message: String) {
        let now = self.0.clock.now();
        let mut inner = self.lock();
        inner.history.refused(origin, &message, now);
        inner.refused.insert(origin.to_owned(), (message.clone(), now));
        inner.refusal = Some((origin.to_owned(), message, now));
    }

    /// Notes that what comes from `origin` is good, or gone.
    pub fn resolve(&self, origin: &str) {
        let mut inner = self.lock();
        inner.refused.remove(origin);
        inner.history.resolved(origin);
    }

    /// Answers a poll, at once or when something that it subscribed to changes, its wait is over, a newer poll of the same proxy
    /// arrives or the store closes. Dropping the future (the client left) releases the poll.
    ///
    /// # Errors
    /// [`StoreError::TooManyProxies`].
    pub async fn sync(&self, mut poll: Poll) -> Result<Outcome, StoreError> {
        poll.report_every(self.0.report_interval);
        let ends = Instant::now() + poll.wait;
        let arrival = self.lock().state.arrive(&poll, Instant::now())?;
        let (id, mut woken) = match arrival {
            Arrival::Answered(outcome) => return Ok(outcome),
            Arrival::Held(id, woken) => (id, woken),
        };
        let mut held = HeldPoll { store: self, poll: &poll, id };
        loop {
            if self.lock().state.wants() {
                self.0.wants.notify_one();
            }
            match timeout_at(ends, woken).await {
                Ok(Ok(Wake::Moved)) => {}
                Ok(Ok(Wake::Superseded)) => return Ok(Outcome::Superseded),
                Ok(Ok(Wake::Closing)) => return Ok(Outcome::Closing { within: self.lock().state.spread }),
                Ok(Err(_)) | Err(_) => return Ok(Outcome::Unchanged),
            }
            let arrival = self.lock().state.resume(&poll, held.id, Instant::now());
            match arrival {
                Arrival::Answered(outcome) => return Ok(outcome),
                Arrival::Held(id, next) => (held.id, woken) = (id, next),
            }
        }
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
        let refusal = inner.refusal.as_ref().map(|(origin, message, at)| Refusal {
            message: message.clone(),
            at: rfc3339(*at),
            resolved: !inner.refused.contains_key(origin),
        });
        let refused = inner.refused.values().map(|(message, at)| Refusal {
            message: message.clone(),
            at: rfc3339(*at),
            resolved: false,
        });
        Overview {
            version: inner.state.version().to_string(),
            source: self.0.source.clone(),
            loaded: inner.loaded.map(rfc3339),
            refusal,
            refused: refused.collect(),
            services: inner.state.catalog.iter().map(|(name, service)| (name.clone(), view(service))).collect(),
            proxies: self.proxies(&inner, |_| true),
        }
    }

    /// One service, for operators; `None` if it does not exist.
    pub fn service(&self, name: &str) -> Option<ServiceDetail> {
        let inner = self.lock();
        let service = view(inner.state.catalog.get(name)?);
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
        let (inner, now) = (self.lock(), Instant::now());
        Counts {
            digest: inner.state.catalog.digest(),
            services: inner.state.catalog.len(),
            polls_held: inner.state.polls.len(),
            proxies_connected: inner.state.proxies.connected(now),
            proxies_stale: inner.stale(),
            refused: inner.refused.len(),
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
            version: record.version.as_ref().map(ToString::to_string).unwrap_or_default(),
            current: inner.state.is_current(record.version.as_ref(), &record.subscription),
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

impl Inner {
    /// How many proxies are stale.
    fn stale(&self) -> usize {
        let now = Instant::now();
        let stale = |(proxy, record): &(&String, &Record)| {
            record.is_connected(now) && self.staleness.since(proxy, record, now).is_some()
        };
        self.state.proxies.iter().filter(stale).count()
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

fn view(service: &Service) -> ServiceView {
    ServiceView { version: format!("{:016x}", service.digest()), spec: service.spec().clone() }
}

fn rfc3339(time: SystemTime) -> String {
    // humantime cannot write years before 1970 or after 9999, which a broken clock may show.
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.clamp(UNIX_EPOCH, year_9999)).to_string()
}
