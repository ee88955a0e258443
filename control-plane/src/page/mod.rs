//! The page at `/`: problems, all services, and the last changes and refusals; and the read-only
//! JSON behind it.
//!
//! This module shows what the store knows, and changes nothing there. `assets` holds the HTML,
//! style and scripts of the page, which `document` assembles; no data belongs there.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page: one document without external resources |
//! | `GET /v1/status` | the status of all services, up to a limit; see [`lines::Query`] |
//! | `GET /v1/status/services/{name}` | one service with its servers, senders and the last 15 minutes; 404 if it does not exist |
//! | `GET /v1/status/history` | changes and refusals, the latest first |
//!
//! Each response has an `ETag`; the page asks every 2 s and gets 304 if nothing has changed. A
//! status takes a pass over all servers, so it is computed at most once a second, however many
//! people look. Every 10 s each service is sampled for the sparklines.
//!
//! The page shows the proxies that *this* replica counts now, and their load. Other replicas count
//! the others; over all replicas each proxy counts once. Grafana adds them up.

mod document;
mod lines;
mod parameters;
mod report;
mod samples;

use crate::store::{Status, Store};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bloc_daemon::lock;
use document::Document;
use samples::Samples;
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often each service is sampled. With [`samples::KEPT`] samples the sparklines show 15
/// minutes.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// The age up to which a status is reused.
const FRESH: Duration = Duration::from_secs(1);

struct Page {
    store: Store,
    document: Document,
    sample_every: Duration,
    /// Under one lock, so that only one request at a time passes over all servers.
    glance: Mutex<Option<(Instant, Arc<Status>)>>,
    samples: Mutex<Samples>,
}

/// The routes of the page. Samples are taken every `sample_every` until the routes are dropped.
/// Must be called inside a tokio runtime.
pub fn routes<S: Clone + Send + Sync + 'static>(store: Store, sample_every: Duration) -> Router<S> {
    let page = Arc::new(Page {
        store,
        document: Document::new(),
        sample_every,
        glance: Mutex::new(None),
        samples: Mutex::new(Samples::default()),
    });
    tokio::spawn(keep_sampling(Arc::downgrade(&page), sample_every));
    Router::new()
        .route("/", get(document))
        .route("/v1/status", get(status))
        .route("/v1/status/services/{name}", get(service))
        .route("/v1/status/history", get(history))
        .with_state(page)
}

async fn keep_sampling(page: Weak<Page>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(page) = page.upgrade() else { return };
        let status = page.look();
        lock(&page.samples).take(&status.services);
    }
}

impl Page {
    fn look(&self) -> Arc<Status> {
        let mut glance = lock(&self.glance);
        if let Some((at, status)) = &*glance
            && at.elapsed() < FRESH.min(self.sample_every)
        {
            return Arc::clone(status);
        }
        let status = Arc::new(self.store.status());
        *glance = Some((Instant::now(), Arc::clone(&status)));
        status
    }
}

async fn document(State(page): State<Arc<Page>>) -> Response {
    page.document.response()
}

async fn status(State(page): State<Arc<Page>>, Query(query): Query<lines::Query>, headers: HeaderMap) -> Response {
    let status = page.look();
    let samples = lock(&page.samples);
    answer(&lines::Glance::new(&status, &query, &samples, page.sample_every), &headers)
}

async fn service(State(page): State<Arc<Page>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(report) = page.store.service_report(&name) else {
        let error = serde_json::json!({"error": format!("no service {name:?}")});
        return (StatusCode::NOT_FOUND, axum::Json(error)).into_response();
    };
    let samples = lock(&page.samples);
    answer(&report::Report::new(report, &samples, page.sample_every), &headers)
}

async fn history(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    answer(&serde_json::json!({"events": page.store.history()}), &headers)
}

/// JSON with an `ETag`, or 304 if the client has the same.
fn answer(value: &impl Serialize, headers: &HeaderMap) -> Response {
    let body = match serde_json::to_vec(value) {
        Ok(body) => body,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let same = headers.get(header::IF_NONE_MATCH).is_some_and(|seen| seen.as_bytes() == tag.as_bytes());
    let mut response = if same { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
