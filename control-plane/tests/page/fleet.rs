//! Proxies that poll the store as real ones do, with reports that the test sets.

use bloc_control_plane::store::{Module, Outcome, Poll, Reach};
use bloc_control_plane::{Clock, ReportInterval, Snapshot, Store, page};
use bloc_policy::sync::{Last, ServerLatency, ServiceCalls, ServiceEvents, ServiceLoad, SyncRequest};
use std::future::IntoFuture;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often the proxies report: half of what a rate needs, so that two reports make a rate.
const WAIT: &str = "2600ms";

/// A page over a store, with proxies.
pub struct Fleet {
    pub store: Store,
    pub url: String,
    tasks: JoinSet<()>,
}

/// One proxy.
#[derive(Clone, Default)]
pub struct Proxy {
    pub id: String,
    pub calls: Vec<String>,
    /// The services that it serves, with their load.
    pub serves: Vec<Load>,
    /// Whether it never takes a state.
    pub refuses: bool,
    /// What it runs, and the services whose parameters it cannot read.
    pub module: Module,
    pub unread: Vec<String>,
    /// Its calls since the report before, with each poll.
    pub reports: Vec<ServiceCalls>,
}

/// The load of one server per second.
#[derive(Clone, Default)]
pub struct Load {
    pub service: String,
    pub in_flight: u64,
    pub capacity: Option<u32>,
    pub service_rate: Option<f64>,
    /// Answers, chips and rejections per second.
    pub departed: u64,
    pub events: ServiceEvents,
    /// The amplitude of its oscillation over 20 s, 0 to 1.
    pub swing: f64,
    /// How long requests took since the report before, with each poll.
    pub latency: Option<ServerLatency>,
}

impl Fleet {
    /// A page for these services, sampled every `sample_every`.
    pub async fn start(yaml: &str, sample_every: Duration) -> Self {
        Self::of(Snapshot::from_yaml(yaml).unwrap(), sample_every).await
    }

    /// The same for this snapshot.
    pub async fn of(snapshot: Snapshot, sample_every: Duration) -> Self {
        let store = Store::new("file:services.yaml", Clock::system(), ReportInterval::default());
        store.publish(snapshot, Reach::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        let server = axum::serve(listener, page::routes::<()>(store.clone(), sample_every));
        tasks.spawn(async move { server.into_future().await.unwrap() });
        Self { store, url, tasks }
    }

    /// Adds a proxy, which polls from now on.
    pub fn add(&mut self, proxy: Proxy) {
        let store = self.store.clone();
        self.tasks.spawn(async move { proxy.ask(store).await });
    }
}

impl Proxy {
    async fn ask(self, store: Store) {
        let start = Instant::now();
        let (mut version, mut reported) = (String::new(), 0.0);
        loop {
            let now = start.elapsed().as_secs_f64();
            let before = std::mem::replace(&mut reported, now);
            let request = SyncRequest {
                proxy: self.id.clone(),
                version: version.clone(),
                services: self.calls.clone(),
                serves: self.serves.iter().map(|load| load.service.clone()).collect(),
                wait: Some(WAIT.to_owned()),
                load: self.serves.iter().map(|load| load.between(before, now)).collect(),
                last: Some(Last { reported_ms: Some(((now - before) * 1e3) as u64), ..Last::default() }),
                unread: self.unread.clone(),
                calls: self.reports.clone(),
                cpu: None,
            };
            let poll = Poll::try_from(request).unwrap().run_by(self.module.clone());
            let outcome = store.sync(poll).await.unwrap();
            match outcome {
                Outcome::Changed(answer) if !self.refuses => version = answer.version.to_string(),
                Outcome::Changed(_) => tokio::time::sleep(Duration::from_millis(500)).await,
                _ => {}
            }
        }
    }
}

impl Load {
    /// What has happened between these seconds since the start.
    fn between(&self, before: f64, now: f64) -> ServiceLoad {
        let turn = std::f64::consts::TAU / 20.0;
        // The integral of 1 + swing * sin(turn * t), so that rates oscillate.
        let weight = |seconds: f64| seconds + self.swing * (1.0 - (turn * seconds).cos()) / turn;
        let sum = |per_second: u64, seconds| (per_second as f64 * weight(seconds)) as u64;
        let grown = |per_second| sum(per_second, now) - sum(per_second, before);
        let e = &self.events;
        ServiceLoad {
            service: self.service.clone(),
            in_flight: (self.in_flight as f64 * (1.0 + self.swing * (turn * now).sin())) as u64,
            capacity: self.capacity,
            departed: grown(self.departed),
            arrived: grown(self.departed),
            service_rate: self.service_rate,
            latency: self.latency.clone(),
            events: ServiceEvents {
                departed_confident: grown(e.departed_confident),
                chips_granted: grown(e.chips_granted),
                chips_withheld: grown(e.chips_withheld),
                rejected_capacity: grown(e.rejected_capacity),
                rejected_bid: grown(e.rejected_bid),
                rejected_deadline: grown(e.rejected_deadline),
            },
        }
    }
}
