//! The requests to the control plane.

use super::answers::{Bases, Heard, Said, put};
use super::changes::Known;
use super::message::{Cpu, Message, PodName, about_apps, about_asks, about_pods};
use futures_util::future::join_all;
use reqwest::{Response, StatusCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
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
/// The most bytes of an answer: more than 1,000 pods take.
const MOST_BYTES: usize = 1 << 20;
/// How often the name is resolved.
const RESOLVE: Duration = Duration::from_secs(5);
/// How long a replica that has failed is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the control plane is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `host:port`; a name may have several addresses.
    authority: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        match authority.and_then(|authority| authority.rsplit_once(':')) {
            Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
                Ok(Self { authority: format!("{host}:{port}") })
            }
            _ => Err("expected http://HOST:PORT".to_owned()),
        }
    }
}

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
    let (began, target) = (to.began, to.target);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut replicas: BTreeMap<SocketAddr, Replica> = BTreeMap::new();
    let mut resolved: Option<Duration> = None;
    while told.has_changed().is_ok() {
        ticks.tick().await;
        if resolved.is_none_or(|at| began.elapsed().saturating_sub(at) >= RESOLVE) {
            // Those that are known may still be there.
            match timeout(TIMEOUT, tokio::net::lookup_host(&target.authority)).await {
                Ok(Ok(found)) => {
                    let mut before = std::mem::take(&mut replicas);
                    replicas = found.map(|address| (address, before.remove(&address).unwrap_or_default())).collect();
                    addresses.send_replace(replicas.keys().copied().collect());
                }
                Ok(Err(error)) => failed(format!("{}: {error}", target.authority)),
                Err(_) => failed(format!("{}: the name is not resolved in time", target.authority)),
            }
            resolved = Some(began.elapsed());
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
        let mut response = self.send(address, message).await?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| format!("{address}: {error}"))? {
            if body.len() + part.len() > MOST_BYTES {
                return Err(format!("{address}: an answer of more than {MOST_BYTES} bytes"));
            }
            body.extend_from_slice(&part);
        }
        Said::read(&body).map(Some).map_err(|error| format!("{address}: {error}"))
    }

    async fn send(&self, address: SocketAddr, message: Message<'_>) -> Result<Response, String> {
        let request = self.client.post(format!("http://{address}/v1/cpu")).header("host", &self.target.authority);
        let sent = request.json(&message).send().await.and_then(Response::error_for_status);
        sent.map_err(|error| format!("{address}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for text in ["http://bloc:8080", "http://bloc:8080/", "http://10.0.0.1:80", "http://[::1]:80"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.authority, text.trim_start_matches("http://").trim_end_matches('/'));
        }
        for text in ["bloc:8080", "http://bloc", "http://:80", "http://bloc:x", "http://bloc/x:80", "https://bloc:80"] {
            assert_eq!(text.parse::<Target>().unwrap_err(), "expected http://HOST:PORT", "{text}");
        }
    }
}
