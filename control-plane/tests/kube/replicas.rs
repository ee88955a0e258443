//! Proxies whose polls go to one of two replicas at random. The sums of the replicas' counts are
//! right, also during an upgrade.
//!
//! The upgrade is to the build that `next-build` makes, which has one more parameter.
//! `BLOC_BUILD_BEFORE=/path` and `BLOC_BUILD_AFTER=/path` choose other builds.

use super::cluster::{Cluster, ControlPlane, LIMIT, until};
use super::{A, ips};
use bloc_policy::sync::{Last, REPLICA_HEADER, ServiceLoad, SyncRequest, SyncResponse};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const PROXIES: usize = 200;
/// Proxies that do not take their answers for a while.
const REFUSERS: usize = 2;
/// How often endpoints change, after which all proxies are answered at once.
const CHANGE_EVERY: Duration = Duration::from_millis(3_200);
/// How long after an answer its replica counts the proxy.
const LINGER: Duration = Duration::from_secs(6);
/// How long after all proxies count a replica may lack the arrival rate.
const KNOWN_AFTER: Duration = Duration::from_secs(15);
/// A proxy that changes to the other replica is counted by neither for as long as the answer before
/// and this poll travelled. No sample is taken while that concerns more than 1% of the proxies,
/// even if messages take this long (answer, poll) on a busy machine.
const TRAVEL: [Duration; 2] = [Duration::from_millis(1_500), Duration::from_millis(700)];

/// What all proxies share, and the true counts.
struct Mesh {
    /// Where the polls go.
    urls: Mutex<Vec<String>>,
    client: reqwest::Client,
    refuse: AtomicBool,
    /// When proxies that went to another replica began to count there.
    handovers: Mutex<VecDeque<Instant>>,
    /// Arrivals in the reports that proxies were told are counted.
    counted: AtomicU64,
}

/// A sidecar in front of a server, as far as the control plane can tell.
struct Sidecar {
    name: String,
    mesh: Arc<Mesh>,
    nth: usize,
    start: Instant,
    state: SyncResponse,
    /// Whether its control plane counts by `last`.
    known: bool,
    /// The replica that answered the last poll, and when.
    answered: Option<(String, Instant)>,
    /// Where the last poll was sent.
    url: String,
    /// Departures and requests in flight in the report that was counted last, and when it was sent;
    /// at first 0 and `None`.
    counted: (u64, u64, Option<Instant>),
}

fn in_flight(nth: usize) -> u64 {
    1 + nth as u64 % 7
}

fn service_rate(nth: usize) -> f64 {
    40.0 + (nth % 5) as f64
}

fn arrivals_per_second(nth: usize) -> f64 {
    20.0 + (nth % 3) as f64
}

fn truth(of: impl Fn(usize) -> f64) -> f64 {
    (0..PROXIES).map(of).sum()
}

impl Mesh {
    /// Whether hardly any proxy is changing replicas now.
    fn is_calm(&self) -> bool {
        let ([answer, poll], now, mut handovers) = (TRAVEL, Instant::now(), self.handovers.lock().unwrap());
        handovers.retain(|at| *at + poll > now);
        handovers.iter().filter(|at| **at <= now + answer).count() <= PROXIES / 100
    }
}

impl Sidecar {
    /// Polls until something is wrong, and returns what.
    async fn run(mut self) -> String {
        loop {
            match self.poll().await {
                Ok(pause) => sleep(pause).await,
                Err(fault) => return fault,
            }
        }
    }

    fn refuses(&self) -> bool {
        self.nth < REFUSERS && self.mesh.refuse.load(Ordering::Relaxed)
    }

    /// Polls once; returns the pause until the next poll, by the rules of
    /// `bloc_policy::sync::polls`.
    async fn poll(&mut self) -> Result<Duration, String> {
        let sent = Instant::now();
        let departed = (arrivals_per_second(self.nth) * self.start.elapsed().as_secs_f64()) as u64;
        let in_flight = in_flight(self.nth);
        let (before, in_flight_before, reported) = self.counted;
        let millis = |since: Instant| sent.duration_since(since).as_millis() as u64;
        let last = self.known.then(|| Last {
            replica: self.answered.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            answered_ms: self.answered.as_ref().map_or(0, |(_, at)| millis(*at)),
            reported_ms: reported.map(millis),
        });
        let arrived = (departed + in_flight).saturating_sub(before + in_flight_before);
        let load = ServiceLoad {
            service: A.into(),
            in_flight,
            capacity: Some(64),
            departed: if self.known { departed - before } else { departed },
            arrived: if self.known { arrived } else { 0 },
            service_rate: Some(service_rate(self.nth)),
            ..ServiceLoad::default()
        };
        let request = SyncRequest {
            proxy: self.name.clone(),
            version: self.state.version.clone(),
            serves: vec![A.into()],
            wait: Some("30s".into()),
            load: vec![load],
            last,
            ..SyncRequest::default()
        };
        let url = {
            let urls = self.mesh.urls.lock().unwrap();
            urls[fastrand::usize(..urls.len())].clone()
        };
        if let Some((_, at)) = self.answered.as_ref().filter(|_| url != self.url) {
            self.mesh.handovers.lock().unwrap().push_back(*at + LINGER);
        }
        self.url.clone_from(&url);
        let Ok(answer) = self.mesh.client.post(format!("{url}/v1/sync")).json(&request).send().await else {
            return Ok(self.failed());
        };
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (replica, retry_after, status) = (header(REPLICA_HEADER), header("retry-after"), answer.status().as_u16());
        let news: Option<SyncResponse> = match status {
            200 => match answer.json().await {
                Ok(state) => Some(state),
                Err(_) => return Ok(self.failed()),
            },
            304 => None,
            400 => {
                self.known = false;
                return Ok(self.failed());
            }
            _ => return Ok(self.failed()),
        };
        self.answered = replica.map(|name| (name, Instant::now()));
        if self.answered.is_some() {
            if self.known {
                self.counted = (departed, in_flight, Some(sent));
                self.mesh.counted.fetch_add(arrived, Ordering::Relaxed);
            }
            self.known = true;
        }
        let jitter = fastrand::f64();
        let early = sent.elapsed() < Duration::from_millis(900);
        Ok(match news {
            Some(_) if self.refuses() => Duration::from_millis(500).mul_f64(1.0 + jitter),
            Some(state) if state.services == self.state.services => {
                return Err(format!("{} was answered without a change: {state:?}", self.name));
            }
            Some(state) => {
                self.state = state;
                Duration::ZERO
            }
            None => match retry_after {
                Some(seconds) => Duration::from_secs(seconds.parse().unwrap()).mul_f64(jitter),
                None if early => Duration::from_millis(900).mul_f64(1.0 + jitter),
                None => Duration::ZERO,
            },
        })
    }

    fn failed(&mut self) -> Duration {
        self.answered = None;
        Duration::from_millis(500).mul_f64(0.5 + 0.5 * fastrand::f64())
    }
}

/// The metrics of each replica, for their sums.
struct Look(Vec<String>);

impl Look {
    async fn take(replicas: &[&ControlPlane]) -> Self {
        let mut texts = Vec::new();
        for replica in replicas {
            texts.push(replica.get("/metrics").await);
        }
        Self(texts)
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let value =
            |text: &String| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        self.0.iter().filter_map(value).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        self.values(name).iter().sum()
    }

    fn of_service(&self, name: &str) -> f64 {
        self.sum(&format!("bloc_service_{name}{{service=\"{A}\"}}"))
    }

    /// Whether 99% of the polls are held.
    fn is_settled(&self) -> bool {
        self.sum("bloc_polls_held") >= 0.99 * PROXIES as f64
    }
}

/// The two replicas, their Service's endpoints, and the counts of replicas that have ended.
struct World {
    cluster: Cluster,
    replicas: Vec<ControlPlane>,
    mesh: Arc<Mesh>,
    sidecars: JoinSet<String>,
    generation: usize,
    changed: Instant,
    /// When all proxies count again.
    complete: Instant,
    looks: usize,
    counted_by_the_gone: f64,
}

impl World {
    /// Changes endpoints when it is time; samples a while later, when the polls are held again.
    async fn settle(&mut self) -> Look {
        sleep(CHANGE_EVERY.saturating_sub(self.changed.elapsed())).await;
        self.changed = Instant::now();
        self.generation += 1;
        self.cluster.slice("a", "a-1", &ips(self.generation..self.generation + 1)).await;
        // At a random time later.
        sleep(CHANGE_EVERY.mul_f64(0.5 * fastrand::f64())).await;
        loop {
            let replicas: Vec<_> = self.replicas.iter().collect();
            let calm = Instant::now() >= self.complete && self.mesh.is_calm();
            let look = Look::take(&replicas).await;
            if let Some(fault) = self.sidecars.try_join_next() {
                panic!("{}", fault.unwrap());
            }
            if calm && look.is_settled() {
                return look;
            }
            assert!(self.changed.elapsed() < LIMIT, "{} polls are held", look.sum("bloc_polls_held"));
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn look(&mut self) -> Look {
        let look = self.settle().await;
        self.looks += 1;
        let all = PROXIES as f64;
        let rates = look.values(&format!("bloc_service_arrival_rate{{service=\"{A}\"}}"));
        let mut numbers = vec![
            ("polls", look.sum("bloc_polls_held"), all),
            ("proxies", look.sum("bloc_proxies_connected"), all),
            ("servers", look.of_service("servers"), all),
            ("in flight", look.of_service("demand_requests"), truth(|nth| in_flight(nth) as f64)),
            ("capacity", look.of_service("capacity_requests"), 64.0 * all),
            ("service rate", look.of_service("rate"), truth(service_rate)),
            (
                "arrivals",
                self.counted_by_the_gone + look.of_service("arrivals_total"),
                self.mesh.counted.load(Ordering::Relaxed) as f64,
            ),
        ];
        // A replica that has just started knows it after at most three reports.
        let known = rates.len() == self.replicas.len();
        assert!(known || Instant::now() < self.complete + KNOWN_AFTER, "look {}: arrival rates {rates:?}", self.looks);
        if known && Instant::now() >= self.complete + 2 * CHANGE_EVERY {
            numbers.push(("arrival rate", rates.iter().sum(), truth(arrivals_per_second)));
        }
        println!("look {}, {:?} after the change: {numbers:?}", self.looks, self.changed.elapsed());
        for (name, value, truth) in numbers {
            assert!((value - truth).abs() <= 0.02 * truth, "look {}: {name} {value}, and {truth} in truth", self.looks);
        }
        look
    }

    /// A new replica replaces the oldest.
    async fn replace(&mut self, name: &str) {
        let new = self.cluster.control_plane_of(name, &build("BLOC_BUILD_AFTER")).await;
        until("readiness", async || new.is_ready().await).await;
        let old = self.replicas.remove(0);
        self.replicas.push(new);
        *self.mesh.urls.lock().unwrap() = self.replicas.iter().map(|replica| replica.url.clone()).collect();
        self.counted_by_the_gone += Look::take(&[&old]).await.of_service("arrivals_total");
        old.terminate().await;
        // For a while, no replica counts the proxies that it answered last.
        self.complete = Instant::now() + LINGER;
    }
}

pub fn build(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| env!("CARGO_BIN_EXE_bloc-control-plane").into(), PathBuf::from)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn sums_over_replicas_are_right_wherever_proxies_poll() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..1)).await;
    let mut replicas = Vec::new();
    for name in ["one", "two"] {
        let replica = cluster.control_plane_of(name, &build("BLOC_BUILD_BEFORE")).await;
        until("readiness", async || replica.is_ready().await).await;
        replicas.push(replica);
    }
    let mesh = Arc::new(Mesh {
        urls: Mutex::new(replicas.iter().map(|replica| replica.url.clone()).collect()),
        client: reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap(),
        refuse: AtomicBool::new(true),
        handovers: Mutex::default(),
        counted: AtomicU64::new(0),
    });
    let mut sidecars = JoinSet::new();
    for nth in 0..PROXIES {
        let sidecar = Sidecar {
            name: format!("p{nth}"),
            mesh: Arc::clone(&mesh),
            nth,
            start: Instant::now(),
            state: SyncResponse::default(),
            known: false,
            answered: None,
            url: String::new(),
            counted: (0, 0, None),
        };
        sidecars.spawn(sidecar.run());
    }
    let now = Instant::now();
    let mut world = World {
        cluster,
        replicas,
        mesh,
        sidecars,
        generation: 0,
        changed: now,
        complete: now,
        looks: 0,
        counted_by_the_gone: 0.0,
    };
    for _ in 0..3 {
        world.look().await;
    }
    // The replicas are asked one after the other, so a look may find a proxy that changes between
    // them at both, or at neither. Its replica cannot forget it any sooner: which one answers the
    // next poll is not known when a poll ends, and until then nobody else counts the proxy.
    let mut stale = 0.0;
    while stale != REFUSERS as f64 {
        assert!(world.looks < 10, "{stale} proxies are stale");
        stale = world.look().await.sum("bloc_proxies_stale");
    }
    world.mesh.refuse.store(false, Ordering::Relaxed);
    while world.settle().await.sum("bloc_polls_held") < PROXIES as f64 {
        assert!(world.generation < 100, "they do not recover");
    }
    world.complete = Instant::now() + LINGER;
    assert_eq!(world.look().await.sum("bloc_proxies_stale"), 0.0);

    world.replace("three").await;
    world.look().await;
    world.replace("four").await;
    let upgraded = Instant::now();
    while world.looks < 10 || upgraded.elapsed() < LINGER + KNOWN_AFTER {
        assert_eq!(world.look().await.sum("bloc_proxies_stale"), 0.0);
    }
}
