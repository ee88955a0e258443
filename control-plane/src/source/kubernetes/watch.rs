//! Lists one kind of object, then watches it; lists again when the API server requires it.
//!
//! `kube::runtime::watcher` does this too, but does not expose the revision of a list or a
//! bookmark. What a replica may answer depends on these revisions (see `adr/0001-versions.md`). A
//! list is passed on as a whole when it is complete, so that listing again never shows half of the
//! cluster.
//!
//! On failure the known state stays, and the next try follows after [`LEAST_PAUSE`] to
//! [`MOST_PAUSE`], doubled each time, with jitter. A watch that ends or breaks continues where it
//! was; only 410 (the server has forgotten that revision) costs a list.

use super::endpoints::{Service, Slice};
use super::key::Key;
use super::routes::Rules;
use crate::metrics::Metrics;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// An API server that is back must be noticed soon. Two replicas with five watches each do not
/// overload it.
const MOST_PAUSE: Duration = Duration::from_secs(5);
/// How long one watch lasts, in seconds.
const WATCH_SECONDS: u32 = 280;
/// Objects in a page of a list. A slice of 100 endpoints takes some 20 KiB.
const PAGE: u32 = 500;
/// How long a kind of object, or the right to read it, has to be missing before its objects count
/// as gone. Not at once, because a starting API server may not know the kind yet. A replica that
/// never read any waits three times as long before it contradicts one that did, so that the other
/// has given them up by then.
const LASTING: Duration = Duration::from_secs(3);
const WITHHELD_PAUSE: Duration = Duration::from_secs(1);
/// The shortest time between lists that only make sure that we are up to date.
const LEAST_REFRESH: Duration = Duration::from_secs(5);

/// An object, reduced to the parts that matter.
#[derive(Debug)]
pub enum Object {
    /// An EndpointSlice.
    Slice(Slice),
    /// A Service.
    Service(Service),
    /// A VirtualService.
    Route(Rules),
    /// A ConfigMap with parameters.
    Policy(Box<ConfigMap>),
}

/// What a watch reports.
#[derive(Debug)]
pub enum Reading<O = Object> {
    /// All objects at a revision; `begun` is when the list began.
    Listed { objects: Vec<(Key, O)>, revision: u64, begun: Instant },
    /// An object was added or changed.
    Applied { key: Key, object: O, revision: u64 },
    /// An object was deleted, or is no longer ours.
    Deleted { key: Key, revision: u64 },
    /// Nothing happened up to a revision.
    Passed { revision: u64 },
    /// The API does not know this kind of object, or does not let us read it. The known state
    /// stays. `begun` is that of `Listed`; it is set once this has lasted and nothing was ever
    /// read.
    Unread { begun: Option<Instant> },
}

/// The watch of one kind of object.
pub struct Watch<K, O = Object> {
    /// What is watched.
    pub api: Api<K>,
    /// The name of the kind in log and metrics.
    pub name: &'static str,
    /// A label selector.
    pub selector: Option<&'static str>,
    /// The place of this watch in a progress.
    pub place: usize,
    /// Whether the cluster may lack that kind of object, or not let us read it.
    pub optional: bool,
    /// Reduces an object to the parts that matter; `None`: it does not matter.
    pub reduce: fn(K) -> Option<O>,
    /// Receives the readings.
    pub readings: mpsc::Sender<(usize, Reading<O>)>,
    /// Notified to list again, to make sure that this watch is up to date.
    pub refresh: Arc<Notify>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Why a watch ended.
enum End {
    /// The server closed it: continue where it was.
    Closed,
    /// List again.
    Stale,
    /// The server does not know the kind, or does not let us read it.
    Withheld,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static, O: Send + 'static> Watch<K, O> {
    /// Watches until the receiver of the readings is gone.
    pub async fn run(self) {
        let mut failures = 0;
        // The last revision that was read, and since when the kind is missing or forbidden.
        let (mut reached, mut withheld) = (0, None);
        while !self.readings.is_closed() {
            let begun = Instant::now();
            match self.list().await {
                Ok((objects, revision)) => {
                    (failures, withheld) = (0, None);
                    self.send(Reading::Listed { objects, revision, begun }).await;
                    reached = self.follow(revision, begun).await;
                }
                Err(error) if self.is_withheld(&error) => {
                    let lasting = if reached > 0 { LASTING } else { 3 * LASTING };
                    let lasts = *withheld.get_or_insert(begun) + lasting < begun;
                    let reading = if lasts && reached > 0 {
                        Reading::Listed { objects: Vec::new(), revision: reached, begun }
                    } else {
                        Reading::Unread { begun: lasts.then_some(begun) }
                    };
                    self.send(reading).await;
                    if has_code(&error, 404) {
                        tracing::debug!(kind = self.name, "the cluster does not know this kind of object");
                    } else {
                        self.metrics.count_watch_error(self.name);
                        tracing::warn!(kind = self.name, %error, "not allowed to read this kind of object, which counts as if there were none");
                    }
                    sleep(if lasts { MOST_PAUSE } else { WITHHELD_PAUSE }).await;
                }
                Err(error) => self.pause("list", &error, &mut failures).await,
            }
        }
    }

    async fn list(&self) -> Result<(Vec<(Key, O)>, u64), Error> {
        let mut params = ListParams { label_selector: self.selector.map(str::to_owned), ..ListParams::default() };
        params = params.limit(PAGE);
        let (mut objects, mut revision) = (Vec::new(), 0);
        loop {
            let page = self.api.list(&params).await?;
            revision = revision.max(number(page.metadata.resource_version.as_deref()));
            for object in page.items {
                let key = key(&object);
                objects.extend((self.reduce)(object).map(|object| (key, object)));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((objects, revision)),
            }
        }
    }

    /// Reports what happens after `revision`, until a new list is needed. Returns the last revision
    /// that was read.
    async fn follow(&self, mut revision: u64, listed: Instant) -> u64 {
        let mut failures = 0;
        while !self.readings.is_closed() {
            let (before, started) = (revision, Instant::now());
            match self.watch(&mut revision, listed).await {
                Ok(End::Closed) => {
                    failures = 0;
                    // Do not spin if the server closes at once.
                    sleep_until(started + LEAST_PAUSE).await;
                }
                Ok(End::Stale) => return revision,
                Ok(End::Withheld) => {
                    sleep(LEAST_PAUSE).await;
                    return revision;
                }
                Err(error) => {
                    if revision > before {
                        failures = 0;
                    }
                    self.pause("watch", &error, &mut failures).await;
                }
            }
        }
        revision
    }

    async fn watch(&self, revision: &mut u64, listed: Instant) -> Result<End, Error> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.label_selector = self.selector.map(str::to_owned);
        let mut events = match self.api.watch(&params, &revision.to_string()).await {
            Ok(events) => pin!(events),
            Err(error) => return self.judge(error),
        };
        // When to list again although nothing is wrong; until then events are read as usual.
        let mut refresh = None;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.refresh.notified(), if refresh.is_none() => {
                    refresh = Some(listed + LEAST_REFRESH);
                    continue;
                }
                () = sleep_until(refresh.unwrap_or(listed)), if refresh.is_some() => return Ok(End::Stale),
            };
            let reading = match event {
                None => return Ok(End::Closed),
                Some(Err(error)) => return self.judge(error),
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    *revision = of(&object);
                    let key = key(&object);
                    match (self.reduce)(object) {
                        Some(object) => Reading::Applied { key, object, revision: *revision },
                        None => Reading::Deleted { key, revision: *revision },
                    }
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    *revision = of(&object);
                    Reading::Deleted { key: key(&object), revision: *revision }
                }
                Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                    *revision = number(Some(&bookmark.metadata.resource_version));
                    Reading::Passed { revision: *revision }
                }
                Some(Ok(WatchEvent::Error(status))) => return self.judge(Error::Api(status)),
            };
            self.send(reading).await;
        }
    }

    /// 410 means that the server has forgotten the revision.
    fn judge(&self, error: Error) -> Result<End, Error> {
        match error {
            error if self.is_withheld(&error) => Ok(End::Withheld),
            Error::Api(status) if status.code == 410 => {
                tracing::info!(kind = self.name, "the watch is too old, listing anew");
                Ok(End::Stale)
            }
            error => Err(error),
        }
    }

    fn is_withheld(&self, error: &Error) -> bool {
        self.optional && (has_code(error, 403) || has_code(error, 404))
    }

    async fn send(&self, reading: Reading<O>) {
        // If the receiver is gone, the loops notice.
        let _ = self.readings.send((self.place, reading)).await;
    }

    async fn pause(&self, what: &'static str, error: &Error, failures: &mut u32) {
        self.metrics.count_watch_error(self.name);
        let pause = LEAST_PAUSE.saturating_mul(1 << (*failures).min(10)).min(MOST_PAUSE);
        let pause = pause.mul_f64(0.5 + 0.5 * fastrand::f64());
        *failures = failures.saturating_add(1);
        tracing::warn!(kind = self.name, what, %error, "request to the Kubernetes API failed; the last good state stays, next try in {} ms", pause.as_millis());
        sleep(pause).await;
    }
}

fn has_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

fn key<K: Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn of<K: Resource>(object: &K) -> u64 {
    number(object.meta().resource_version.as_deref())
}

/// A resource version as a number. Kubernetes guarantees since 1.35 that these are growing numbers;
/// in fact they were before.
pub fn number(revision: Option<&str>) -> u64 {
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}
