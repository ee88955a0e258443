//! Lists one kind of object, then watches it; lists again when the API server requires it.
//!
//! `kube::runtime::watcher` does this too, but hides the revision of a list or bookmark. What a
//! replica may answer depends on these revisions (see `adr/0001-versions.md`). A list is passed on
//! only when it is complete, so that listing again never shows half of the cluster.
//!
//! On failure the known state stays. The next try follows after [`LEAST_PAUSE`] to [`MOST_PAUSE`],
//! doubled each time, with jitter, or after the time that `Retry-After` asks for, at most
//! [`MOST_ASKED`]. A watch that ends or breaks continues where it was. A new list is needed after
//! 410 (the server has forgotten that revision), if the server has lower revisions when a broken
//! watch connects again (its etcd was restored), and after [`SILENCE`]: a watch from a revision
//! that etcd has not reached never delivers anything. Lists after 410 pause as after failures,
//! until a watch has lasted.

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
/// The longest pause that the API server may ask for.
const MOST_ASKED: Duration = Duration::from_secs(120);
/// How long one watch lasts, in seconds.
const WATCH_SECONDS: u32 = 280;
/// A watch that has ended before this has broken.
const WATCH: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 10);
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
    /// No events for too long.
    Silent,
    /// The server has forgotten the revision, lacks the kind, or does not let us read it.
    Stale(Error),
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
                    (withheld, read) = (None, true);
                    self.send(Reading::Listed { objects, revision, newest }).await;
                    let listed = Instant::now();
                    let stale = self.follow(revision).await;
                    // Otherwise it has failed, whatever it told before.
                    if listed.elapsed() > MOST_PAUSE {
                        failures = 0;
                    }
                    if let Some(error) = stale {
                        _ = self.pause("watch", &error, &mut failures).await;
                    }
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
                Err(error) => _ = self.pause("list", &error, &mut failures).await,
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

    /// Reports what happens after `revision`, until a new list is needed. Returns the error if the
    /// server has forgotten the revision, or gives no objects of this kind any more.
    async fn follow(&self, mut revision: u64) -> Option<Error> {
        let (mut failures, mut heard, mut broke) = (0, Instant::now(), false);
        while !self.readings.is_closed() {
            let checked = if broke { self.is_behind(revision, heard).await } else { Ok(false) };
            let (before, started) = (revision, Instant::now());
            let ended = match checked {
                Ok(true) => break,
                Ok(false) => self.watch(&mut revision, &mut heard).await,
                Err(error) => self.judge(error),
            };
            broke = !matches!(&ended, Ok(End::Closed) if started.elapsed() >= WATCH);
            match ended {
                Ok(End::Closed) => {
                    // A server that closes at once and tells nothing, again and again, fails.
                    failures = if broke && revision == before { failures + 1 } else { 0 };
                    sleep_until(started + backoff(failures)).await;
                }
                Ok(End::Silent) => {
                    tracing::info!(kind = self.name, "no events for {} s; listing again", SILENCE.as_secs());
                    break;
                }
                Ok(End::Stale(error)) => return Some(error),
                Err(error) => {
                    if revision > before {
                        failures = 0;
                    }
                    // A silence that the server asks for does not count.
                    heard += self.pause("watch", &error, &mut failures).await;
                }
            }
        }
        None
    }

    /// Whether the API server has not reached `revision`: after a broken connection, its etcd may
    /// be another one, restored from a backup. Without an answer, a list has to say.
    async fn is_behind(&self, revision: u64, heard: Instant) -> Result<bool, Error> {
        // Any object will do; with the selector, the server might read many to find one.
        let one = ListParams::default().limit(1);
        let Ok(page) = timeout_at(heard + SILENCE, self.api.list_metadata(&one)).await else { return Ok(true) };
        let behind = number(page?.metadata.resource_version.as_deref()) < revision;
        if behind {
            tracing::warn!(kind = self.name, "the API server has lower revisions than before; listing again");
        }
        Ok(behind)
    }

    async fn watch(&self, revision: &mut u64, heard: &mut Instant) -> Result<End, Error> {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        params.label_selector = self.selector.map(str::to_owned);
        let from = revision.to_string();
        let mut events = match timeout_at(*heard + SILENCE, self.api.watch(&params, &from)).await {
            Ok(Ok(events)) => pin!(events),
            Ok(Err(error)) => return self.judge(error),
            Err(_) => return Ok(End::Silent),
        };
        loop {
            let Ok(event) = timeout_at(*heard + SILENCE, events.next()).await else { return Ok(End::Silent) };
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

    fn judge(&self, error: Error) -> Result<End, Error> {
        if self.is_withheld(&error) || has_code(&error, 410) { Ok(End::Stale(error)) } else { Err(error) }
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

    /// Pauses after a failure. Returns the pause that the server asked for, zero if for none.
    async fn pause(&self, what: &'static str, error: &Error, failures: &mut u32) -> Duration {
        self.metrics.count_watch_error(self.name);
        let asked = asked(error);
        let pause =
            backoff(*failures).mul_f64(0.5 + 0.5 * fastrand::f64()).max(asked.mul_f64(1.0 + 0.2 * fastrand::f64()));
        *failures = failures.saturating_add(1);
        tracing::warn!(kind = self.name, what, %error, "request to the Kubernetes API failed; the last good state stays, next try in {} ms", pause.as_millis());
        sleep(pause).await;
        asked
    }
}

fn backoff(failures: u32) -> Duration {
    LEAST_PAUSE.saturating_mul(1 << failures.min(10)).min(MOST_PAUSE)
}

/// The pause that the server asks for.
fn asked(error: &Error) -> Duration {
    let Error::Api(status) = error else { return Duration::ZERO };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(MOST_ASKED)
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
    use crate::agents::leases::LeaseView;
    use crate::metrics::LatencyMetrics;
    use crate::source::kubernetes::client::with_retry_after;
    use crate::store::Counts;
    use axum::body::Body;
    use axum::extract::Query;
    use axum::http::StatusCode;
    use axum::http::header::RETRY_AFTER;
    use axum::response::{IntoResponse, Response};
    use axum::routing::get;
    use axum::{Json, Router};
    use futures_util::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};
    use std::collections::{BTreeMap, HashMap};
    use std::sync::atomic::{AtomicU64, Ordering};
    use tower::Layer;
    use tower::util::AndThenLayer;

    /// A list of these objects at a revision.
    fn list_at(revision: u64, items: &[Value]) -> Value {
        let metadata = json!({"resourceVersion": revision.to_string()});
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
    }

    /// Each list has the next of these revisions. A watch ends after a minute without events; only
    /// the first one sends a bookmark of 901 halfway.
    fn api(now: u64, revisions: [u64; 3]) -> Router {
        let (lists, watches) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let answer = move |Query(query): Query<HashMap<String, String>>| async move {
            if query.get("limit").is_some_and(|limit| limit == "1") {
                return Json(list_at(now, &[])).into_response();
            }
            if !query.contains_key("watch") {
                let revision = revisions[lists.fetch_add(1, Ordering::Relaxed) as usize];
                let item = json!({"metadata": {"name": "a", "namespace": "b", "resourceVersion": "7"}});
                return Json(list_at(revision, &[item])).into_response();
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

    /// The second, the revision and the newest one of each list and bookmark.
    async fn heard(api: Router) -> [(u64, u64, u64); 4] {
        let (sender, mut readings) = mpsc::channel(10);
        let client = kube::Client::new(api, "default");
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
        let mut heard = [(0, 0, 0); 4];
        for heard in &mut heard {
            let (_, reading) = readings.recv().await.unwrap();
            let seconds = start.elapsed().as_secs();
            *heard = match reading {
                Reading::Listed { revision, newest, .. } => (seconds, revision, newest),
                Reading::Passed { revision } => (seconds, revision, 0),
                other => panic!("{other:?}"),
            };
        }
        running.abort();
        heard
    }

    #[tokio::test(start_paused = true)]
    async fn lists_again_after_a_silence_over_several_watches() {
        assert_eq!(heard(api(1_000, [900, 902, 903])).await, [(0, 900, 7), (30, 901, 0), (150, 902, 7), (270, 903, 7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_again_at_once_if_the_server_has_lower_revisions() {
        let heard = heard(api(8, [900, 8, 9])).await;
        assert_eq!(heard, [(0, 900, 7), (30, 901, 0), (60, 8, 7), (180, 9, 7)]);
    }

    /// Each list succeeds, and each watch gets 410: at once, after an event, or with this header.
    fn api_that_forgets(retry_after: Option<&'static str>) -> Router {
        let count = Arc::new(AtomicU64::new(0));
        let answer = move |Query(query): Query<HashMap<String, String>>| async move {
            let nth = count.fetch_add(1, Ordering::Relaxed);
            if !query.contains_key("watch") {
                return Json(list_at(9, &[])).into_response();
            }
            let status =
                json!({"kind": "Status", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
            match retry_after {
                Some(seconds) => (StatusCode::GONE, [(RETRY_AFTER, seconds)], Json(status)).into_response(),
                None if nth % 4 == 1 => (StatusCode::GONE, Json(status)).into_response(),
                None => {
                    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "b", "resourceVersion": "10"}});
                    let events =
                        [json!({"type": "ADDED", "object": object}), json!({"type": "ERROR", "object": status})];
                    events.map(|event| format!("{event}\n")).concat().into_response()
                }
            }
        };
        Router::new().route("/api/v1/configmaps", get(answer))
    }

    /// The lists and the counted errors of ten minutes.
    async fn lists(retry_after: Option<&'static str>) -> (usize, String) {
        lists_of(api_that_forgets(retry_after)).await
    }

    async fn lists_of(api: Router) -> (usize, String) {
        let (sender, mut readings) = mpsc::channel(10);
        let service = AndThenLayer::new(with_retry_after).layer(api);
        let metrics = Arc::new(Metrics::default());
        let watch = Watch {
            api: Api::<ConfigMap>::all(kube::Client::new(service, "default")),
            name: "configmaps",
            selector: None,
            place: 0,
            optional: false,
            reduce: |_| Some(()),
            readings: sender,
            metrics: Arc::clone(&metrics),
        };
        let (end, running) = (Instant::now() + Duration::from_secs(600), tokio::spawn(watch.run()));
        let mut count = 0;
        while let Ok(Some((_, reading))) = timeout_at(end, readings.recv()).await {
            count += usize::from(matches!(reading, Reading::Listed { .. }));
        }
        running.abort();
        let text =
            metrics.encode(Counts::default(), &BTreeMap::new(), LatencyMetrics::default(), &LeaseView::default());
        let errors =
            text.unwrap().lines().find(|line| line.starts_with("bloc_kubernetes_watch_errors")).map(str::to_owned);
        (count, errors.unwrap_or_default())
    }

    /// The first watch is refused: the API server is busy for 100 s. The next ones end after 30 s
    /// with a bookmark.
    fn api_that_is_busy() -> Router {
        let watches = Arc::new(AtomicU64::new(0));
        let answer = move |Query(query): Query<HashMap<String, String>>| async move {
            if !query.contains_key("watch") {
                return Json(list_at(99 + watches.load(Ordering::Relaxed), &[])).into_response();
            }
            let nth = watches.fetch_add(1, Ordering::Relaxed);
            if nth == 0 {
                return (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "100")], "busy").into_response();
            }
            sleep(Duration::from_secs(30)).await;
            let metadata = json!({"resourceVersion": (99 + nth).to_string()});
            let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
            format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into_response()
        };
        Router::new().route("/api/v1/configmaps", get(answer))
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_the_server_asks_for_is_no_silence() {
        assert_eq!(lists_of(api_that_is_busy()).await.0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_are_forgotten_at_once_have_pauses_between_them() {
        let (count, errors) = lists(None).await;
        assert!((120..=250).contains(&count), "{count} lists");
        assert!(errors.ends_with(&format!(" {count}")), "{errors} of {count}");
        assert!((9..=11).contains(&lists(Some("60")).await.0), "Retry-After");
        assert!((5..=6).contains(&lists(Some("100000")).await.0), "it asks for too much");
    }
}
