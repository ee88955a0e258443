//! A control plane on its own port with a services file, and proxies that poll it over real HTTP.
#![allow(dead_code, missing_docs, reason = "each test file uses its part")]

pub mod fake_api;

use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::server::{Listeners, Serving};
use bloc_control_plane::source::FileSource;
use bloc_control_plane::store::Reach;
use bloc_control_plane::{Clock, ReportInterval, Store, serve};
use bloc_policy::sync::{SyncRequest, SyncResponse};
use reqwest::{Client, Response, StatusCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// The longest time that a test waits for anything.
pub const LIMIT: Duration = Duration::from_secs(20);

pub struct Server {
    pub url: String,
    pub client: Client,
    pub store: Store,
    directory: TempDir,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    watching: JoinHandle<()>,
}

impl Server {
    pub async fn start(yaml: &str) -> Self {
        Self::start_with(yaml, ReportInterval::default()).await
    }

    pub async fn start_with(yaml: &str, report_interval: ReportInterval) -> Self {
        Self::start_serving(yaml, report_interval, Serving::default()).await
    }

    pub async fn start_serving(yaml: &str, report_interval: ReportInterval, serving: Serving) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("services.yaml");
        std::fs::write(&path, yaml).unwrap();
        let metrics = Arc::new(Metrics::default());
        let store = Store::new(format!("file:{}", path.display()), Clock::system(), report_interval);
        let (source, snapshot) = FileSource::open(path).await.unwrap();
        store.publish(snapshot, Reach::default());
        let published = store.clone();
        let watching = tokio::spawn(async move {
            source.watch(published).await;
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            let _ = stopped.await;
        };
        let listeners = Listeners { main: listener, metrics: None };
        let serving = tokio::spawn(serve(listeners, store.clone(), metrics, serving, stopped));
        let client = Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        Self { url, client, store, directory, stop, serving, watching }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("services.yaml")
    }

    pub fn write(&self, yaml: &str) {
        std::fs::write(self.path(), yaml).unwrap();
    }

    /// The version of all services.
    pub fn version(&self) -> String {
        self.store.status().version
    }

    pub async fn get(&self, path: &str) -> (StatusCode, String) {
        let response = self.client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub async fn post(&self, body: impl Into<reqwest::Body>) -> (StatusCode, String) {
        let response = self.client.post(format!("{}/v1/sync", self.url)).body(body).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// The status of a POST to `path`.
    pub async fn post_to(&self, path: &str, body: &'static str) -> StatusCode {
        self.client.post(format!("{}{path}", self.url)).body(body).send().await.unwrap().status()
    }

    /// Sends a poll; the task ends with its response.
    pub fn poll(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Response> {
        let services = services.iter().map(ToString::to_string).collect();
        let request = SyncRequest { proxy: proxy.into(), version: version.into(), services, ..SyncRequest::default() };
        let request = self.client.post(format!("{}/v1/sync", self.url)).json(&request);
        tokio::spawn(async move { request.send().await.unwrap() })
    }

    /// Polls, and returns the state in the response.
    pub async fn state(&self, proxy: &str, version: &str, services: &[&str]) -> SyncResponse {
        state(self.poll(proxy, version, services)).await
    }

    /// Sends a poll that the server holds; `version` must be current.
    pub async fn hold(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Response> {
        let before = self.store.counts().polls_held;
        let poll = self.poll(proxy, version, services);
        self.until(|server| server.store.counts().polls_held > before).await;
        poll
    }

    /// Waits for a condition that has no event.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < LIMIT, "did not come to pass");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops the server and waits until it has stopped.
    pub async fn stop(self) {
        self.watching.abort();
        self.stop.send(()).unwrap();
        timeout(LIMIT, self.serving).await.unwrap().unwrap();
    }
}

/// The state that a poll was answered with.
pub async fn state(poll: JoinHandle<Response>) -> SyncResponse {
    let response = timeout(LIMIT, poll).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

/// The value of a metric; `name` includes its labels, as written in the text.
pub fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}
