//! The HTTP interface.
//!
//! This module reads requests, limits their memory and writes answers. The store decides what a
//! poll gets.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/sync` | the long poll of the proxies, see [`sync`] |
//! | `POST /v1/cpu` | what node agents say of pods and ask about them, see [`cpu`](crate::cpu) |
//! | `POST /v1/lease` | which part of a CPU limit a node holds, see [`leases`](crate::leases) |
//! | `GET /healthz` | 200 as long as the process runs |
//! | `GET /readyz` | 200 once services are in force; 503 before, and from the beginning of a shutdown |
//! | `GET /metrics` | OpenMetrics text, see [`metrics`](crate::metrics); on its own port if one is set |
//!
//! The [`page`] adds `/` and `/v1/status`. Errors are `{"error": "..."}`.

mod bodies;
pub mod caller;
mod context;
mod cpu;
pub mod identity;
mod lease;
mod no_room;
mod sync;
mod transit;

use crate::leases::{Leases, Tokens};
use crate::metrics::{LatencyMetrics, Metrics};
use crate::page;
use crate::store::Store;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bloc_daemon::cpu::CPU_PATH;
use bloc_daemon::server::scraped;
use bloc_leases::LEASE_PATH;
use bloc_policy::sync::SYNC_PATH;
use context::{Context, refusal};
use identity::{Identity, NodeAgent};
use std::sync::Arc;
use transit::Transit;

/// Bytes of bodies and responses in transit, and those at a separate metrics port: a scrape of
/// 1,000 services takes 2 MB.
const IN_TRANSIT: usize = 64 << 20;
const SCRAPES_IN_TRANSIT: usize = 16 << 20;

/// Access rules.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// How proxies prove who they are.
    pub identity: Identity,
    /// The only identity that counts as a node agent, if identities are required.
    pub node_agent: NodeAgent,
    /// Reviews the tokens that prove on which node an agent runs, if identities are required;
    /// `None`: agents need no token.
    pub tokens: Option<Tokens>,
}

/// All routes except `/metrics`; without `leases`, there is no store for them. Must be called
/// inside a tokio runtime, because it starts the tasks that sample for the page and observe arrival
/// rates.
pub fn router(store: Store, metrics: Arc<Metrics>, access: Access, leases: Option<Leases>) -> Router {
    finish(routes(&store), context(store, metrics, access, leases))
}

/// The same, and `/metrics`.
pub fn router_with_metrics(store: Store, metrics: Arc<Metrics>, access: Access, leases: Option<Leases>) -> Router {
    finish(routes(&store).merge(scrapes()), context(store, metrics, access, leases))
}

/// `/metrics` alone.
pub fn metrics_router(store: Store, metrics: Arc<Metrics>, leases: Option<Leases>) -> Router {
    let context = context(store, metrics, Access::default(), leases);
    finish(scrapes(), Context { transit: Transit::of(SCRAPES_IN_TRANSIT), ..context })
}

fn routes(store: &Store) -> Router<Context> {
    tokio::spawn(Store::keep_observing(store.downgrade()));
    Router::new()
        .route(SYNC_PATH, post(sync::sync))
        .route(CPU_PATH, post(cpu::cpu))
        .route(LEASE_PATH, post(lease::lease))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .merge(page::routes(store.clone(), page::SAMPLE_EVERY))
}

fn scrapes() -> Router<Context> {
    Router::new().route("/metrics", get(scrape))
}

fn context(store: Store, metrics: Arc<Metrics>, access: Access, leases: Option<Leases>) -> Context {
    let Access { identity, node_agent, tokens } = access;
    let transit = Transit::of(IN_TRANSIT);
    Context { store, metrics, identity, node_agent, tokens, leases, transit, named: Arc::new(no_room::named()) }
}

fn finish(routes: Router<Context>, context: Context) -> Router {
    routes
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async { refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed") })
        .layer(from_fn_with_state(context.clone(), bodies::count_answers))
        .with_state(context)
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
    let leases = context.leases.as_ref().map(Leases::view).unwrap_or_default();
    scraped(context.metrics.encode(context.store.counts(), &context.store.signals(), latencies, &leases))
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
        let context = Context { transit: Transit::of(4), ..context(store, Arc::default(), Access::default(), None) };
        let mut router = finish(Router::new().route("/", get(|| async { "some" })), context);
        for (version, status) in
            [(Version::HTTP_11, StatusCode::OK), (Version::HTTP_2, StatusCode::SERVICE_UNAVAILABLE)]
        {
            let request = Request::builder().version(version).uri("/").body(Body::empty()).unwrap();
            assert_eq!(router.call(request).await.unwrap().status(), status, "{version:?}");
        }
    }
}
