//! Ten thousand proxies that poll as the filters' agent does, with its pauses and its jitter.

use crate::size::{CONCERNED, PROXIES, SERVICES};
use bloc_policy::sync::{SyncRequest, SyncResponse};
use reqwest::Client;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that the measurement waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Fleet {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    urls: [String; 2],
    polls: AtomicUsize,
    /// Proxies that have a first state.
    settled: AtomicUsize,
    /// When the proxies that call the changing Service were answered.
    answers: Mutex<Vec<Instant>>,
}

impl Fleet {
    pub fn start(urls: [String; 2]) -> Self {
        let client = Client::builder().no_proxy().pool_max_idle_per_host(usize::MAX).build().unwrap_or_default();
        let (polls, settled, answers) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
        let shared = Arc::new(Shared { client, urls, polls, settled, answers });
        for proxy in 0..PROXIES {
            tokio::spawn(run(Arc::clone(&shared), proxy));
        }
        Self { shared }
    }

    pub async fn settled(&self, proxies: usize) {
        let begin = Instant::now();
        while self.shared.settled.load(Ordering::Relaxed) < proxies {
            assert!(begin.elapsed() < PATIENCE, "not all proxies have a state");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Polls sent so far.
    pub fn polls(&self) -> usize {
        self.shared.polls.load(Ordering::Relaxed)
    }

    /// Forgets the answers so far.
    pub fn begin(&self) -> Instant {
        self.answered().clear();
        Instant::now()
    }

    /// Waits for `count` answers and returns how long each took since `begin`.
    pub async fn answers(&self, begin: Instant, count: usize) -> Vec<Duration> {
        while self.answered().len() < count {
            assert!(begin.elapsed() < PATIENCE, "{} of {count} answers", self.answered().len());
            sleep(Duration::from_millis(5)).await;
        }
        self.answered().iter().map(|at| at.duration_since(begin)).collect()
    }

    fn answered(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.shared.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

async fn run(shared: Arc<Shared>, proxy: usize) {
    let concerned = proxy < CONCERNED;
    // Service 0 changes.
    let mut services: Vec<String> = (0..5).map(|i| name(1 + (proxy * 7 + i * 131) % (SERVICES - 1))).collect();
    services.extend(concerned.then(|| name(0)));
    let mut request = SyncRequest { proxy: format!("p{proxy}"), services, ..SyncRequest::default() };
    let mut at = proxy % 2;
    sleep(Duration::from_secs(5).mul_f64(fastrand::f64())).await;
    loop {
        shared.polls.fetch_add(1, Ordering::Relaxed);
        let sent = shared.client.post(format!("{}/v1/sync", shared.urls[at])).json(&request).send().await;
        let pause = match sent {
            Ok(answer) if answer.status() == 200 => {
                let Ok(state) = answer.json::<SyncResponse>().await else { continue };
                if request.version.is_empty() {
                    shared.settled.fetch_add(1, Ordering::Relaxed);
                } else if concerned {
                    shared.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Instant::now());
                }
                request.version = state.version;
                Duration::ZERO
            }
            Ok(answer) => {
                let within = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
                if within.is_some() {
                    at = 1 - at;
                }
                Duration::from_secs(within.unwrap_or(0))
            }
            Err(_) => {
                at = 1 - at;
                Duration::from_millis(500)
            }
        };
        sleep(pause.mul_f64(fastrand::f64())).await;
    }
}

fn name(service: usize) -> String {
    format!("s{service}.shop.svc.cluster.local")
}
