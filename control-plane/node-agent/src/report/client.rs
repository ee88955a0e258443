//! The requests to the control plane.

use super::answers::{Bases, Heard, put};
use super::changes::Known;
use super::message::{Cpu, about_apps, about_asks, about_pods};
use crate::replicas::{Client, Target, resolve};
use bloc_daemon::cpu::{CPU_PATH, CpuAnswer, PodName};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The shortest time between two reports of changes.
const EVERY: Duration = Duration::from_millis(200);
/// How often the agent asks about pods.
const ASK: Duration = Duration::from_secs(1);

/// Reports until the sender is gone. Answers of pods are added to `heard`; `failed` gets each
/// failure.
pub async fn report(
    target: Target,
    node: String,
    told: watch::Receiver<Arc<Cpu>>,
    heard: Heard,
    failed: impl Fn(String),
) {
    let to = match To::new(&target, &node) {
        Ok(to) => to,
        Err(error) => return failed(error),
    };
    let addresses = watch::Sender::new(Vec::new());
    // A hanging one does not delay the others.
    tokio::select! {
        () = resolve(&target, &addresses, &failed) => {}
        () = tell_all(&to, told.clone(), addresses.subscribe(), &failed) => {}
        () = ask_all(&to, told, addresses.subscribe(), &heard, &failed) => {}
    }
}

/// Sends changes to the replicas. A hanging one does not delay the others.
pub(super) async fn tell_all(
    to: &To<'_>,
    mut told: watch::Receiver<Arc<Cpu>>,
    addresses: watch::Receiver<Vec<SocketAddr>>,
    failed: &impl Fn(String),
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut replicas: BTreeMap<SocketAddr, Known> = BTreeMap::new();
    let (mut telling, mut busy) = (FuturesUnordered::new(), BTreeSet::new());
    while told.has_changed().is_ok() {
        tokio::select! {
            _ = ticks.tick() => {
                let cpu = Arc::clone(&told.borrow_and_update());
                let all = addresses.borrow().clone();
                replicas.retain(|address, _| all.contains(address));
                for address in all {
                    if busy.insert(address) {
                        let (mut known, cpu) = (replicas.remove(&address).unwrap_or_default(), Arc::clone(&cpu));
                        telling.push(async move {
                            let told = to.tell(address, &mut known, &cpu).await;
                            (address, known, told)
                        });
                    }
                }
            }
            Some((address, known, told)) = telling.next() => {
                busy.remove(&address);
                replicas.insert(address, known);
                told.err().into_iter().for_each(failed);
            }
        }
    }
}

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
        let mut said = Vec::new();
        for (answers, error) in join_all(replicas.iter().map(|address| to.ask(*address, &pods))).await {
            said.extend(answers);
            error.into_iter().for_each(failed);
        }
        put(heard, bases.receive(said, &asks, asked), &asks);
    }
}

pub(super) struct To<'a> {
    /// For pods.
    client: Client,
    /// For everything else, whose failures must not pause the reports about pods.
    apart: Client,
    node: &'a str,
    began: Instant,
}

impl<'a> To<'a> {
    pub(super) fn new(target: &Target, node: &'a str) -> Result<Self, String> {
        let client = || Client::new(target.clone());
        Ok(Self { client: client()?, apart: client()?, node, began: Instant::now() })
    }

    /// Sends what is due.
    async fn tell(&self, address: SocketAddr, known: &mut Known, cpu: &Cpu) -> Result<(), String> {
        if self.client.rests(address) {
            return Ok(());
        }
        let Some((pods, all)) = known.next(cpu, self.began.elapsed()) else { return Ok(()) };
        for message in about_pods(self.node, &pods) {
            let told = self.client.post(address, CPU_PATH, None, &message).await;
            told.inspect_err(|_| known.forget())?;
        }
        for message in about_apps(self.node, if all { &cpu.apps } else { &[] }) {
            self.apart.post(address, CPU_PATH, None, &message).await?;
        }
        Ok(())
    }

    /// Asks about pods. Returns the answers before a failure, and the failure.
    async fn ask(&self, address: SocketAddr, pods: &[PodName]) -> (Vec<CpuAnswer>, Option<String>) {
        let mut said = Vec::new();
        for message in about_asks(self.node, pods) {
            let answer = match self.apart.post(address, CPU_PATH, None, &message).await {
                Ok(body) => body.map(|body| CpuAnswer::read(&body)).transpose(),
                Err(error) => return (said, Some(error)),
            };
            match answer {
                Ok(more) => said.extend(more),
                Err(error) => return (said, Some(format!("{address}: {error}"))),
            }
        }
        (said, None)
    }
}
