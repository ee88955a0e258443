//! Accepts connections and serves them, within limits.
//!
//! A loop over hyper instead of `axum::serve`, which limits neither how long the head of a request
//! may take nor the number of connections.

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
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

/// The address from which a request comes, in its extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the head of a request may take, and how long a connection without a request may
    /// live.
    pub head_timeout: Duration,
    /// Concurrent connections; further ones wait to be accepted.
    pub connections: usize,
    /// Concurrent connections from one address, so that one client cannot take all of them; further
    /// ones are closed at once. Loopback addresses have no such limit, because every caller that
    /// comes through our own sidecar has one.
    pub connections_of_one: usize,
}

impl Limits {
    /// Those of a port for metrics. A Prometheus keeps one connection.
    pub const SCRAPERS: Self = Self { head_timeout: Duration::from_secs(30), connections: 200, connections_of_one: 20 };
}

/// A port and its routes.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    router: Router,
    builder: Builder<TokioExecutor>,
    limits: Limits,
}

impl Port {
    /// With HTTP/1.1 and HTTP/2.
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

    /// With HTTP/1.1 alone, such as for Prometheus.
    #[must_use]
    pub fn http1_only(self) -> Self {
        Self { builder: self.builder.http1_only(), ..self }
    }

    /// Serves all connections; does not end.
    pub async fn serve(self) {
        self.accept(&GracefulShutdown::new()).await;
    }

    /// Serves all connections; does not end. When it is dropped, no more are accepted, and
    /// `graceful` waits for those that are open.
    pub async fn accept(self, graceful: &GracefulShutdown) {
        let Self { listener, router, builder, limits } = self;
        let (builder, room) = (Arc::new(builder), Arc::new(Semaphore::new(limits.connections)));
        let mut peers = Peers::default();
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
            let Some(place) = peers.admit(peer.0.ip(), limits.connections_of_one) else {
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

/// The answer to a Prometheus: metrics as OpenMetrics text.
pub fn scraped(text: Result<String, fmt::Error>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The address that stands for all addresses of one sender. IPv6 addresses are cut to the /64,
/// because who has one address of it usually has all.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let host = u128::from(u64::MAX);
            Ipv6Addr::from_bits(v6.to_bits() & !host).into()
        }
        other => other,
    }
}

/// The connections from each address: each holds a clone of one place.
#[derive(Default)]
struct Peers(HashMap<IpAddr, Weak<()>>);

impl Peers {
    /// A place for one more connection from there; none: there are `most` of them.
    fn admit(&mut self, from: IpAddr, most: usize) -> Option<Arc<()>> {
        let from = network(from);
        let place = self.0.get(&from).and_then(Weak::upgrade).unwrap_or_default();
        if Arc::strong_count(&place) > most && !from.to_canonical().is_loopback() {
            return None;
        }
        // Before it would grow, addresses without connections are forgotten.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, place| place.strong_count() > 0);
        }
        self.0.insert(from, Arc::downgrade(&place));
        Some(place)
    }
}

async fn connection(
    builder: Arc<Builder<TokioExecutor>>,
    router: Router,
    watcher: Watcher,
    stream: TcpStream,
    peer: Peer,
    head_timeout: Duration,
) {
    // Responses are small and somebody waits for them: Nagle's algorithm would only delay them.
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
        let mut peers = Peers::default();
        let mut places: Vec<_> = (0..3).map(|_| peers.admit(one, 3).unwrap()).collect();
        assert!(peers.admit(one, 3).is_none());
        assert!(peers.admit(other, 3).is_some(), "another address has places of its own");
        places.pop();
        assert!(peers.admit(one, 3).is_some(), "one connection has ended");
        for local in ["127.0.0.6", "::1", "::ffff:127.0.0.1"] {
            let many: Vec<_> = (0..10).map(|_| peers.admit(local.parse().unwrap(), 3)).collect();
            assert!(many.iter().all(Option::is_some), "{local}: our own sidecar");
        }
        for host in 0..10_000_u32 {
            assert!(peers.admit(std::net::Ipv4Addr::from_bits(host).into(), 3).is_some());
        }
        assert!(peers.0.len() < 100, "addresses without connections are forgotten");
        assert_eq!(peers.0[&one].strong_count(), 2);
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
