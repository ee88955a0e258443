//! All pods, applications and agents of which something was heard.
//!
//! Cost: a step in a map for each pod of a message, and a pass over everything once a second.

use super::asked::{Asks, asked_bytes};
use super::cost::{Cost, MOST_WAITING};
use super::history::{History, MOST_SAMPLES};
use super::silence::{SILENT_AFTER, is_silent};
use super::view::AppView;
use crate::load::ReportInterval;
use bloc_daemon::cpu::{AppCpu, CpuMessage, MOST_CORES, PodAnswers, PodCpu, PodName};
use bloc_policy::sync::{ServerCpu, ServiceLoad};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes for all of it, by an upper estimate: some 8,500 pods.
pub const MOST_BYTES: usize = 16 << 20;
/// How long something silent is kept, because its agent may come back. Longer silence is as if it
/// had never been heard of.
const KEEP: Duration = Duration::from_secs(60);
/// How often that is looked for, which is a pass over everything.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The bytes of a pod, without its name: samples of 32 bytes, reports of 40, the rest. An agent and
/// an application with its containers take less, each.
const ENTRY: usize = 32 * MOST_SAMPLES + 40 * MOST_WAITING + 256;
/// The bytes of a container, without its names.
const CONTAINER: usize = 128;

/// What is known of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// No agent has spoken of it, or none for long: perhaps they reach only other replicas.
    Unheard,
    /// Its agent is silent of late: nothing is known any more.
    Silent,
    /// This.
    Is(ServerCpu),
}

/// Everything that agents said.
#[derive(Debug)]
pub struct Cpus {
    /// The shortest time between samples of a pod.
    gap: Duration,
    pods: BTreeMap<String, Pod>,
    /// By application and node.
    apps: BTreeMap<(String, String), App>,
    /// When each agent was heard of, by node.
    nodes: BTreeMap<String, Instant>,
    /// The pods that agents ask for.
    asks: Asks,
    taken: usize,
    swept: Instant,
}

#[derive(Debug)]
struct Pod {
    heard: Instant,
    cores: Option<f64>,
    history: History,
    cost: Cost,
}

#[derive(Debug)]
struct App {
    heard: Instant,
    cpu: AppCpu,
}

impl Default for Cpus {
    fn default() -> Self {
        Self::new(ReportInterval::default(), Instant::now())
    }
}

fn pod_bytes(key: &str) -> usize {
    ENTRY + key.len()
}

fn app_bytes(node: &str, app: &AppCpu) -> usize {
    let containers = app.containers.iter().map(|of| CONTAINER + of.pod.len() + of.container.len());
    ENTRY + node.len() + 2 * app.name.len() + containers.sum::<usize>()
}

fn is_kept(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) < KEEP
}

impl Cpus {
    /// Of a replica that starts now, with proxies that report every `interval`.
    pub fn new(interval: ReportInterval, now: Instant) -> Self {
        Self {
            gap: interval.get() / 10,
            pods: BTreeMap::new(),
            apps: BTreeMap::new(),
            nodes: BTreeMap::new(),
            asks: Asks::default(),
            taken: 0,
            swept: now,
        }
    }

    /// An agent has sent this. False if there was no room for all of it: the rest is not known.
    pub fn hear(&mut self, message: &CpuMessage, now: Instant) -> bool {
        self.sweep(now);
        let mut room = self.hear_node(&message.node, now);
        for pod in &message.pods {
            room &= self.hear_pod(pod, now);
        }
        for app in &message.apps {
            room &= self.hear_app(&message.node, app, now);
        }
        for pod in &message.asks {
            room &= self.ask(pod.key(), now);
        }
        room
    }

    fn hear_node(&mut self, node: &str, now: Instant) -> bool {
        let room = self.nodes.contains_key(node) || self.take(pod_bytes(node));
        if room {
            self.nodes.insert(node.to_owned(), now);
        }
        room
    }

    fn hear_pod(&mut self, said: &PodCpu, now: Instant) -> bool {
        let key = said.key();
        if !self.pods.contains_key(&key) && !self.take(pod_bytes(&key)) {
            return false;
        }
        let new = || Pod { heard: now, cores: None, history: History::new(self.gap), cost: Cost::default() };
        let pod = self.pods.entry(key).or_insert_with(new);
        (pod.heard, pod.cores) = (now, said.cores.filter(|cores| *cores > 0.0));
        if !pod.history.add(said.used_seconds, pod.cores, now) {
            pod.cost.restart();
        }
        pod.cost.divide(&pod.history);
        true
    }

    fn hear_app(&mut self, node: &str, app: &AppCpu, now: Instant) -> bool {
        let key = (app.name.clone(), node.to_owned());
        if let Some(before) = self.apps.remove(&key) {
            self.taken -= app_bytes(node, &before.cpu);
        }
        let room = self.take(app_bytes(node, app));
        if room {
            self.apps.insert(key, App { heard: now, cpu: app.clone() });
        }
        room
    }

    fn ask(&mut self, pod: String, now: Instant) -> bool {
        let room = self.asks.has(&pod) || self.take(asked_bytes(&pod));
        if room {
            self.asks.ask(pod, now);
        }
        room
    }

    fn take(&mut self, bytes: usize) -> bool {
        let room = self.taken + bytes <= MOST_BYTES;
        self.taken += if room { bytes } else { 0 };
        room
    }

    /// Forgets who was silent for long.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        let taken = &mut self.taken;
        let mut keep = |heard: Instant, bytes: usize| {
            let keep = is_kept(heard, now);
            *taken -= if keep { 0 } else { bytes };
            keep
        };
        self.pods.retain(|key, pod| keep(pod.heard, pod_bytes(key)));
        self.apps.retain(|(_, node), app| keep(app.heard, app_bytes(node, &app.cpu)));
        self.nodes.retain(|node, heard| keep(*heard, pod_bytes(node)));
        self.taken -= self.asks.sweep(now);
    }

    /// The pod has answered so many requests in the `time` until `to`.
    pub fn count(&mut self, pod: &str, departed: u64, time: Duration, to: Instant) {
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.cost.count(departed, time, to, &pod.history);
        }
    }

    /// What is known of a pod, and until when that holds if nothing more is heard; `None`: for
    /// ever.
    pub fn of(&self, pod: &str, now: Instant) -> (Known, Option<Instant>) {
        // A pod may be kept longer than for its time, because only messages lead to a sweep.
        match self.pods.get(pod).filter(|pod| is_kept(pod.heard, now)) {
            Some(pod) if is_silent(pod.heard, now) => (Known::Silent, None),
            Some(Pod { heard, cores, history, cost }) => {
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

    /// The number of agents that were heard of lately.
    pub fn agents(&self, now: Instant) -> usize {
        self.nodes.values().filter(|heard| !is_silent(**heard, now)).count()
    }

    /// The applications that were heard of lately, by name and node: the first `most`, and how many
    /// there are.
    pub fn apps(&self, most: usize, now: Instant) -> (Vec<AppView>, usize) {
        let known = || self.apps.iter().filter(|(_, app)| !is_silent(app.heard, now));
        let view = |((_, node), app): (&(String, String), &App)| AppView::of(node, &app.cpu);
        (known().take(most).map(view).collect(), known().count())
    }

    /// Whether an agent has asked for a pod of late.
    pub fn is_asked(&self, pod: &str, now: Instant) -> bool {
        self.asks.is_asked(pod, now)
    }

    /// The number of pods that agents have asked for of late.
    pub fn asked(&self, now: Instant) -> usize {
        self.asks.count(now)
    }

    /// The proxy of a pod reports what it has answered.
    pub fn add_answers(&mut self, pod: &str, load: &[ServiceLoad]) {
        self.asks.add(pod, load);
    }

    /// What these pods have answered since they were first asked for.
    pub fn answers(&self, pods: &[PodName]) -> Vec<PodAnswers> {
        self.asks.answers(pods)
    }

    /// The bytes that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken
    }
}
