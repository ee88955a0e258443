//! The HTTP interface.
//!
//! This module reads requests, limits their memory and writes answers. The store decides what a
//! poll gets.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/sync` | the long poll of the proxies, see [`sync`] |
//! | `POST /v1/cpu` | what node agents say of pods and ask about them, see [`cpu`](crate::cpu) |
//! | `GET /v1/services` | the services in force, their source, the last refusal, the proxies |
//! | `GET /v1/services/{name}` | one service, its [`load`](crate::load::Signals) and its proxies; 404 if it does not exist |
//! | `GET /healthz` | 200 as long as the process runs |
//! | `GET /readyz` | 200 once services are in force; 503 before, and from the beginning of a shutdown |
//! | `GET /metrics` | OpenMetrics text, see [`metrics`]; on its own port if one is set |
//!
//! The [`page`] adds `/` and `/v1/status`. Errors are `{"error": "..."}`.

mod bodies;
pub mod caller;
mod context;
mod cpu;
pub mod identity;
mod no_room;
mod sync;
mod transit;

use crate::cpu::CPU_PATH;
use crate::metrics::{self, LatencyMetrics, Metrics};
use crate::page;
use crate::store::Store;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bloc_policy::sync::SYNC_PATH;
use context::{Context, refusal};
use identity::{Identity, NodeAgent};
use std::sync::Arc;
use transit::Transit;

/// Bytes of bodies and responses in transit, and those at a separate metrics port: a scrape of
/// 1,000 services takes 2 MB.
const IN_TRANSIT: usize = 64 << 20;
const SCRAPES_IN_TRANSIT: usize = 16 << 20;

/// All routes except `/metrics`; `identity` says how proxies prove who they are, and `node_agent`
/// who may report the CPU of pods then. Must be called
/// inside a tokio runtime, because it starts the tasks that sample for the page and observe arrival
/// rates.
pub fn router(store: Store, metrics: Arc<Metrics>, identity: Identity, node_agent: NodeAgent) -> Router {
    finish(routes(&store), Context { node_agent, ..context(store, metrics, identity) })
}

/// The same, and `/metrics`.
pub fn router_with_metrics(store: Store, metrics: Arc<Metrics>, identity: Identity, node_agent: NodeAgent) -> Router {
    finish(routes(&store).merge(scrapes()), Context { node_agent, ..context(store, metrics, identity) })
}

/// `/metrics` alone.
pub fn metrics_router(store: Store, metrics: Arc<Metrics>) -> Router {
    let context = context(store, metrics, Identity::None);
    finish(scrapes(), Context { transit: Transit::of(SCRAPES_IN_TRANSIT), ..context })
}

fn routes(store: &Store) -> Router<Context> {
    tokio::spawn(Store::keep_observing(store.downgrade()));
    Router::new()
        .route(SYNC_PATH, post(sync::sync))
        .route(CPU_PATH, post(cpu::cpu))
        .route("/v1/services", get(services))
        .route("/v1/services/{name}", get(service))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .merge(page::routes(store.clone(), page::SAMPLE_EVERY))
}

fn scrapes() -> Router<Context> {
    Router::new().route("/metrics", get(scrape))
}

fn context(store: Store, metrics: Arc<Metrics>, identity: Identity) -> Context {
    let node_agent = NodeAgent::default();
    Context { store, metrics, identity, node_agent, transit: Transit::of(IN_TRANSIT), named: Arc::default() }
}

fn finish(routes: Router<Context>, context: Context) -> Router {
    routes
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async { refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed") })
        .layer(from_fn_with_state(context.clone(), bodies::count_answers))
        .with_state(context)
}

async fn services(State(context): State<Context>) -> Response {
    Json(context.store.overview()).into_response()
}

async fn service(State(context): State<Context>, Path(name): Path<String>) -> Response {
    match context.store.service(&name) {
        Some(service) => Json(service).into_response(),
        None => refusal(StatusCode::NOT_FOUND, &format!("no service {name:?}")),
    }
}

async fn readyz(State(context): State<Context>) -> Response {
    if context.store.is_ready() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

async fn scrape(State(context): State<Context>) -> Response {
    let (services, edges) = context.store.latency_totals();
    let latencies = LatencyMetrics { services, edges };
    match context.metrics.encode(context.store.counts(), &context.store.signals(), latencies) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::load::ReportInterval;
    use axum::body::Body;
    use axum::http::{Request, Version};
    use tower_service::Service;

    /// Over HTTP/1 a connection has one response at a time, over HTTP/2 a hundred.
    #[tokio::test]
    async fn small_answers_need_memory_over_http2_but_not_over_http1() {
        let store = Store::new("test", Clock::system(), ReportInterval::default());
        let context = Context { transit: Transit::of(4), ..context(store, Arc::default(), Identity::None) };
        let mut router = finish(Router::new().route("/", get(|| async { "some" })), context);
        for (version, status) in
            [(Version::HTTP_11, StatusCode::OK), (Version::HTTP_2, StatusCode::SERVICE_UNAVAILABLE)]
        {
            let request = Request::builder().version(version).uri("/").body(Body::empty()).unwrap();
            assert_eq!(router.call(request).await.unwrap().status(), status, "{version:?}");
        }
    }
}
