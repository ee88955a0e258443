//! The requests to the control plane.

use super::changes::Known;
use super::message::{Cpu, Message, about_apps, about_pods};
use futures_util::future::join_all;
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

/// Tells the control plane what changes, until the sender is gone. `failed` hears of each failure.
pub async fn report(target: Target, node: String, mut told: watch::Receiver<Arc<Cpu>>, failed: impl Fn(String)) {
    let client = match reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build() {
        Ok(client) => client,
        Err(error) => return failed(error.to_string()),
    };
    let began = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut replicas: BTreeMap<SocketAddr, Replica> = BTreeMap::new();
    let mut resolved: Option<Duration> = None;
    while told.has_changed().is_ok() {
        ticks.tick().await;
        if resolved.is_none_or(|at| began.elapsed().saturating_sub(at) >= RESOLVE) {
            // Those that are known may still be there.
            match timeout(TIMEOUT, tokio::net::lookup_host(&target.authority)).await {
                Ok(Ok(addresses)) => {
                    let mut before = std::mem::take(&mut replicas);
                    replicas =
                        addresses.map(|address| (address, before.remove(&address).unwrap_or_default())).collect();
                }
                Ok(Err(error)) => failed(format!("{}: {error}", target.authority)),
                Err(_) => failed(format!("{}: the name is not resolved in time", target.authority)),
            }
            resolved = Some(began.elapsed());
        }
        let cpu = Arc::clone(&told.borrow_and_update());
        let to = To { client: &client, target: &target, node: &node, began };
        // One that hangs does not keep the others from hearing.
        let sent = replicas.iter_mut().map(|(address, replica)| to.tell(*address, replica, &cpu));
        join_all(sent).await.into_iter().flatten().for_each(&failed);
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

    async fn send(&self, address: SocketAddr, message: Message<'_>) -> Result<(), String> {
        let request = self.client.post(format!("http://{address}/v1/cpu")).header("host", &self.target.authority);
        let sent = request.json(&message).send().await.and_then(reqwest::Response::error_for_status);
        sent.map(drop).map_err(|error| format!("{address}: {error}"))
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
