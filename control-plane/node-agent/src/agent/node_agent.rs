//! All applications of a node.

use super::cpu_app::CpuApp;
use super::member::{Id, Wanted};
use super::memory_app::MemoryApp;
use super::node::{CACHE, Capacity, Node};
use super::qos_app::QosApp;
use super::resource::{self, Apps, Placed, Resource};
use super::status::{PodCpu, Status};
use super::tally::{self, Tally};
use super::timing::{ALARM_PAUSE, CHECK_STEPS};
use crate::cgroup::{Bandwidth, GroupError, Tree, Version};
use crate::config::{Config, Mode, Over};
use crate::cores::Cores;
use crate::lease::Leases;
use crate::pods::Pod;
use crate::qos::Answers;
use crate::report::PodName;
use crate::state::{Kept, KeptGroups, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a step goes on to restore: less than the silence for which the guardian kills. What is
/// left is tried again each second.
const IN_A_STEP: Duration = Duration::from_secs(2);
/// The same at the end, for which the guardian waits longer.
const AT_THE_END: Duration = Duration::from_secs(5);

/// The agent of a node.
#[derive(Debug)]
pub struct Agent {
    node: Node,
    /// None until there was a good one.
    config: Option<Config>,
    /// None until a source has told them.
    pods: Option<Arc<Vec<Pod>>>,
    cpu: Apps<CpuApp>,
    memory: Apps<MemoryApp>,
    qos: Apps<QosApp>,
    /// Who is at its limit of memory, and was not served yet.
    asking: BTreeSet<Id>,
    /// Whether each container was given to its application since the start.
    placed: bool,
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
            requested: Cores::ZERO,
            leases: None,
            enforcing: false,
            override_limits: false,
            unplaced: false,
        };
        Self {
            node,
            config: None,
            pods: None,
            cpu: Apps::new(),
            memory: Apps::new(),
            qos: Apps::new(),
            asking: BTreeSet::new(),
            placed: false,
            steps: 0,
            now: Duration::ZERO,
        }
    }

    /// Holds parts of limits over nodes, which are asked for and given back there.
    #[must_use]
    pub fn with_leases(mut self, leases: Option<Leases>) -> Self {
        self.node.leases = leases;
        self
    }

    /// Takes a configuration. What is no longer managed gets its original quotas.
    pub fn set_config(&mut self, config: Config) {
        let enforcing = config.mode == Mode::Enforce;
        if enforcing != self.node.enforcing {
            if self.node.enforcing {
                self.put_back(IN_A_STEP);
            }
            // What an observer has computed is not in force.
            self.cpu.clear();
            self.memory.clear();
            self.qos.clear();
        }
        self.node.enforcing = enforcing;
        self.node.override_limits = config.override_limits;
        resource::configure(&mut self.cpu, &mut self.node, self.now, &config);
        resource::configure(&mut self.memory, &mut self.node, self.now, &config);
        resource::configure(&mut self.qos, &mut self.node, self.now, &config);
        self.config = Some(config);
        self.node.unplaced = true;
    }

    /// Takes the pods that run on this node now.
    pub fn set_pods(&mut self, pods: Arc<Vec<Pod>>) {
        self.node.requested = pods.iter().flat_map(|pod| &pod.containers).map(|container| container.requests).sum();
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
        self.settle();
        self.node.cache = if check { CACHE } else { self.node.cache };
        for running in self.memory.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        if check {
            for running in self.qos.values_mut() {
                running.check(&mut self.node, now);
            }
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
        let mut wanted = Placed::new();
        for pod in pods.iter() {
            let Some((name, app)) = config.app_of(pod) else { continue };
            for container in pod.containers.iter().filter(|container| app.containers.has(&container.name)) {
                let id = Id::new(pod, container);
                wanted.entry(name).or_default().insert(id, Wanted { pod, container });
            }
        }
        // First what goes, so that a container that changes its application is put back before.
        resource::keep(&mut self.cpu, &mut self.node, self.now, &wanted);
        resource::keep(&mut self.memory, &mut self.node, self.now, &wanted);
        resource::keep(&mut self.qos, &mut self.node, self.now, &wanted);
        (self.node.unplaced, self.placed) = (false, true);
        resource::add(&mut self.cpu, &mut self.node, self.now, config, &wanted);
        resource::add(&mut self.memory, &mut self.node, self.now, config, &wanted);
        resource::add(&mut self.qos, &mut self.node, self.now, config, &wanted);
        self.put_back_others();
    }

    /// Says what is in use of limits over nodes. What no application uses is given back, once it is
    /// known who runs here.
    fn settle(&mut self) {
        let Some(leases) = self.node.leases.as_ref().filter(|_| self.placed) else { return };
        let of = |running: &CpuApp| Some((running.groups().app().to_owned(), running.lease_use(&self.node)?));
        let uses: BTreeMap<String, _> = self.cpu.values().filter_map(of).collect();
        if self.node.enforcing {
            let over = self.cpu.values().filter(|running| running.config.over == Over::Cluster);
            leases.meet(over.map(|running| running.groups().app()).filter(|name| !uses.contains_key(*name)));
        }
        // What could not be put back may have grown under a part.
        let kept = || if self.node.enforcing { resource::paths(&self.cpu) } else { BTreeSet::new() };
        leases.settle(uses, || <Bandwidth as Kept>::of(&self.node.state).has_others(&kept()));
    }

    /// What an earlier agent has changed, and this one does not manage, gets its original quota.
    fn put_back_others(&mut self) {
        let mut kept = KeptGroups::default();
        if self.node.enforcing {
            kept.cpu = resource::paths(&self.cpu);
            kept.memory = resource::paths(&self.memory);
            kept.shares = resource::paths(&self.qos);
        }
        if self.node.state.has_others(&kept) {
            let errors = self.node.state.restore(&self.node.tree, &kept);
            self.ended(&errors);
            if !self.node.enforcing {
                // It has put them back itself.
                resource::refresh(&mut self.cpu);
                resource::refresh(&mut self.memory);
                resource::refresh(&mut self.qos);
            }
        }
    }

    /// Gives each group the larger of its originals and what it has, and its own CPU shares:
    /// nothing is taken that it may need, and no agent is needed any more.
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
        self.put_back(AT_THE_END)
    }

    fn put_back(&mut self, patience: Duration) -> Vec<GroupError> {
        self.end();
        let mut errors = Vec::new();
        if !self.node.state.is_empty() {
            errors = self.node.state.restore_all(&self.node.tree, patience);
            self.ended(&errors);
        }
        errors
    }

    /// Forgets all containers, after a last look at who else has written.
    fn end(&mut self) {
        resource::end(&mut self.cpu, &mut self.node, self.now);
        resource::end(&mut self.memory, &mut self.node, self.now);
        resource::end(&mut self.qos, &mut self.node, self.now);
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

    /// What this node holds of limits over nodes.
    pub const fn leases(&self) -> Option<&Leases> {
        self.node.leases.as_ref()
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
        self.cpu.values().flat_map(|running| running.pods(&self.node))
    }

    /// The pods whose response times move shares.
    pub fn asks(&self) -> BTreeSet<PodName> {
        self.qos.values().flat_map(QosApp::pods).collect()
    }

    /// A pod has answered so much more; one that was not asked for does not count.
    pub fn answered(&mut self, pod: &PodName, more: Answers) {
        for running in self.qos.values_mut() {
            running.answered(pod, more);
        }
    }

    /// What the metrics show. Shares and uses are those since the last call.
    pub fn status(&mut self) -> Status {
        let cpu = self.cpu.iter_mut().map(|(name, running)| (name.to_string(), running.status(&self.node)));
        let memory = self.memory.iter().map(|(name, running)| (name.to_string(), running.status(&self.node)));
        let qos = self.qos.iter().map(|(name, running)| (name.to_string(), running.status()));
        Status {
            cpu: cpu.collect(),
            memory: memory.collect(),
            qos: qos.collect(),
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

    /// Counts an error outside of a step that somebody else logs.
    pub fn count(&mut self, kind: &'static str) {
        self.node.tally.count(kind);
    }

    /// Counts an error outside of a step, such as pods that cannot be read.
    pub fn count_error(&mut self, kind: &'static str, error: &dyn std::fmt::Display) {
        self.node.tally.error(kind, error);
    }
}
