//! The requests to the control plane.

use super::answers::{Bases, Heard, put};
use super::changes::Known;
use super::message::{Cpu, about_apps, about_asks, about_pods};
use crate::replicas::{Replicas, Target, body};
use bloc_daemon::cpu::{CPU_PATH, CpuAnswer, CpuMessage, PodName};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use reqwest::{Response, StatusCode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How often it is looked whether the name of the control plane is to be resolved.
const FIND: Duration = Duration::from_secs(1);
/// How often changes are sent at most.
const EVERY: Duration = Duration::from_millis(200);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often pods are asked for.
const ASK: Duration = Duration::from_secs(1);
/// How long an answer with response times may take: a replica that hangs must not delay the next
/// question.
const ASK_TIMEOUT: Duration = Duration::from_millis(800);
/// How long a replica that has failed is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// One replica.
#[derive(Debug, Default)]
struct Replica {
    known: Known,
    /// Until then it is left alone.
    pause: Duration,
}

/// Tells the control plane what changes, until the sender is gone. What pods have answered is added
/// to `heard`. `failed` hears of each failure.
pub async fn report(
    target: Target,
    node: String,
    told: watch::Receiver<Arc<Cpu>>,
    heard: Heard,
    failed: impl Fn(String),
) {
    let client = match client() {
        Ok(client) => client,
        Err(error) => return failed(error.to_string()),
    };
    let to = To { client: &client, target: &target, node: &node, began: Instant::now() };
    let addresses = watch::Sender::new(Vec::new());
    // Whoever hangs with one does not delay the others.
    tokio::select! {
        () = find_all(&target, &addresses, &failed) => {}
        () = tell_all(&to, told.clone(), addresses.subscribe(), &failed) => {}
        () = ask_all(&to, told, addresses.subscribe(), &heard, &failed) => {}
    }
}

pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()
}

/// Resolves the addresses of the replicas.
async fn find_all(target: &Target, addresses: &watch::Sender<Vec<SocketAddr>>, failed: &impl Fn(String)) {
    let mut found = Replicas::new(target.clone());
    let mut ticks = interval(FIND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match found.resolve().await {
            Ok(true) => drop(addresses.send_replace(found.addresses().to_vec())),
            Ok(false) => {}
            Err(error) => failed(error),
        }
    }
}

/// Tells the replicas what changes. One that hangs does not keep the others from hearing.
pub(super) async fn tell_all(
    to: &To<'_>,
    mut told: watch::Receiver<Arc<Cpu>>,
    addresses: watch::Receiver<Vec<SocketAddr>>,
    failed: &impl Fn(String),
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut replicas: BTreeMap<SocketAddr, Replica> = BTreeMap::new();
    let (mut telling, mut busy) = (FuturesUnordered::new(), BTreeSet::new());
    while told.has_changed().is_ok() {
        tokio::select! {
            _ = ticks.tick() => {
                let cpu = Arc::clone(&told.borrow_and_update());
                let all = addresses.borrow().clone();
                replicas.retain(|address, _| all.contains(address));
                for address in all {
                    if busy.insert(address) {
                        let (mut replica, cpu) = (replicas.remove(&address).unwrap_or_default(), Arc::clone(&cpu));
                        telling.push(async move {
                            let error = to.tell(address, &mut replica, &cpu).await;
                            (address, replica, error)
                        });
                    }
                }
            }
            Some((address, replica, error)) = telling.next() => {
                busy.remove(&address);
                replicas.insert(address, replica);
                error.into_iter().for_each(failed);
            }
        }
    }
}

/// Asks the replicas for pods.
async fn ask_all(
    to: &To<'_>,
    told: watch::Receiver<Arc<Cpu>>,
    addresses: watch::Receiver<Vec<SocketAddr>>,
    heard: &Heard,
    failed: &impl Fn(String),
) {
    let mut ticks = interval(ASK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut bases = Bases::default();
    loop {
        ticks.tick().await;
        let asks = Arc::clone(&told.borrow().asks);
        let (pods, asked) = (Vec::from_iter(asks.iter().cloned()), to.began.elapsed());
        let replicas = addresses.borrow().clone();
        let answers = join_all(replicas.iter().map(|address| to.ask(*address, &pods))).await;
        let mut said = Vec::new();
        for (some, error) in answers {
            said.extend(some);
            error.into_iter().for_each(failed);
        }
        put(heard, bases.hear(said, &asks, asked), &asks);
    }
}

/// How to send.
pub(super) struct To<'a> {
    pub(super) client: &'a reqwest::Client,
    pub(super) target: &'a Target,
    pub(super) node: &'a str,
    pub(super) began: Instant,
}

impl To<'_> {
    /// Tells a replica what is due. Returns what went wrong.
    async fn tell(&self, address: SocketAddr, replica: &mut Replica, cpu: &Cpu) -> Option<String> {
        let now = self.began.elapsed();
        if now < replica.pause {
            return None;
        }
        let (pods, all) = replica.known.next(cpu, now)?;
        for message in about_pods(self.node, &pods) {
            if let Err(error) = self.send(address, &message).await {
                replica.known.forget();
                replica.pause = self.began.elapsed() + PAUSE;
                return Some(error);
            }
        }
        // Whatever is wrong with these, the pods are known.
        for message in about_apps(self.node, if all { &cpu.apps } else { &[] }) {
            if let Err(error) = self.send(address, &message).await {
                return Some(error);
            }
        }
        None
    }

    /// Asks a replica for pods. Returns what it has said, and what went wrong.
    async fn ask(&self, address: SocketAddr, pods: &[PodName]) -> (Vec<CpuAnswer>, Option<String>) {
        let mut said = Vec::new();
        for message in about_asks(self.node, pods) {
            match timeout(ASK_TIMEOUT, self.hear(address, message)).await {
                Ok(Ok(more)) => said.extend(more),
                Ok(Err(error)) => return (said, Some(error)),
                Err(_) => return (said, Some(format!("{address}: no answer in time"))),
            }
        }
        (said, None)
    }

    /// Sends a question. An older control plane has no answer.
    async fn hear(&self, address: SocketAddr, message: CpuMessage) -> Result<Option<CpuAnswer>, String> {
        let response = self.send(address, &message).await?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        let body = body(address, response).await?;
        CpuAnswer::read(&body).map(Some).map_err(|error| format!("{address}: {error}"))
    }

    async fn send(&self, address: SocketAddr, message: &CpuMessage) -> Result<Response, String> {
        let request = self.client.post(format!("http://{address}{CPU_PATH}")).header("host", self.target.authority());
        let sent = request.json(message).send().await.and_then(Response::error_for_status);
        sent.map_err(|error| format!("{address}: {error}"))
    }
}
