//! Serves the HTTP interface until told to stop.

use crate::agents::Agents;
use crate::http;
use crate::http::context::Context;
use crate::http::identity::Identity;
use crate::metrics::Metrics;
use crate::store::Store;
use bloc_daemon::server::{Limits, Port};
use hyper_util::server::graceful::GracefulShutdown;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// How long responses may take to leave once a shutdown has begun. Held polls are answered at once,
/// so this only cuts off clients that do not read.
const DRAIN: Duration = Duration::from_secs(5);
/// The sockets to serve on.
#[derive(Debug)]
pub struct Listeners {
    /// Everything, except the metrics if they have a port of their own.
    pub main: TcpListener,
    /// `GET /metrics` alone, without an identity check; `None`: on the main port.
    pub metrics: Option<TcpListener>,
}

/// How requests are served.
#[derive(Clone, Debug)]
pub struct Serving {
    /// How proxies prove who they are.
    pub identity: Identity,
    /// What node agents may ask.
    pub agents: Agents,
    /// What clients may use. The port for metrics has its own limits, so that scrapers cannot keep
    /// proxies out.
    pub limits: Limits,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            identity: Identity::None,
            agents: Agents::default(),
            limits: Limits {
                // A proxy asks again at once, or a second after its last answer.
                head_timeout: Duration::from_secs(30),
                // All proxies of a large mesh at one replica, and some more. An idle connection
                // takes 12 kB that no budget covers. With the budgets for proxies and for bodies in
                // transit, this stays below the 512 MiB of the manifests.
                connections: 14_000,
                // A node that puts all of its pods' proxies behind its own address has a few
                // hundred.
                connections_of_one: 1_000,
            },
        }
    }
}

/// Serves `store` on `listeners` until `shutdown` completes. Then it answers the held polls (304),
/// accepts no new connections, and returns when all responses have left or 5 s have passed.
pub async fn serve(
    listeners: Listeners,
    store: Store,
    metrics: Arc<Metrics>,
    serving: Serving,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let limits = serving.limits;
    let context = Context::new(store.clone(), metrics, serving.identity, serving.agents);
    let scrapes = listeners.metrics.map(|listener| {
        let router = http::metrics_router(context.clone());
        // Prometheus uses HTTP/1.1 in plain text; a sidecar may use HTTP/2.
        let limits = Limits { head_timeout: limits.head_timeout, ..Limits::SCRAPERS };
        Port::new(listener, router, limits).http1_only()
    });
    let main = Port::new(listeners.main, http::router(context, scrapes.is_none()), limits);
    // Dropping a port's future stops it from accepting connections.
    tokio::select! {
        () = main.accept(&graceful) => {}
        () = async { if let Some(port) = scrapes { port.accept(&graceful).await } else { pending().await } } => {}
        () = shutdown => {}
    }
    let held = store.close();
    tracing::info!(held, "shutting down: answering the held polls");
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some clients did not read their answers within 5 s");
    }
}
