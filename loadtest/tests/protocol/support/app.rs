//! An application: a real HTTP server that is controlled by the path and records its requests.
//!
//! `/hold` answers when it is released, `/brief` after 1 ms, `/fleeting` too (for clients that may
//! leave; not counted as executing), `/slow` after 100 ms, `/takes/7` after 7 ms, `/own-429` with a
//! 429 of its own. `/orca` reports as many requests per second by ORCA as the application's name
//! says, at a utilization of half, and takes as long as that implies. `/lie` answers with our
//! headers, `/abort` with half a body and a reset, `/missing` with 404, `/work` after a time and on
//! as many at once as the test sets; everything else with the request's body. A test can make it
//! answer everything at once with one status, and mark its answers with a header.

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};

#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub struct App {
    pub address: SocketAddr,
    inner: Arc<Inner>,
    stop: watch::Sender<bool>,
}

struct Inner {
    name: String,
    seen: Mutex<Vec<Seen>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    release: Semaphore,
    /// What `/work` takes, in milliseconds, and how many requests at once.
    work: AtomicU64,
    places: Semaphore,
    /// So many of the next answers to `/work` take so long instead, in milliseconds.
    slow: Mutex<(usize, u64)>,
    /// The status with which it answers everything at once; 0: as usual.
    at_once_with: AtomicU16,
    /// A header of all its answers.
    mark: Mutex<Option<&'static str>>,
    /// Holds the port after a crash, or an application of another test may get it.
    port: Mutex<Option<TcpSocket>>,
}

type Body = http_body_util::combinators::BoxBody<Bytes, io::Error>;

impl App {
    pub async fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let inner = Arc::new(Inner {
            name: name.into(),
            seen: Mutex::default(),
            at_once: 0.into(),
            most_at_once: 0.into(),
            release: Semaphore::new(0),
            work: 0.into(),
            places: Semaphore::new(Semaphore::MAX_PERMITS),
            slow: Mutex::default(),
            at_once_with: 0.into(),
            mark: Mutex::default(),
            port: Mutex::default(),
        });
        tokio::spawn(serve(listener, Arc::clone(&inner), stopped));
        Self { address, inner, stop }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The requests for `path` so far.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// All requests so far, in order.
    pub fn all_seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }

    /// How many requests it is working on.
    pub fn at_once(&self) -> usize {
        self.inner.at_once.load(Ordering::SeqCst)
    }

    /// The most requests that it has worked on at once.
    pub fn most_at_once(&self) -> usize {
        self.inner.most_at_once.load(Ordering::SeqCst)
    }

    /// Releases one request to `/hold`.
    pub fn release(&self) {
        self.inner.release.add_permits(1);
    }

    /// Holds requests to `/hold` from now on, regardless of earlier releases.
    pub fn keep(&self) {
        self.inner.release.forget_permits(usize::MAX);
    }

    /// How long `/work` takes from now on.
    pub fn takes(&self, millis: u64) {
        self.inner.work.store(millis, Ordering::Relaxed);
    }

    /// It works on so many requests to `/work` at once; the others wait.
    pub fn works_on(&self, requests: usize) {
        self.inner.places.forget_permits(usize::MAX);
        self.inner.places.add_permits(requests);
    }

    /// So many of the next requests to `/work` take so long, as those of a cold JVM do.
    pub fn begins_slowly(&self, requests: usize, millis: u64) {
        *self.inner.slow.lock().unwrap() = (requests, millis);
    }

    /// It answers everything at once from now on, with this status and an empty body; none: as
    /// usual.
    pub fn answers_at_once(&self, status: Option<StatusCode>) {
        self.inner.at_once_with.store(status.map_or(0, |status| status.as_u16()), Ordering::Relaxed);
    }

    /// Its answers carry this header from now on, with the value `true`; none: no such header.
    pub fn marks(&self, header: Option<&'static str>) {
        *self.inner.mark.lock().unwrap() = header;
    }

    /// Closes the listener and all connections, as a crash would.
    pub async fn crash(&self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        *self.inner.port.lock().unwrap() = Some(socket);
    }
}

async fn serve(listener: TcpListener, inner: Arc<Inner>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => {
                // Before `crash` returns, which waits for `stopped`: a connection that was accepted
                // but not served would look like one that broke under a request.
                drop(listener);
                return;
            }
        };
        let Ok((stream, _)) = accepted else { return };
        let (inner, mut stopped) = (Arc::clone(&inner), stopped.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&inner), request));
            let builder = auto::Builder::new(TokioExecutor::new());
            tokio::select! {
                _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = parts.uri.path().to_owned();
    let seen = Seen { method: parts.method, path: path.clone(), headers: parts.headers, body: body.clone() };
    inner.seen.lock().unwrap().push(seen);
    // An application notices late that a client has left, so its work on those requests says
    // nothing about the sidecar.
    let _working = (path != "/fleeting").then(|| Working::begin(&inner));
    let mut response = Response::builder().header("x-app", &inner.name);
    if let Some(mark) = *inner.mark.lock().unwrap() {
        response = response.header(mark, "true");
    }
    let whole = |bytes: Bytes| http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed();
    if let Ok(status) = StatusCode::from_u16(inner.at_once_with.load(Ordering::Relaxed)) {
        return Ok(response.status(status).body(whole(Bytes::new())).unwrap());
    }
    let response = match path.as_str() {
        "/own-429" => response.status(StatusCode::TOO_MANY_REQUESTS),
        "/missing" => response.status(StatusCode::NOT_FOUND),
        "/orca" => {
            let rate: f64 = inner.name.parse().unwrap();
            tokio::time::sleep(Duration::from_secs_f64(0.5 / rate)).await;
            response.header("endpoint-load-metrics", format!("TEXT application_utilization=0.5,rps_fractional={rate}"))
        }
        "/lie" => response
            .header("x-bloc-load", "chip=1, queue=0")
            .header("x-bloc-reject", "capacity")
            .header("x-bloc-bid", "1")
            .header("x-bloc-endpoints", "127.0.0.1:1"),
        "/hold" => {
            inner.release.acquire().await.unwrap().forget();
            response
        }
        "/brief" | "/fleeting" => {
            tokio::time::sleep(Duration::from_millis(1)).await;
            response
        }
        "/work" => {
            let _place = inner.places.acquire().await.unwrap();
            tokio::time::sleep(inner.work()).await;
            response
        }
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            response
        }
        "/abort" => {
            let half = [Ok(Frame::data(Bytes::from("half"))), Err(io::Error::other("aborted"))];
            let body = StreamBody::new(futures_util::stream::iter(half)).boxed();
            return Ok(response.body(body).unwrap());
        }
        path => {
            if let Some(millis) = path.strip_prefix("/takes/") {
                tokio::time::sleep(Duration::from_millis(millis.parse().unwrap())).await;
            }
            response
        }
    };
    Ok(response.body(whole(body)).unwrap())
}

impl Inner {
    /// How long the next request to `/work` takes.
    fn work(&self) -> Duration {
        let mut slow = self.slow.lock().unwrap();
        let millis = if slow.0 > 0 { slow.1 } else { self.work.load(Ordering::Relaxed) };
        slow.0 = slow.0.saturating_sub(1);
        Duration::from_millis(millis)
    }
}

/// A request that the application works on.
struct Working<'a>(&'a Inner);

impl<'a> Working<'a> {
    fn begin(inner: &'a Inner) -> Self {
        let now = inner.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        inner.most_at_once.fetch_max(now, Ordering::SeqCst);
        Self(inner)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::SeqCst);
    }
}
