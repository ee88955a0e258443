//! All applications of a node.

use super::cpu_app::CpuApp;
use super::member::{Id, Wanted};
use super::memory_app::MemoryApp;
use super::node::{CACHE, Capacity, Node};
use super::status::{PodCpu, Status};
use super::tally::{self, Tally};
use super::timing::{ALARM_PAUSE, CHECK_STEPS};
use crate::cgroup::{GroupError, Tree, Version};
use crate::config::{AppName, Config, Mode};
use crate::pods::Pod;
use crate::state::{KeptGroups, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The agent of a node.
#[derive(Debug)]
pub struct Agent {
    node: Node,
    /// None until there was a good one.
    config: Option<Config>,
    /// None until a source has told them.
    pods: Option<Arc<Vec<Pod>>>,
    cpu: BTreeMap<AppName, CpuApp>,
    memory: BTreeMap<AppName, MemoryApp>,
    /// Who is at its limit of memory, and was not served yet.
    asking: BTreeSet<Id>,
    steps: u64,
    /// The time of the last step.
    now: Duration,
}

impl Agent {
    /// An agent that manages nothing yet, on a node that has this much. What an earlier one has
    /// left is in `state`.
    pub fn new(tree: Tree, state: State, capacity: Capacity) -> Self {
        let node = Node {
            tree,
            state,
            tally: Tally::default(),
            cache: CACHE,
            alarms: None,
            capacity,
            enforcing: false,
            override_limits: false,
            unplaced: false,
        };
        let (cpu, memory) = (BTreeMap::new(), BTreeMap::new());
        Self { node, config: None, pods: None, cpu, memory, asking: BTreeSet::new(), steps: 0, now: Duration::ZERO }
    }

    /// Takes a configuration. What is no longer managed gets its original quotas.
    pub fn set_config(&mut self, config: Config) {
        let enforcing = config.mode == Mode::Enforce;
        if enforcing != self.node.enforcing {
            if self.node.enforcing {
                self.restore();
            }
            // What an observer has computed is not in force.
            self.cpu.clear();
            self.memory.clear();
        }
        self.node.enforcing = enforcing;
        self.node.override_limits = config.override_limits;
        let (node, now, none) = (&mut self.node, self.now, BTreeMap::new());
        self.cpu.retain(|name, running| {
            let wanted = config.apps.get(name).and_then(|app| app.cpu.as_ref());
            match wanted {
                Some(app) => running.configure(app),
                None => running.keep(node, now, &none),
            }
            wanted.is_some()
        });
        self.memory.retain(|name, running| {
            let wanted = config.apps.get(name).and_then(|app| app.memory.as_ref());
            match wanted {
                Some(app) => running.configure(app),
                None => running.keep(node, now, &none),
            }
            wanted.is_some()
        });
        self.config = Some(config);
        self.node.unplaced = true;
    }

    /// Takes the pods that run on this node now.
    pub fn set_pods(&mut self, pods: Arc<Vec<Pod>>) {
        self.pods = Some(pods);
        self.node.unplaced = true;
    }

    /// One step, at `now`, which is a time that never goes back.
    pub fn step(&mut self, now: Duration) {
        let check = self.steps.is_multiple_of(CHECK_STEPS);
        self.steps += 1;
        self.now = now;
        if self.node.unplaced && check {
            self.place();
        }
        for running in self.cpu.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        self.node.cache = if check { CACHE } else { self.node.cache };
        for running in self.memory.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        if check && self.node.state.is_changed() {
            self.node.save();
        }
    }

    /// Waits for the next step, and meanwhile gives memory to those that are at their limit. The
    /// time of the steps is that since `began`.
    pub fn wait(&mut self, began: Instant, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let asking = self.node.wait(if self.asking.is_empty() { left } else { Duration::ZERO });
            self.asking.extend(asking);
            // The next step is not late for them.
            while Instant::now() < until
                && let Some(id) = self.asking.pop_first()
            {
                if let Some(running) = self.memory.values_mut().find(|running| running.has(&id)) {
                    running.ask(&mut self.node, began.elapsed(), &id);
                }
            }
            // Whoever is held up at its limit asks again and again.
            std::thread::sleep(ALARM_PAUSE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Gives each container to its application.
    fn place(&mut self) {
        let (Some(config), Some(pods)) = (&self.config, self.pods.clone()) else { return };
        let mut wanted: BTreeMap<&AppName, BTreeMap<Id, Wanted>> = BTreeMap::new();
        for pod in pods.iter() {
            let Some((name, app)) = config.app_of(pod) else { continue };
            for container in pod.containers.iter().filter(|container| app.containers.has(&container.name)) {
                let id = Id::new(pod, container);
                wanted.entry(name).or_default().insert(id, Wanted { pod, container });
            }
        }
        // First what goes, so that a container that changes its application is put back before.
        let none = BTreeMap::new();
        for (name, running) in &mut self.cpu {
            running.keep(&mut self.node, self.now, wanted.get(name).unwrap_or(&none));
        }
        for (name, running) in &mut self.memory {
            running.keep(&mut self.node, self.now, wanted.get(name).unwrap_or(&none));
        }
        self.node.unplaced = false;
        for (name, app) in &config.apps {
            let wanted = wanted.get(name).unwrap_or(&none);
            if let Some(cpu) = &app.cpu {
                let running = self.cpu.entry(name.clone()).or_insert_with(|| CpuApp::new(name, cpu));
                let missing = running.add(&mut self.node, wanted);
                self.node.unplaced |= missing;
            }
            if let Some(memory) = &app.memory {
                let running = self.memory.entry(name.clone()).or_insert_with(|| MemoryApp::new(name, memory, self.now));
                let missing = running.add(&mut self.node, wanted);
                self.node.unplaced |= missing;
            }
        }
        self.put_back_others();
    }

    /// What an earlier agent has changed, and this one does not manage, gets its original quota.
    fn put_back_others(&mut self) {
        let mut kept = KeptGroups::default();
        if self.node.enforcing {
            kept.cpu = self.cpu.values().flat_map(CpuApp::paths).cloned().collect();
            kept.memory = self.memory.values().flat_map(MemoryApp::paths).cloned().collect();
        }
        if self.node.state.has_others(&kept) {
            let errors = self.node.state.restore(&self.node.tree, &kept);
            self.ended(&errors);
        }
    }

    /// Gives each group the larger of its originals and what it has: nothing is taken, and no agent
    /// is needed any more.
    ///
    /// Returns what went wrong.
    pub fn release(&mut self) -> Vec<GroupError> {
        self.end();
        let mut errors = Vec::new();
        if !self.node.state.is_empty() {
            errors = self.node.state.release(&self.node.tree);
            self.ended(&errors);
        }
        errors
    }

    /// Gives each group its originals.
    ///
    /// Returns what went wrong.
    pub fn restore(&mut self) -> Vec<GroupError> {
        self.end();
        let mut errors = Vec::new();
        if !self.node.state.is_empty() {
            errors = self.node.state.restore_all(&self.node.tree);
            self.ended(&errors);
        }
        errors
    }

    /// Forgets all containers, after a last look at who else has written.
    fn end(&mut self) {
        for mut running in std::mem::take(&mut self.cpu).into_values() {
            running.check(&mut self.node, self.now);
        }
        for mut running in std::mem::take(&mut self.memory).into_values() {
            running.end(&mut self.node, self.now);
        }
        // Nobody is waited for any more.
        self.node.alarms = None;
    }

    fn ended(&mut self, errors: &[GroupError]) {
        // Once more with the next look.
        self.node.unplaced |= !errors.is_empty();
        for error in errors {
            self.node.tally.error(tally::of_write(error), error);
        }
        self.node.save();
    }

    /// Whether quotas are written.
    pub const fn is_enforcing(&self) -> bool {
        self.node.enforcing
    }

    /// The kernel's version of groups.
    pub const fn version(&self) -> Version {
        self.node.tree.version()
    }

    /// Whether the status is due.
    pub const fn is_due(&self) -> bool {
        self.steps.is_multiple_of(CHECK_STEPS)
    }

    /// The CPU of the pods now.
    pub fn pods(&self) -> impl Iterator<Item = PodCpu> {
        self.cpu.values().flat_map(CpuApp::pods)
    }

    /// What the metrics show. Shares and uses are those since the last call.
    pub fn status(&mut self) -> Status {
        let cpu = self.cpu.iter_mut().map(|(name, running)| (name.to_string(), running.status(&self.node)));
        let memory = self.memory.iter().map(|(name, running)| (name.to_string(), running.status(&self.node)));
        Status {
            cpu: cpu.collect(),
            memory: memory.collect(),
            enforcing: self.node.enforcing,
            steps: self.steps,
            writes: self.node.tally.writes,
            errors: self.node.tally.errors.clone(),
        }
    }
}

impl Agent {
    /// Whether the tree is there. The kubelet may have made another one in its place.
    pub fn has_tree(&self) -> bool {
        self.node.tree.is_there()
    }

    /// Counts an error outside of a step: the configuration or the pods cannot be read.
    pub fn count_error(&mut self, kind: &'static str, error: &dyn std::fmt::Display) {
        self.node.tally.error(kind, error);
    }
}
