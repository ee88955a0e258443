//! All applications of a node.

use super::cpu_app::CpuApp;
use super::member::{Id, Wanted};
use super::memory_app::MemoryApp;
use super::node::{CACHE, Capacity, Node};
use super::qos_app::QosApp;
use super::resource::{AnyApps, Apps, Placed, Resource};
use super::status::Status;
use super::tally;
use super::timing::{ALARM_PAUSE, CHECK_STEPS};
use crate::cgroup::{Bandwidth, GroupError, Tree};
use crate::config::{Config, Mode, Over};
use crate::lease::Leases;
use crate::pods::Pod;
use crate::qos::Answers;
use crate::state::{Kept, KeptGroups, State};
use bloc_daemon::cpu::{PodCpu, PodName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a step may restore: less than the silence after which the guardian kills. The rest is
/// retried each second.
const IN_A_STEP: Duration = Duration::from_secs(2);
/// The same at the end, when the guardian waits longer.
const AT_THE_END: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Resources {
    cpu: Apps<CpuApp>,
    memory: Apps<MemoryApp>,
    qos: Apps<QosApp>,
}

impl Resources {
    fn all(&mut self) -> [&mut dyn AnyApps; 3] {
        [&mut self.cpu, &mut self.memory, &mut self.qos]
    }

    fn paths(&self) -> KeptGroups {
        [self.cpu.paths(), self.memory.paths(), self.qos.paths()]
    }
}

#[derive(Debug)]
pub struct Agent {
    node: Node,
    /// None until a valid one was read.
    config: Option<Config>,
    /// None until the source has sent them.
    pods: Option<Arc<Vec<Pod>>>,
    apps: Resources,
    /// Containers at their memory limit that were not served yet.
    asking: BTreeSet<Id>,
    /// Whether containers were assigned to applications since the start.
    placed: bool,
    steps: u64,
    now: Duration,
}

impl Agent {
    /// An agent that manages nothing yet. `state` is what an earlier agent left.
    pub fn new(tree: Tree, state: State, capacity: Capacity) -> Self {
        Self {
            node: Node::new(tree, state, capacity),
            config: None,
            pods: None,
            apps: Resources::default(),
            asking: BTreeSet::new(),
            placed: false,
            steps: 0,
            now: Duration::ZERO,
        }
    }

    #[must_use]
    pub fn with_leases(mut self, leases: Option<Leases>) -> Self {
        self.node.leases = leases;
        self
    }

    /// Applies a configuration. Groups that it does not manage get their originals.
    pub fn set_config(&mut self, config: Config) {
        let enforcing = config.mode == Mode::Enforce;
        if enforcing != self.node.enforcing {
            if self.node.enforcing {
                self.put_back(IN_A_STEP);
            }
            // What was computed while observing is not in force.
            self.apps.all().into_iter().for_each(AnyApps::forget);
        }
        self.node.enforcing = enforcing;
        self.node.override_limits = config.override_limits;
        for apps in self.apps.all() {
            apps.configure(&mut self.node, self.now, &config);
        }
        self.config = Some(config);
        self.node.unplaced = true;
    }

    pub fn set_pods(&mut self, pods: Arc<Vec<Pod>>) {
        self.node.requested = pods.iter().flat_map(|pod| &pod.containers).map(|container| container.requests).sum();
        self.pods = Some(pods);
        self.node.unplaced = true;
    }

    /// One step. `now` never decreases.
    pub fn step(&mut self, now: Duration) {
        let check = self.steps.is_multiple_of(CHECK_STEPS);
        self.steps += 1;
        self.now = now;
        if self.node.unplaced && check {
            self.place();
        }
        for running in self.apps.cpu.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        self.settle();
        self.node.cache = if check { CACHE } else { self.node.cache };
        for running in self.apps.memory.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        if check {
            for running in self.apps.qos.values_mut() {
                running.check(&mut self.node, now);
            }
            if self.node.state.is_changed() {
                self.node.save();
            }
        }
    }

    /// Waits for the next step, and meanwhile serves containers at their memory limit. Steps count
    /// their time since `began`.
    pub fn wait(&mut self, began: Instant, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let asking = self.node.wait(if self.asking.is_empty() { left } else { Duration::ZERO });
            self.asking.extend(asking);
            // Serving them must not delay the next step.
            while Instant::now() < until
                && let Some(id) = self.asking.pop_first()
            {
                if let Some(running) = self.apps.memory.values_mut().find(|running| running.has(&id)) {
                    running.ask(&mut self.node, began.elapsed(), &id);
                }
            }
            // The kernel repeatedly reports a container that stays at its limit.
            std::thread::sleep(ALARM_PAUSE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn place(&mut self) {
        let (Some(config), Some(pods)) = (&self.config, self.pods.clone()) else { return };
        let mut wanted = Placed::new();
        for pod in pods.iter() {
            let Some((name, app)) = config.app_of(pod) else { continue };
            for container in pod.containers.iter().filter(|container| app.containers.has(&container.name)) {
                let id = Id::new(pod, container);
                wanted.entry(name).or_default().insert(id, Wanted { pod, container });
            }
        }
        // A container that moves to another application is put back before it is added.
        for apps in self.apps.all() {
            apps.keep(&mut self.node, self.now, &wanted);
        }
        (self.node.unplaced, self.placed) = (false, true);
        for apps in self.apps.all() {
            apps.add(&mut self.node, self.now, config, &wanted);
        }
        self.put_back_others();
    }

    /// Once the containers on this node are known, reports the use of cluster-wide limits and gives
    /// back what no application uses.
    fn settle(&mut self) {
        let Some(leases) = self.node.leases.as_ref().filter(|_| self.placed) else { return };
        let cpu = &self.apps.cpu;
        let of = |running: &CpuApp| Some((running.groups().app().to_owned(), running.lease_use(&self.node)?));
        let uses: BTreeMap<String, _> = cpu.values().filter_map(of).collect();
        if self.node.enforcing {
            let over = cpu.values().filter(|running| running.config.over == Over::Cluster);
            leases.meet(over.map(|running| running.groups().app()).filter(|name| !uses.contains_key(*name)));
        }
        // A quota that could not be put back may have grown under a lease.
        let kept = || if self.node.enforcing { cpu.paths() } else { BTreeSet::new() };
        leases.settle(uses, || <Bandwidth as Kept>::of(&self.node.state).has_others(&self.node.tree, &kept()));
    }

    /// Restores what an earlier agent has changed and this one does not manage.
    fn put_back_others(&mut self) {
        let kept = if self.node.enforcing { self.apps.paths() } else { KeptGroups::default() };
        if self.node.state.has_others(&self.node.tree, &kept) {
            let errors = self.node.state.restore(&self.node.tree, &kept);
            self.ended(&errors);
            if !self.node.enforcing {
                self.apps.all().into_iter().for_each(AnyApps::refresh);
            }
        }
    }

    /// Gives each group the larger of its original and what it has, and its original CPU shares, so
    /// that no agent is needed any more.
    pub fn release(&mut self) -> Vec<GroupError> {
        self.end(State::release)
    }

    pub fn restore(&mut self) -> Vec<GroupError> {
        self.put_back(AT_THE_END)
    }

    fn put_back(&mut self, patience: Duration) -> Vec<GroupError> {
        self.end(|state, tree| state.restore_all(tree, patience))
    }

    /// Forgets all containers, after a last look for foreign writes, and puts their groups back.
    fn end(&mut self, put_back: impl FnOnce(&mut State, &Tree) -> Vec<GroupError>) -> Vec<GroupError> {
        for apps in self.apps.all() {
            apps.end(&mut self.node, self.now);
        }
        self.node.alarms = None;
        let mut errors = Vec::new();
        if !self.node.state.is_empty() {
            errors = put_back(&mut self.node.state, &self.node.tree);
            self.ended(&errors);
        }
        errors
    }

    fn ended(&mut self, errors: &[GroupError]) {
        // The next check tries again.
        self.node.unplaced |= !errors.is_empty();
        for error in errors {
            self.node.tally.error(tally::of_write(error), error);
        }
        self.node.save();
    }

    pub const fn leases(&self) -> Option<&Leases> {
        self.node.leases.as_ref()
    }

    /// Whether the next step is a check.
    pub const fn is_due(&self) -> bool {
        self.steps.is_multiple_of(CHECK_STEPS)
    }

    pub fn pods(&self) -> impl Iterator<Item = PodCpu> {
        self.apps.cpu.values().flat_map(|running| running.pods(&self.node))
    }

    pub fn asks(&self) -> BTreeSet<PodName> {
        self.apps.qos.values().flat_map(QosApp::pods).collect()
    }

    /// Adds answers of a pod. A pod whose shares no application moves is ignored.
    pub fn answered(&mut self, pod: &PodName, more: Answers) {
        for running in self.apps.qos.values_mut() {
            running.answered(pod, more);
        }
    }

    /// What the metrics show. Use and throttling are since the last call.
    pub fn status(&mut self) -> Status {
        let (node, Resources { cpu, memory, qos }) = (&self.node, &mut self.apps);
        Status {
            cpu: cpu.iter_mut().map(|(name, running)| (name.to_string(), running.status(node))).collect(),
            memory: memory.iter().map(|(name, running)| (name.to_string(), running.status(node))).collect(),
            qos: qos.iter().map(|(name, running)| (name.to_string(), running.status())).collect(),
            enforcing: node.enforcing,
            steps: self.steps,
            writes: node.tally.writes,
            errors: node.tally.errors.clone(),
        }
    }

    /// Whether the tree still exists: the kubelet may have replaced it.
    pub fn has_tree(&self) -> bool {
        self.node.tree.is_there()
    }

    /// Counts an error that the caller logs.
    pub fn count(&mut self, kind: &'static str) {
        self.node.tally.count(kind);
    }

    /// Counts and logs an error outside of a step.
    pub fn count_error(&mut self, kind: &'static str, error: &dyn std::fmt::Display) {
        self.node.tally.error(kind, error);
    }
}
