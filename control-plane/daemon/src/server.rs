//! Accepts connections and serves them, within limits.
//!
//! A loop over hyper instead of `axum::serve`, which limits neither how long the head of a request
//! may take nor the number of connections.

use crate::shares::{Share, Shares};
use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::fmt;
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tower_service::Service;

/// The pause after an error of `accept`, which usually means too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The read buffer of a connection, and the longest head of a request, in bytes. A sidecar's head
/// takes 2 KiB. Each connection may keep that much memory.
const MAX_BUFFER: usize = 8 << 10;
/// Concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 100;

/// The sender's address, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the head of a request, or a connection without a request, may take.
    pub head_timeout: Duration,
    /// Concurrent connections; further ones wait to be accepted.
    pub connections: usize,
    /// Concurrent connections from one address; further ones are closed at once. Loopback addresses
    /// are not limited, because every caller through our own sidecar has one.
    pub connections_of_one: usize,
}

impl Limits {
    /// For a metrics port. Prometheus keeps one connection.
    pub const SCRAPERS: Self = Self { head_timeout: Duration::from_secs(30), connections: 200, connections_of_one: 20 };
}

#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    router: Router,
    builder: Builder<TokioExecutor>,
    limits: Limits,
}

impl Port {
    pub fn new(listener: TcpListener, router: Router, limits: Limits) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(MAX_BUFFER);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(limits.head_timeout));
        // Bytes that a client may send before we read them, for all streams of its connection.
        let window = u32::try_from(8 * MAX_BUFFER).unwrap_or(u32::MAX);
        builder.http2().initial_stream_window_size(window).initial_connection_window_size(window);
        builder.http2().max_concurrent_streams(MAX_STREAMS).max_header_list_size(window / 8);
        builder.http2().max_send_buf_size(MAX_BUFFER);
        Self { listener, router, builder, limits }
    }

    /// Without HTTP/2, such as for Prometheus.
    #[must_use]
    pub fn http1_only(self) -> Self {
        Self { builder: self.builder.http1_only(), ..self }
    }

    /// Serves all connections; does not end.
    pub async fn serve(self) {
        self.accept(&GracefulShutdown::new()).await;
    }

    /// Like [`Self::serve`]. After the future is dropped, `graceful` waits for open connections.
    pub async fn accept(self, graceful: &GracefulShutdown) {
        let Self { listener, router, builder, limits } = self;
        let (builder, room) = (Arc::new(builder), Arc::new(Semaphore::new(limits.connections)));
        let peers = Shares::capped(limits.connections_of_one, limits.connections);
        loop {
            let (room, stream, peer) = match (Arc::clone(&room).acquire_owned().await, listener.accept().await) {
                (Ok(room), Ok((stream, peer))) => (room, stream, Peer(peer)),
                (_, Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                (Err(_), _) => return,
            };
            let Some(place) = place(&peers, peer.0.ip()) else {
                tracing::debug!(peer = %peer.0, "refused a connection: too many from this address");
                continue;
            };
            let (builder, watcher) = (Arc::clone(&builder), graceful.watcher());
            let connection = connection(builder, router.clone(), watcher, stream, peer, limits.head_timeout);
            tokio::spawn(async move {
                connection.await;
                drop((room, place));
            });
        }
    }
}

/// The response to Prometheus: metrics as OpenMetrics text.
pub fn scraped(text: Result<String, fmt::Error>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The address that stands for all addresses of one sender. IPv6 addresses are reduced to the /64,
/// which usually belongs to one sender.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let host = u128::from(u64::MAX);
            Ipv6Addr::from_bits(v6.to_bits() & !host).into()
        }
        other => other,
    }
}

/// A place for one more connection from this address; none if it has too many.
fn place(peers: &Shares, from: IpAddr) -> Option<Share> {
    let from = network(from);
    peers.take(from.to_string(), usize::from(!from.is_loopback())).ok()
}

async fn connection(
    builder: Arc<Builder<TokioExecutor>>,
    router: Router,
    watcher: Watcher,
    stream: TcpStream,
    peer: Peer,
    head_timeout: Duration,
) {
    // Responses are small: Nagle's algorithm would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
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
            tracing::debug!(error, "a connection failed");
        },
        () = silence => tracing::debug!(peer = %peer.0, "closed a connection without a request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_connections() {
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let peers = Shares::capped(3, 1_000);
        let mut places: Vec<_> = (0..3).map(|_| place(&peers, one).unwrap()).collect();
        assert!(place(&peers, one).is_none());
        assert!(place(&peers, other).is_some(), "another address has places of its own");
        places.pop();
        assert!(place(&peers, one).is_some(), "one connection has ended");
        for local in ["127.0.0.6", "::1", "::ffff:127.0.0.1"] {
            let many: Vec<_> = (0..10).map(|_| place(&peers, local.parse().unwrap())).collect();
            assert!(many.iter().all(Option::is_some), "{local}: our own sidecar");
        }
        assert_eq!(peers.taken(), 2, "those that have ended are forgotten");
    }

    #[test]
    fn reduces_an_ipv6_address_to_its_64_bit_prefix() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2:ffff::1"), "2001:db8:1:2::");
        assert_eq!(
            (of("10.0.0.1"), of("::ffff:10.0.0.1"), of("::1")),
            ("10.0.0.1".into(), "10.0.0.1".into(), "::1".into())
        );
    }
}
