//! Proxies that poll as the filters' agent does, with its pauses and its jitter.

use bloc_daemon::lock;
use bloc_policy::sync::{SyncRequest, SyncResponse};
use reqwest::Client;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub const SERVICES: usize = 1_000;
pub const PROXIES: usize = 10_000;
/// The number of proxies that call the changing Service.
pub const CONCERNED: usize = 1_000;
/// The longest time that the measurement waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Fleet {
    /// One for each caller that the proxies are of.
    clients: Vec<Client>,
    urls: [String; 2],
    /// Polls sent so far.
    pub polls: AtomicUsize,
    /// Proxies that have a first state.
    settled: AtomicUsize,
    /// When the proxies that call the changing Service were answered.
    answers: Mutex<Vec<Instant>>,
}

impl Fleet {
    /// Starts all proxies, and waits until each has a state.
    pub async fn start(urls: [String; 2]) -> Arc<Self> {
        // A caller is an address, and none may fill a replica alone.
        let client = |last| {
            let client = Client::builder().no_proxy().local_address(IpAddr::from([127, 0, 0, last]));
            client.pool_max_idle_per_host(usize::MAX).build().unwrap_or_default()
        };
        let clients = (1..=4).map(client).collect();
        let (polls, settled, answers) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
        let fleet = Arc::new(Self { clients, urls, polls, settled, answers });
        for proxy in 0..PROXIES {
            tokio::spawn(Arc::clone(&fleet).run(proxy));
        }
        let begin = Instant::now();
        while fleet.settled.load(Ordering::Relaxed) < PROXIES {
            assert!(begin.elapsed() < PATIENCE, "not all proxies have a state");
            sleep(Duration::from_millis(50)).await;
        }
        fleet
    }

    /// Makes a change, and returns how long each concerned proxy took to be answered, sorted.
    pub async fn delays(&self, change: impl FnOnce()) -> Vec<Duration> {
        self.answered().clear();
        let begin = Instant::now();
        change();
        while self.answered().len() < CONCERNED {
            assert!(begin.elapsed() < PATIENCE, "{} of {CONCERNED} answers", self.answered().len());
            sleep(Duration::from_millis(5)).await;
        }
        let mut delays: Vec<_> = self.answered().iter().map(|at| at.duration_since(begin)).collect();
        delays.sort_unstable();
        delays
    }

    fn answered(&self) -> MutexGuard<'_, Vec<Instant>> {
        lock(&self.answers)
    }

    async fn run(self: Arc<Self>, proxy: usize) {
        let name = |service: usize| format!("s{service}.shop.svc.cluster.local");
        // Service 0 changes.
        let mut services: Vec<String> = (0..5).map(|i| name(1 + (proxy * 7 + i * 131) % (SERVICES - 1))).collect();
        services.extend((proxy < CONCERNED).then(|| name(0)));
        let mut request = SyncRequest { proxy: format!("p{proxy}"), services, ..SyncRequest::default() };
        let mut at = proxy % 2;
        sleep(Duration::from_secs(5).mul_f64(fastrand::f64())).await;
        loop {
            self.polls.fetch_add(1, Ordering::Relaxed);
            let sent = self.clients[proxy / 2 % self.clients.len()]
                .post(format!("{}/v1/sync", self.urls[at]))
                .json(&request)
                .send()
                .await;
            let pause = match sent {
                Ok(answer) if answer.status() == 200 => {
                    let Ok(state) = answer.json::<SyncResponse>().await else { continue };
                    if request.version.is_empty() {
                        self.settled.fetch_add(1, Ordering::Relaxed);
                    } else if proxy < CONCERNED {
                        self.answered().push(Instant::now());
                    }
                    request.version = state.version;
                    Duration::ZERO
                }
                Ok(answer) => {
                    let within =
                        answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
                    at = if within.is_some() { 1 - at } else { at };
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
}
