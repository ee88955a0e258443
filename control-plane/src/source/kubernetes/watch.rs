//! Lists one kind of object, then watches it; lists again when the API server requires it.
//!
//! `kube::runtime::watcher` does this too, but hides the revision of a list or bookmark. What a
//! replica may answer depends on these revisions (see `adr/0001-versions.md`). A list is passed on
//! only when it is complete, so that listing again never shows half of the cluster.
//!
//! On failure the known state stays. The next try follows after [`LEAST_PAUSE`] to [`MOST_PAUSE`],
//! doubled each time, with jitter. A watch that ends or breaks continues where it was. Only 410
//! (the server has forgotten that revision) and [`SILENCE`] cost a list: after a restore of etcd, a
//! watch from a later revision never delivers anything.

use crate::metrics::Metrics;
use futures_util::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Error, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// A recovered API server must be noticed soon. Two replicas with five watches each do not overload
/// it.
const MOST_PAUSE: Duration = Duration::from_secs(5);
/// How long one watch lasts, in seconds.
const WATCH_SECONDS: u32 = 280;
/// Objects in a page of a list. A slice of 100 endpoints takes some 20 KiB.
const PAGE: u32 = 500;
/// How long a kind of object, or the right to read it, must be missing before its objects count as
/// gone. Not at once, because a starting API server may not know the kind yet. A replica that never
/// read any waits three times as long before it contradicts one that did; by then, that one has
/// given them up.
const LASTING: Duration = Duration::from_secs(3);
const WITHHELD_PAUSE: Duration = Duration::from_secs(1);
/// How long a watch may deliver nothing, over all its connections, before it lists again: two
/// bookmarks, which come every minute if etcd reports progress to the API server.
const SILENCE: Duration = Duration::from_secs(120);

/// Namespace and name.
pub type Key = (String, String);

/// What a watch reports.
#[derive(Debug)]
pub enum Reading<O> {
    /// All objects at a revision, and the greatest revision of an object. A missing or withheld
    /// kind has none, at [`u64::MAX`]: no proxy can know more of it.
    Listed { objects: Vec<(Key, O)>, revision: u64, newest: u64 },
    /// An object was added or changed.
    Applied { key: Key, object: O, revision: u64 },
    /// An object was deleted, or is no longer ours.
    Deleted { key: Key, revision: u64 },
    /// Nothing happened up to a revision.
    Passed { revision: u64 },
    /// The API lacks this kind of object, or does not let us read it. The known state stays until
    /// this has lasted.
    Unread,
}

/// The watch of one kind of object.
pub struct Watch<K, O> {
    pub api: Api<K>,
    /// The name of the kind in log and metrics.
    pub name: &'static str,
    pub selector: Option<&'static str>,
    /// The index of this watch among those with the same receiver.
    pub place: usize,
    /// Whether the cluster may lack this kind of object, or not let us read it.
    pub optional: bool,
    /// Reduces an object to the parts that matter; `None`: it does not matter.
    pub reduce: fn(K) -> Option<O>,
    pub readings: mpsc::Sender<(usize, Reading<O>)>,
    pub metrics: Arc<Metrics>,
}

enum End {
    /// The server closed it: continue from the last revision.
    Closed,
    Stale,
    /// The server lacks the kind, or does not let us read it.
    Withheld,
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static, O: Send + 'static> Watch<K, O> {
    /// Watches until the receiver of the readings is gone.
    pub async fn run(self) {
        let mut failures = 0;
        // Whether it was ever read, and since when the kind is missing or forbidden.
        let (mut read, mut withheld) = (false, None);
        while !self.readings.is_closed() {
            let begun = Instant::now();
            match self.list().await {
                Ok((objects, revision, newest)) => {
                    (failures, withheld, read) = (0, None, true);
                    self.send(Reading::Listed { objects, revision, newest }).await;
                    self.follow(revision).await;
                }
                Err(error) if self.is_withheld(&error) => {
                    let lasting = if read { LASTING } else { 3 * LASTING };
                    let lasts = *withheld.get_or_insert(begun) + lasting < begun;
                    let none = Reading::Listed { objects: Vec::new(), revision: u64::MAX, newest: 0 };
                    self.send(if lasts { none } else { Reading::Unread }).await;
                    if has_code(&error, 404) {
                        tracing::debug!(kind = self.name, "the cluster does not know this kind of object");
                    } else {
                        self.metrics.count_watch_error(self.name);
                        tracing::warn!(kind = self.name, %error, "not allowed to read this kind of object; treating it as if there were none");
                    }
                    sleep(if lasts { MOST_PAUSE } else { WITHHELD_PAUSE }).await;
                }
                Err(error) => self.pause("list", &error, &mut failures).await,
            }
        }
    }

    /// All objects, the revision of the list, and the greatest revision of an object.
    async fn list(&self) -> Result<(Vec<(Key, O)>, u64, u64), Error> {
        let mut params = ListParams { label_selector: self.selector.map(str::to_owned), ..ListParams::default() };
        params = params.limit(PAGE);
        let (mut objects, mut revision, mut newest) = (Vec::new(), 0, 0);
        loop {
            let page = self.api.list(&params).await?;
            revision = revision.max(number(page.metadata.resource_version.as_deref()));
            for object in page.items {
                newest = newest.max(of(&object));
                let key = key(&object);
                objects.extend((self.reduce)(object).map(|object| (key, object)));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((objects, revision, newest)),
            }
        }
    }

    /// Reports what happens after `revision`, until a new list is needed.
    async fn follow(&self, mut revision: u64) {
        let (mut failures, mut heard) = (0, Instant::now());
        while !self.readings.is_closed() {
            let (before, started) = (revision, Instant::now());
            match self.watch(&mut revision, &mut heard).await {
                Ok(End::Closed) => {
                    failures = 0;
                    // Do not spin if the server closes at once.
                    sleep_until(started + LEAST_PAUSE).await;
                }
                Ok(End::Stale) => return,
                Ok(End::Withheld) => return sleep(LEAST_PAUSE).await,
                Err(error) => {
                    if revision > before {
                        failures = 0;
                    }
                    self.pause("watch", &error, &mut failures).await;
                }
            }
        }
    }

    async fn watch(&self, revision: &mut u64, heard: &mut Instant) -> Result<End, Error> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.label_selector = self.selector.map(str::to_owned);
        let from = revision.to_string();
        let mut events = match timeout_at(*heard + SILENCE, self.api.watch(&params, &from)).await {
            Ok(Ok(events)) => pin!(events),
            Ok(Err(error)) => return self.judge(error),
            Err(_) => return Ok(self.is_silent()),
        };
        loop {
            let Ok(event) = timeout_at(*heard + SILENCE, events.next()).await else { return Ok(self.is_silent()) };
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
            *heard = Instant::now();
            self.send(reading).await;
        }
    }

    fn is_silent(&self) -> End {
        tracing::info!(kind = self.name, "no events for {} s; listing again", SILENCE.as_secs());
        End::Stale
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
        if !matches!(reading, Reading::Unread) {
            self.metrics.note_watch(self.name);
        }
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

/// A resource version as a number. Since 1.35 Kubernetes guarantees that these are growing numbers;
/// in practice they always were.
pub fn number(revision: Option<&str>) -> u64 {
    revision.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::extract::Query;
    use axum::response::{IntoResponse, Response};
    use axum::routing::get;
    use axum::{Json, Router};
    use futures_util::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Each list has the next of these revisions. A watch ends after a minute without events; only
    /// the first one sends a bookmark of 901 halfway.
    fn api(revisions: [u64; 3]) -> Router {
        let (lists, watches) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let answer = move |Query(query): Query<HashMap<String, String>>| async move {
            if !query.contains_key("watch") {
                let revision = revisions[lists.fetch_add(1, Ordering::Relaxed) as usize].to_string();
                let metadata = json!({"resourceVersion": revision});
                let item = json!({"metadata": {"name": "a", "namespace": "b", "resourceVersion": "7"}});
                let list = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": [item]});
                return Json(list).into_response();
            }
            let metadata = json!({"resourceVersion": "901", "creationTimestamp": null});
            let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
            let is_first = watches.fetch_add(1, Ordering::Relaxed) == 0;
            let line = is_first.then(|| format!("{}\n", json!({"type": "BOOKMARK", "object": bookmark})));
            let parts = stream::iter([line.unwrap_or_default(), String::new()]).then(|part| async {
                sleep(Duration::from_secs(30)).await;
                Ok::<_, std::io::Error>(part)
            });
            Response::new(Body::from_stream(parts))
        };
        Router::new().route("/api/v1/configmaps", get(answer))
    }

    #[tokio::test(start_paused = true)]
    async fn lists_again_after_a_silence_over_several_watches() {
        let (sender, mut readings) = mpsc::channel(10);
        let client = kube::Client::new(api([900, 8, 9]), "default");
        let watch = Watch {
            api: Api::<ConfigMap>::all(client),
            name: "configmaps",
            selector: None,
            place: 0,
            optional: false,
            reduce: |_| Some(()),
            readings: sender,
            metrics: Arc::default(),
        };
        let (start, running) = (Instant::now(), tokio::spawn(watch.run()));
        let mut heard = Vec::new();
        for _ in 0..4 {
            let (_, reading) = readings.recv().await.unwrap();
            let seconds = start.elapsed().as_secs();
            heard.push(match reading {
                Reading::Listed { revision, newest, .. } => (seconds, revision, newest),
                Reading::Passed { revision } => (seconds, revision, 0),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(heard, [(0, 900, 7), (30, 901, 0), (150, 8, 7), (270, 9, 7)]);
        running.abort();
    }
}
