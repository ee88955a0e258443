//! Uploads of many megabytes, side by side on one connection between the Envoys, to a server that
//! works on few requests at once. None hangs, whether the server's sidecar holds requests or not.

use crate::support::bootstraps::{merged, named};
use crate::support::{Place, eventually, inbound, outbound};
use bloc_mesh::envoy::{Balancing, Envoy, Outbound, sidecar_inbound, sidecar_outbound};
use futures_util::future::join_all;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const MIB: usize = 1 << 20;
const PIECE: usize = 64 << 10;
/// How long anything here may take on a busy machine. An upload that hung did so until its client
/// gave up.
const BOUND: Duration = Duration::from_secs(60);
/// The body of an upload repeats this.
static PIECES: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(4);
    let piece: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(PIECE).collect();
    [piece.as_slice(), &piece].concat().into()
});

/// The protocols between the Envoys, and on either side of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// The kind of upload.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// With its length.
    Sized,
    /// As a gRPC call, whose length is unknown.
    Grpc,
}

/// A body of this many bytes, sent at this many bytes a second; 0: as fast as possible.
#[derive(Clone, Copy, Debug)]
struct Upload {
    kind: Kind,
    bytes: usize,
    pace: usize,
}

impl Upload {
    fn of(mib: usize, mb_per_second: usize) -> Self {
        Self { kind: Kind::Sized, bytes: mib * MIB, pace: mb_per_second * 1_000_000 }
    }

    fn grpc(self) -> Self {
        Self { kind: Kind::Grpc, ..self }
    }
}

/// Our configuration: a routing, whether the server's sidecar holds requests, and how many the
/// server works on at once.
#[derive(Clone, Copy, Debug)]
struct Ours {
    routing: &'static str,
    hold: bool,
    concurrency: u32,
}

/// A server and a sender, each with one thread, so that there is one HTTP/2 connection between
/// them. Each variant has its own listeners, and is a service of its own.
struct Stand {
    server: Envoy,
    sender: Envoy,
    _place: Place,
}

impl Stand {
    /// None: without our filters.
    async fn start(variants: &[Option<Ours>]) -> Self {
        let place = Place::new();
        let app = application().await;
        let servers = variants.iter().enumerate().map(|(n, ours)| {
            let name = name(n);
            let Some(Ours { hold, concurrency, .. }) = ours else { return named(sidecar_inbound(app, None), &name) };
            let spec = json!({"concurrency": concurrency, "hold": hold});
            let configuration = json!({"service": name, "services": {&name: spec}});
            named(inbound(&place, app, &configuration, None), &name)
        });
        let server = Envoy::start(&place.envoy, place.path(), "server", &merged(servers.collect()), 1).await.unwrap();
        let senders = variants.iter().enumerate().map(|(n, ours)| {
            let name = name(n);
            let endpoints = [server.listener(&name).unwrap()];
            let Some(Ours { routing, .. }) = ours else {
                let balancing = Balancing::RoundRobin;
                let stock = Outbound { cluster: &name, endpoints: &endpoints, balancing, plugin: None };
                return named(sidecar_outbound(&stock), &name);
            };
            let spec = json!({"routing": routing, "endpoints": endpoints});
            named(outbound(&place, &endpoints, &json!({"services": {&name: spec}}), None), &name)
        });
        let sender = Envoy::start(&place.envoy, place.path(), "sender", &merged(senders.collect()), 1).await.unwrap();
        Self { server, sender, _place: place }
    }

    /// How many requests were held.
    async fn held(&self, variant: usize) -> u64 {
        let stat = format!("wasmcustom.bloc.inbound.{}.held", name(variant));
        self.server.stats(&format!("^{stat}$")).await.unwrap().values().sum()
    }

    /// How many HTTP/2 connections there were between the Envoys.
    async fn connections(&self, variant: usize) -> u64 {
        let stat = format!("cluster.{}.upstream_cx_http2_total", name(variant));
        self.sender.stats(&format!("^{stat}$")).await.unwrap().values().sum()
    }

    /// How long this upload takes, or its error.
    async fn send(&self, variant: usize, protocol: Protocol, upload: Upload) -> Result<Duration, String> {
        let to = self.sender.listener(&name(variant)).unwrap();
        let began = Instant::now();
        let (mut pieces, body) = Channel::<Bytes, Infallible>::new(1);
        let mut request = Request::post("http://backend/");
        request = match upload.kind {
            Kind::Sized => request.header("content-length", upload.bytes),
            Kind::Grpc => request.header("content-type", "application/grpc").header("te", "trailers"),
        };
        let request = request.header("host", "backend").body(body).unwrap();
        tokio::spawn(async move {
            let mut sent = 0;
            while sent < upload.bytes {
                let size = PIECE.min(upload.bytes - sent);
                if pieces.send(Frame::data(PIECES.slice(..size))).await.is_err() {
                    return;
                }
                sent += size;
                if upload.pace > 0 {
                    let due = began + Duration::from_secs_f64(sent as f64 / upload.pace as f64);
                    tokio::time::sleep_until(due).await;
                }
            }
        });
        let exchange = async {
            let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
            let stream = TokioIo::new(stream);
            let answer = if protocol == Protocol::Http2 {
                let handshake = http2::handshake(TokioExecutor::new(), stream);
                let (mut sender, connection) = handshake.await.map_err(|error| error.to_string())?;
                tokio::spawn(connection);
                sender.send_request(request).await
            } else {
                let (mut sender, connection) = http1::handshake(stream).await.map_err(|error| error.to_string())?;
                tokio::spawn(connection);
                sender.send_request(request).await
            };
            let (head, body) = answer.map_err(|error| format!("{error:?}"))?.into_parts();
            let body = body.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
            let expected = upload.bytes.to_string();
            if head.status != 200 || body != expected.as_bytes() {
                return Err(format!("{upload:?}: {} {:?} {body:?}", head.status, head.headers));
            }
            Ok(began.elapsed())
        };
        timeout(BOUND, exchange).await.map_err(|_| format!("{upload:?}: no answer within {BOUND:?}"))?
    }

    /// Sends these one after the other, this long apart: how long each takes.
    async fn run(
        &self,
        variant: usize,
        protocol: Protocol,
        uploads: impl IntoIterator<Item = (u64, Upload)>,
    ) -> Vec<Result<Duration, String>> {
        let later = async |after: u64, upload: Upload| {
            sleep(Duration::from_millis(after)).await;
            self.send(variant, protocol, upload).await
        };
        join_all(uploads.into_iter().map(|(after, upload)| later(after, upload))).await
    }
}

/// The listeners, the cluster and the service of a variant.
fn name(variant: usize) -> String {
    format!("variant-{variant}")
}

/// The first, then the others when it is inside, then a request without a body.
fn behind(first: Upload, others: impl IntoIterator<Item = Upload>) -> Vec<(u64, Upload)> {
    let others = others.into_iter().map(|upload| (300, upload));
    [(0, first)].into_iter().chain(others).chain([(600, Upload::of(0, 0))]).collect()
}

/// All uploads have reached the application completely and in time.
fn complete(results: &[Result<Duration, String>]) {
    let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} uploads, such as {}", failed.len(), results.len(), failed[0]);
}

/// Counts the bytes of each request and checks them.
async fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http2().initial_stream_window_size(1 << 20).initial_connection_window_size(64 << 20);
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(count)).await;
            });
        }
    });
    address
}

async fn count(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        for data in frame?.data_ref().map(|data| data.chunks(PIECE)).into_iter().flatten() {
            let from = bytes % PIECE;
            assert_eq!(data, &PIECES[from..from + data.len()], "at {bytes}");
            bytes += data.len();
        }
    }
    Ok(Response::new(Full::new(bytes.to_string().into())))
}

const MU: Ours = Ours { routing: "mu", hold: true, concurrency: 1 };
const BID: Ours = Ours { routing: "bid", hold: true, concurrency: 1 };

/// If these were held, their bodies would fill the connection's window, and the body of the one
/// inside would never arrive.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_complete_beside_a_slow_one_on_the_same_connection() {
    let stand = Stand::start(&[Some(MU)]).await;
    let results = stand.run(0, Protocol::Http2, behind(Upload::of(12, 3), [Upload::of(20, 0); 4])).await;
    complete(&results);
    assert_eq!(stand.connections(0).await, 1);
}

/// The same with calls of unknown length, which are held until they prove long.
#[tokio::test(flavor = "multi_thread")]
async fn long_grpc_calls_complete_beside_a_slow_one_on_one_connection() {
    let stand = Stand::start(&[Some(BID)]).await;
    let calls = behind(Upload::of(12, 3).grpc(), [Upload::of(20, 0).grpc(); 4]);
    let results = stand.run(0, Protocol::Http2, calls).await;
    complete(&results);
    assert_eq!(stand.connections(0).await, 1);
    eventually("the count of held requests", async || (stand.held(0).await >= 4).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_uploads_complete_at_a_server_that_works_on_four() {
    let stand = Stand::start(&[Some(Ours { concurrency: 4, ..MU })]).await;
    let results = stand.run(0, Protocol::Http2, [(0, Upload::of(20, 20)); 16]).await;
    complete(&results);
}

/// The bodies are short enough to be held, so Envoy buffers them; together they exceed the
/// connection's window several times.
#[tokio::test(flavor = "multi_thread")]
async fn many_short_uploads_are_held_beside_a_slow_one_and_complete() {
    let stand = Stand::start(&[Some(MU), Some(BID)]).await;
    let short = Upload::of(1, 0);
    let [sized, calls] = [
        stand.run(0, Protocol::Http2, behind(Upload::of(8, 5), [short; 64])),
        stand.run(1, Protocol::Http2, behind(Upload::of(8, 5), [short.grpc(); 64])),
    ];
    let (sized, calls) = tokio::join!(sized, calls);
    complete(&sized);
    complete(&calls);
    for variant in [0, 1] {
        assert_eq!(stand.connections(variant).await, 1);
        eventually("the count of held requests", async || (stand.held(variant).await >= 60).then_some(())).await;
    }
}

/// 1 to 30 MiB at 1 to 20 MB/s, held and not.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_all_sizes_and_paces_complete() {
    let variants = [("mu", true), ("mu", false), ("bid", true), ("bid", false)];
    let variants = variants.map(|(routing, hold)| Some(Ours { routing, hold, concurrency: 1 }));
    let stand = Stand::start(&variants).await;
    let uploads = [(1, 1), (8, 2), (10, 10), (20, 20), (30, 20)].map(|(mib, pace)| (0, Upload::of(mib, pace)));
    let runs = (0..variants.len()).flat_map(|variant| [(variant, Protocol::Http1), (variant, Protocol::Http2)]);
    let results = join_all(runs.map(|(variant, protocol)| stand.run(variant, protocol, uploads))).await;
    complete(&results.concat());
}
