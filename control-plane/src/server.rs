//! Serves the HTTP interface until told to stop.
//!
//! A loop over hyper instead of `axum::serve`, which limits neither how long the head of a request
//! may take nor the number of connections.

use crate::http;
use crate::http::Access;
use crate::http::caller::network;
use crate::http::identity::{Identity, NodeAgent, Peer};
use crate::leases::{Leases, Tokens};
use crate::metrics::Metrics;
use crate::store::Store;
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::collections::HashMap;
use std::future::pending;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower_service::Service;

/// How long responses may take to leave after a shutdown began. Held polls are answered at once, so
/// this only cuts off clients that do not read.
const DRAIN: Duration = Duration::from_secs(5);
/// The pause after an error of `accept`, which usually means too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The read buffer of a connection, and the longest head of a request, in bytes. A sidecar's head
/// takes 2 KiB. Each connection may keep that much memory.
const MAX_BUFFER: usize = 8 << 10;
/// Concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 100;
/// Concurrent connections to the metrics port, in all and from one address. They have limits of
/// their own, so that scrapers do not keep proxies out. A Prometheus keeps one connection.
const SCRAPERS: (usize, usize) = (200, 20);

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
    /// Who may report the CPU of pods, if an identity is required.
    pub node_agent: NodeAgent,
    /// By which tokens agents prove on which node they run, if an identity is required; none: by
    /// none.
    pub tokens: Option<Tokens>,
    /// Which node holds which part of a CPU limit; none: there is no store for that.
    pub leases: Option<Leases>,
    /// How long the head of a request may take, and how long a connection without a request may
    /// live.
    pub head_timeout: Duration,
    /// Concurrent connections; further ones wait to be accepted.
    pub max_connections: usize,
    /// Concurrent connections from one address, so that one client cannot take all of them; further
    /// ones are closed at once. Loopback addresses have no such limit, because every caller that
    /// comes through our own sidecar has one.
    pub max_connections_of_one: usize,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            identity: Identity::None,
            node_agent: NodeAgent::default(),
            tokens: None,
            leases: None,
            // A proxy asks again at once, or a second after its last answer.
            head_timeout: Duration::from_secs(30),
            // All proxies of a large mesh at one replica, and some more. An idle connection takes
            // 12 kB that no budget covers. Together with the budgets for proxies and for bodies in
            // transit, that stays below the 512 MiB of the manifests.
            max_connections: 14_000,
            // A node that hides all of its pods' proxies behind its own address has some hundred.
            max_connections_of_one: 1_000,
        }
    }
}

/// Serves `store` on `listeners` until `shutdown` completes. Then answers the held polls (304),
/// accepts no new connections, and returns when all responses have left or 5 s have passed.
pub async fn serve(
    listeners: Listeners,
    store: Store,
    metrics: Arc<Metrics>,
    serving: Serving,
    shutdown: impl Future<Output = ()>,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(serving.head_timeout).max_buf_size(MAX_BUFFER);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(serving.head_timeout));
    // Bytes that a client may send before we read them, for all streams of its connection.
    let window = u32::try_from(8 * MAX_BUFFER).unwrap_or(u32::MAX);
    builder.http2().initial_stream_window_size(window).initial_connection_window_size(window);
    builder.http2().max_concurrent_streams(MAX_STREAMS).max_header_list_size(window / 8).max_send_buf_size(MAX_BUFFER);
    let graceful = GracefulShutdown::new();
    // Prometheus uses HTTP/1.1 in plain text; a sidecar may use HTTP/2.
    let http1 = Arc::new(builder.clone().http1_only());
    let both = Arc::new(builder);
    let port = |listener, router, builder: &Arc<_>, (max_connections, max_connections_of_one)| {
        let (builder, room) = (Arc::clone(builder), Arc::new(Semaphore::new(max_connections)));
        Port { listener, router, builder, room, max_connections_of_one, head_timeout: serving.head_timeout }
    };
    let leases = serving.leases;
    let access = Access { identity: serving.identity, node_agent: serving.node_agent, tokens: serving.tokens };
    let scrapes = listeners.metrics.map(|listener| {
        let router = http::metrics_router(store.clone(), metrics.clone(), leases.clone());
        port(listener, router, &http1, SCRAPERS)
    });
    let router = match scrapes {
        Some(_) => http::router(store.clone(), metrics, access, leases),
        None => http::router_with_metrics(store.clone(), metrics, access, leases),
    };
    let main = port(listeners.main, router, &both, (serving.max_connections, serving.max_connections_of_one));
    // Dropping the future of a port stops it from accepting connections.
    tokio::select! {
        () = main.accept(&graceful) => {}
        () = async { if let Some(port) = scrapes { port.accept(&graceful).await } else { pending().await } } => {}
        () = shutdown => {}
    }
    let held = store.close();
    tracing::info!(held, "shutting down, held polls are answered");
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some clients did not take their answers within 5s");
    }
}

/// A port and its routes.
struct Port {
    listener: TcpListener,
    router: Router,
    builder: Arc<Builder<TokioExecutor>>,
    room: Arc<Semaphore>,
    max_connections_of_one: usize,
    head_timeout: Duration,
}

impl Port {
    /// Serves all connections; does not end.
    async fn accept(self, graceful: &GracefulShutdown) {
        let peers = Peers::default();
        loop {
            let room = Arc::clone(&self.room).acquire_owned();
            let (room, stream, peer) = match (room.await, self.listener.accept().await) {
                (Ok(room), Ok((stream, peer))) => (room, stream, Peer(peer)),
                (_, Err(error)) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                (Err(_), _) => return,
            };
            let Some(place) = peers.admit(peer.0.ip(), self.max_connections_of_one) else {
                tracing::debug!(peer = %peer.0, "too many connections from there");
                continue;
            };
            let builder = Arc::clone(&self.builder);
            let connection =
                connection(builder, self.router.clone(), graceful.watcher(), stream, peer, self.head_timeout);
            tokio::spawn(async move {
                connection.await;
                drop((room, place));
            });
        }
    }
}

/// The number of connections from each address.
#[derive(Clone, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection that is counted for its address until it is dropped.
struct Place(Peers, IpAddr);

impl Peers {
    fn admit(&self, from: IpAddr, most: usize) -> Option<Place> {
        let from = network(from);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(from).or_default();
        if *count >= most && !from.to_canonical().is_loopback() {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Place(self.clone(), from))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

async fn connection(
    builder: Arc<Builder<TokioExecutor>>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
    stream: TcpStream,
    peer: Peer,
    head_timeout: Duration,
) {
    // Responses are small and somebody waits for them: Nagle's algorithm would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        asks.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer);
        // A router is always ready.
        router.clone().call(request.map(Body::new))
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    // hyper starts its head timeout only when it knows the HTTP version, so never for a client that
    // sends nothing.
    let silence = async {
        sleep(head_timeout).await;
        if asked.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = watcher.watch(connection) => if let Err(error) = ended {
            tracing::debug!(error, "a connection broke");
        },
        () = silence => tracing::debug!(peer = %peer.0, "a connection without a request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_connections() {
        let (peers, one, other): (_, IpAddr, IpAddr) = (Peers::default(), [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut places: Vec<Place> = (0..3).map(|_| peers.admit(one, 3).unwrap()).collect();
        assert!(peers.admit(one, 3).is_none());
        assert!(peers.admit(other, 3).is_some(), "another address has places of its own");
        places.pop();
        assert!(peers.admit(one, 3).is_some(), "one connection has ended");
        for local in ["127.0.0.6", "::1", "::ffff:127.0.0.1"] {
            let many: Vec<_> = (0..10).map(|_| peers.admit(local.parse().unwrap(), 3)).collect();
            assert!(many.iter().all(Option::is_some), "{local}: our own sidecar");
        }
        drop(places);
        assert!(peers.0.lock().unwrap().is_empty(), "no address is left");
    }
}
