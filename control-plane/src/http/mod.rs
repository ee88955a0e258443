//! The HTTP interface.
//!
//! This module reads requests, limits their memory and writes answers. The store decides what a
//! poll gets.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/sync` | the long poll of the proxies, see [`sync`] |
//! | `POST /v1/cpu`, `/v1/lease` | for node agents, see [`agents`](crate::agents) |
//! | `GET /healthz` | 200 as long as the process runs |
//! | `GET /readyz` | 200 once services are in force; 503 before, and from the start of a shutdown |
//! | `GET /metrics` | OpenMetrics text, see [`metrics`](crate::metrics); on its own port if one is set |
//!
//! The [`page`] adds `/` and `/v1/status`. Errors are `{"error": "..."}`.

pub(crate) mod bodies;
pub(crate) mod context;
pub mod identity;
mod sync;

use crate::agents::leases::Leases;
use crate::agents::routes::{cpu, lease};
use crate::metrics::LatencyMetrics;
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
use bloc_daemon::shares::Shares;
use bloc_leases::LEASE_PATH;
use bloc_policy::sync::SYNC_PATH;
use context::{Context, refusal};

/// Bytes of responses in transit at a separate metrics port: a scrape of 1,000 services takes 2 MB.
const SCRAPES_IN_TRANSIT: usize = 16 << 20;

/// All routes, and `/metrics` unless it has its own port. Must be called inside a tokio runtime,
/// because it starts the tasks that sample for the page and observe arrival rates.
pub(crate) fn router(context: Context, with_metrics: bool) -> Router {
    let routes = routes(&context.store);
    finish(if with_metrics { routes.merge(scrapes()) } else { routes }, context)
}

/// `/metrics` alone.
pub(crate) fn metrics_router(context: Context) -> Router {
    finish(scrapes(), Context { transit: Shares::fair(SCRAPES_IN_TRANSIT), ..context })
}

fn routes(store: &Store) -> Router<Context> {
    tokio::spawn(Store::keep_observing(store.downgrade()));
    Router::new()
        .route(SYNC_PATH, post(sync::sync))
        .route(CPU_PATH, post(cpu))
        .route(LEASE_PATH, post(lease))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .merge(page::routes(store.clone(), page::SAMPLE_EVERY))
}

fn scrapes() -> Router<Context> {
    Router::new().route("/metrics", get(scrape))
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
    let leases = context.agents.leases.as_ref().map(Leases::view).unwrap_or_default();
    scraped(context.metrics.encode(context.store.counts(), &context.store.signals(), latencies, &leases))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Agents;
    use crate::clock::Clock;
    use crate::load::ReportInterval;
    use axum::body::Body;
    use axum::http::Request;
    use identity::Identity;
    use std::sync::Arc;
    use tower_service::Service;

    #[tokio::test]
    async fn answers_need_memory() {
        let store = Store::new("test", Clock::system(), ReportInterval::default());
        let context = Context::new(store, Arc::default(), Identity::None, Agents::default());
        for (room, status) in [(200, StatusCode::OK), (199, StatusCode::SERVICE_UNAVAILABLE)] {
            let context = Context { transit: Shares::fair(room), ..context.clone() };
            let mut router = finish(Router::new().route("/", get(|| async { "a".repeat(100) })), context);
            let request = Request::builder().uri("/").body(Body::empty()).unwrap();
            assert_eq!(router.call(request).await.unwrap().status(), status, "{room}");
        }
    }
}
