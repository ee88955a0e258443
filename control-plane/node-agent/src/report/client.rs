//! The requests to the control plane.

use super::answers::{Bases, Heard, Said, put};
use super::changes::Known;
use super::message::{Cpu, Message, PodName, about_apps, about_asks, about_pods};
use crate::replicas::{Replicas, Target, body};
use futures_util::future::join_all;
use reqwest::{Response, StatusCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

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
    let client = match reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build() {
        Ok(client) => client,
        Err(error) => return failed(error.to_string()),
    };
    let to = To { client: &client, target: &target, node: &node, began: Instant::now() };
    let addresses = watch::Sender::new(Vec::new());
    // Whoever hangs with one does not delay the other.
    tokio::select! {
        () = tell_all(&to, told.clone(), &addresses, &failed) => {}
        () = ask_all(&to, told, addresses.subscribe(), &heard, &failed) => {}
    }
}

/// Tells the replicas what changes, and resolves their addresses.
async fn tell_all(
    to: &To<'_>,
    mut told: watch::Receiver<Arc<Cpu>>,
    addresses: &watch::Sender<Vec<SocketAddr>>,
    failed: &impl Fn(String),
) {
    let mut found = Replicas::new(to.target.clone());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut replicas: BTreeMap<SocketAddr, Replica> = BTreeMap::new();
    while told.has_changed().is_ok() {
        ticks.tick().await;
        match found.resolve().await {
            Ok(true) => {
                let known = |address: &SocketAddr| (*address, replicas.remove(address).unwrap_or_default());
                replicas = found.addresses().iter().map(known).collect();
                addresses.send_replace(found.addresses().to_vec());
            }
            Ok(false) => {}
            Err(error) => failed(error),
        }
        let cpu = Arc::clone(&told.borrow_and_update());
        // One that hangs does not keep the others from hearing.
        let sent = replicas.iter_mut().map(|(address, replica)| to.tell(*address, replica, &cpu));
        join_all(sent).await.into_iter().flatten().for_each(failed);
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
struct To<'a> {
    client: &'a reqwest::Client,
    target: &'a Target,
    node: &'a str,
    began: Instant,
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
            if let Err(error) = self.send(address, message).await {
                replica.known.forget();
                replica.pause = self.began.elapsed() + PAUSE;
                return Some(error);
            }
        }
        // Whatever is wrong with these, the pods are known.
        for message in about_apps(self.node, if all { &cpu.apps } else { &[] }) {
            if let Err(error) = self.send(address, message).await {
                return Some(error);
            }
        }
        None
    }

    /// Asks a replica for pods. Returns what it has said, and what went wrong.
    async fn ask(&self, address: SocketAddr, pods: &[PodName]) -> (Vec<Said>, Option<String>) {
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
    async fn hear(&self, address: SocketAddr, message: Message<'_>) -> Result<Option<Said>, String> {
        let response = self.send(address, message).await?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        let body = body(address, response).await?;
        Said::read(&body).map(Some).map_err(|error| format!("{address}: {error}"))
    }

    async fn send(&self, address: SocketAddr, message: Message<'_>) -> Result<Response, String> {
        let request = self.client.post(format!("http://{address}/v1/cpu")).header("host", self.target.authority());
        let sent = request.json(&message).send().await.and_then(Response::error_for_status);
        sent.map_err(|error| format!("{address}: {error}"))
    }
}
