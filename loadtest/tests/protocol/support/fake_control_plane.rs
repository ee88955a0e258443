//! A control plane that records its polls: the test sets the services, and each poll is counted
//! from its request to its answer, or until the proxy gives it up.

use bloc_policy::sync::SyncRequest;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The longest that it holds a poll.
const LONGEST: Duration = Duration::from_secs(60);

/// A control plane for one proxy.
pub struct FakeControlPlane {
    pub address: SocketAddr,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

struct Inner {
    /// The services, and how often they were set.
    services: watch::Sender<(u64, Map<String, Value>)>,
    polls: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// The version in the last poll.
    asked: Mutex<String>,
}

impl FakeControlPlane {
    /// Starts with these services, from names to parameters.
    pub async fn start(services: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            services: watch::Sender::new((1, object(services))),
            polls: 0.into(),
            under_way: 0.into(),
            most: 0.into(),
            asked: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&inner)));
        Self { address, inner, serving }
    }

    /// Sets the services.
    pub fn set(&self, services: Value) {
        self.inner.services.send_modify(|(version, known)| {
            *version += 1;
            *known = object(services);
        });
    }

    /// Whether the last poll shows that the proxy has the latest services.
    pub fn is_followed(&self) -> bool {
        let set = format!("{}/", self.inner.services.borrow().0);
        self.inner.asked.lock().unwrap().starts_with(&set)
    }

    /// How many polls have begun.
    pub fn polls(&self) -> usize {
        self.inner.polls.load(Ordering::SeqCst)
    }

    /// How many polls it holds now.
    pub fn under_way(&self) -> usize {
        self.inner.under_way.load(Ordering::SeqCst)
    }

    /// The most polls that it has held at once since the last call.
    pub fn most_at_once(&self) -> usize {
        self.inner.most.swap(self.under_way(), Ordering::SeqCst)
    }
}

impl Drop for FakeControlPlane {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn object(services: Value) -> Map<String, Value> {
    let Value::Object(services) = services else { panic!("services are an object: {services}") };
    services
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    while let Ok((stream, _)) = listener.accept().await {
        let inner = Arc::clone(&inner);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&inner), request));
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(inner: Arc<Inner>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let asked: SyncRequest = serde_json::from_slice(&body).expect("a poll");
    let _held = Held::begin(&inner);
    inner.asked.lock().unwrap().clone_from(&asked.version);
    let wait = asked.wait.as_deref().and_then(milliseconds).unwrap_or(LONGEST);
    let mut services = inner.services.subscribe();
    let news = async {
        loop {
            let (version, all) = services.borrow_and_update().clone();
            let known = |name: &&String| all.contains_key(*name);
            let mut names: Vec<&String> = asked.services.iter().chain(&asked.serves).filter(known).collect();
            names.sort();
            names.dedup();
            // Another subscription to the same services is another state.
            let version = format!("{version}/{names:?}");
            if asked.version != version {
                let of: Map<String, Value> = names.into_iter().map(|name| (name.clone(), all[name].clone())).collect();
                break json!({"version": version, "services": of}).to_string();
            }
            // Lasts as long as `inner` does.
            let _ = services.changed().await;
        }
    };
    let (status, body) = match timeout(wait.min(LONGEST), news).await {
        Ok(body) => (StatusCode::OK, body),
        Err(_) => (StatusCode::NOT_MODIFIED, String::new()),
    };
    Ok(Response::builder().status(status).body(Full::new(Bytes::from(body))).unwrap())
}

/// A wait in the filters' notation, in milliseconds.
fn milliseconds(wait: &str) -> Option<Duration> {
    wait.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
}

/// A poll that is held.
struct Held(Arc<Inner>);

impl Held {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.polls.fetch_add(1, Ordering::SeqCst);
        let now = inner.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        inner.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(inner))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}
