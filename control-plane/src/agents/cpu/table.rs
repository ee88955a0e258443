//! All pods, applications and agents that messages were about.
//!
//! Cost: a map lookup for each pod of a message, and a pass over everything once a second.

use super::asked::Asks;
use super::cost::{Cost, MOST_WAITING};
use super::history::{History, MOST_SAMPLES};
use super::news::{SILENT_AFTER, is_silent};
use super::view::AppView;
use crate::load::ReportInterval;
use bloc_daemon::cpu::{AppCpu, CpuMessage, MOST_CORES, PodCpu};
use bloc_daemon::shares::{Share, Shares};
use bloc_policy::sync::ServerCpu;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes for everything, by an upper estimate: some 8,500 pods.
pub const MOST_BYTES: usize = 16 << 20;
/// How long a silent entry is kept, because its agent may come back. After that, the table behaves
/// as if it had never heard of it.
const KEEP: Duration = Duration::from_secs(60);
/// How often to drop such entries, which takes a pass over everything.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The bytes of a pod without its name: samples of 32 bytes, reports of 40, and the rest. An agent
/// takes less, and so does an application with its containers.
const ENTRY: usize = 32 * MOST_SAMPLES + 40 * MOST_WAITING + 256;
/// The bytes of a container, without its names.
const CONTAINER: usize = 128;

/// What is known of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// No agent has reported it, or not for long: perhaps agents reach only other replicas.
    Unheard,
    /// Its agent has fallen silent: nothing is known any more.
    Silent,
    Is(ServerCpu),
}

/// Everything that agents reported.
#[derive(Debug)]
pub struct Cpus {
    /// The shortest time between samples of a pod.
    gap: Duration,
    pods: BTreeMap<String, Pod>,
    /// By application and node.
    apps: BTreeMap<(String, String), App>,
    /// When each agent was last heard, by node.
    nodes: BTreeMap<String, (Instant, Share)>,
    /// The pods that agents ask for.
    pub asks: Asks,
    /// Bytes. All agents share one identity, hence one share.
    memory: Shares,
    swept: Instant,
}

#[derive(Debug)]
struct Pod {
    heard: Instant,
    cores: Option<f64>,
    history: History,
    cost: Cost,
    _memory: Share,
}

#[derive(Debug)]
struct App {
    heard: Instant,
    cpu: AppCpu,
    _memory: Share,
}

impl Default for Cpus {
    fn default() -> Self {
        Self::new(ReportInterval::default(), Instant::now())
    }
}

fn pod_bytes(key: &str) -> usize {
    ENTRY + key.len()
}

fn is_kept(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) < KEEP
}

impl Cpus {
    /// For a replica that starts now, with proxies that report every `interval`.
    pub fn new(interval: ReportInterval, now: Instant) -> Self {
        Self {
            gap: interval.get() / 10,
            pods: BTreeMap::new(),
            apps: BTreeMap::new(),
            nodes: BTreeMap::new(),
            asks: Asks::default(),
            memory: Shares::capped(MOST_BYTES, MOST_BYTES),
            swept: now,
        }
    }

    /// Takes an agent's message. False if there was no room for all of it: the rest is dropped.
    pub fn receive(&mut self, message: &CpuMessage, now: Instant) -> bool {
        self.sweep(now);
        let mut room = self.receive_node(&message.node, now);
        for pod in &message.pods {
            room &= self.receive_pod(pod, now);
        }
        for app in &message.apps {
            room &= self.receive_app(&message.node, app, now);
        }
        for pod in &message.asks {
            room &= self.asks.ask(pod.key(), &self.memory, now);
        }
        room
    }

    fn receive_node(&mut self, node: &str, now: Instant) -> bool {
        if let Some((heard, _)) = self.nodes.get_mut(node) {
            *heard = now;
            return true;
        }
        let Ok(memory) = self.memory.take("", pod_bytes(node)) else { return false };
        self.nodes.insert(node.to_owned(), (now, memory));
        true
    }

    fn receive_pod(&mut self, said: &PodCpu, now: Instant) -> bool {
        let key = said.key();
        let pod = match self.pods.entry(key) {
            Entry::Occupied(pod) => pod.into_mut(),
            Entry::Vacant(free) => {
                let Ok(_memory) = self.memory.take("", pod_bytes(free.key())) else { return false };
                let (history, cost) = (History::new(self.gap), Cost::default());
                free.insert(Pod { heard: now, cores: None, history, cost, _memory })
            }
        };
        (pod.heard, pod.cores) = (now, said.cores.filter(|cores| *cores > 0.0));
        if !pod.history.add(said.used_seconds, pod.cores, now) {
            pod.cost.restart();
        }
        pod.cost.divide(&pod.history);
        true
    }

    fn receive_app(&mut self, node: &str, app: &AppCpu, now: Instant) -> bool {
        let key = (app.name.clone(), node.to_owned());
        self.apps.remove(&key);
        let containers = app.containers.iter().map(|of| CONTAINER + of.pod.len() + of.container.len());
        let bytes = ENTRY + node.len() + 2 * app.name.len() + containers.sum::<usize>();
        let Ok(_memory) = self.memory.take("", bytes) else { return false };
        self.apps.insert(key, App { heard: now, cpu: app.clone(), _memory });
        true
    }

    /// Forgets what is silent for long.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        self.pods.retain(|_, pod| is_kept(pod.heard, now));
        self.apps.retain(|_, app| is_kept(app.heard, now));
        self.nodes.retain(|_, (heard, _)| is_kept(*heard, now));
        self.asks.sweep(now);
    }

    /// The pod answered `departed` requests in the `time` until `to`.
    pub fn count(&mut self, pod: &str, departed: u64, time: Duration, to: Instant) {
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.cost.count(departed, time, to, &pod.history);
        }
    }

    /// What is known of a pod, and until when that holds without further messages; `None`: for
    /// ever.
    pub fn of(&self, pod: &str, now: Instant) -> (Known, Option<Instant>) {
        // An expired pod may still be here, because only messages trigger a sweep.
        match self.pods.get(pod).filter(|pod| is_kept(pod.heard, now)) {
            Some(pod) if is_silent(pod.heard, now) => (Known::Silent, None),
            Some(Pod { heard, cores, history, cost, .. }) => {
                let used = history.cores().filter(|used| *used <= MOST_CORES);
                let cpu = ServerCpu { cores: *cores, used, per_request_us: cost.micros() };
                (Known::Is(cpu), Some(*heard + SILENT_AFTER))
            }
            None => (Known::Unheard, None),
        }
    }

    /// What is known of a pod, for operators; `None`: nothing.
    pub fn known(&self, pod: &str, now: Instant) -> Option<ServerCpu> {
        if let (Known::Is(cpu), _) = self.of(pod, now) { Some(cpu) } else { None }
    }

    /// The number of agents heard recently.
    pub fn agents(&self, now: Instant) -> usize {
        self.nodes.values().filter(|(heard, _)| !is_silent(*heard, now)).count()
    }

    /// The applications reported recently, by name and node: the first `most`, and the number of
    /// all.
    pub fn apps(&self, most: usize, now: Instant) -> (Vec<AppView>, usize) {
        let known = || self.apps.iter().filter(|(_, app)| !is_silent(app.heard, now));
        let view = |((_, node), app): (&(String, String), &App)| AppView::of(node, &app.cpu);
        (known().take(most).map(view).collect(), known().count())
    }

    /// The bytes taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.memory.taken()
    }
}
