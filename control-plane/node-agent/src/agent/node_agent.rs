//! All applications of a node.

use super::app::Running;
use super::member::{Id, Wanted};
use super::node::Node;
use super::status::Status;
use super::tally::{self, Tally};
use super::timing::CHECK_STEPS;
use crate::cgroup::{GroupError, Tree, Version};
use crate::config::{AppName, Config, Mode};
use crate::cores::Cores;
use crate::originals::Originals;
use crate::pods::Pod;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The agent of a node.
#[derive(Debug)]
pub struct Agent {
    node: Node,
    /// None until there was a good one.
    config: Option<Config>,
    /// None until a source has told them.
    pods: Option<Arc<Vec<Pod>>>,
    apps: BTreeMap<AppName, Running>,
    steps: u64,
    /// The time of the last step.
    now: Duration,
}

impl Agent {
    /// An agent that manages nothing yet, on a node with so many cores. The originals of an
    /// earlier one are in `originals`.
    pub fn new(tree: Tree, originals: Originals, cores: Cores) -> Self {
        let node = Node {
            tree,
            originals,
            tally: Tally::default(),
            cores,
            enforcing: false,
            override_limits: false,
            unplaced: false,
        };
        Self { node, config: None, pods: None, apps: BTreeMap::new(), steps: 0, now: Duration::ZERO }
    }

    /// Takes a configuration. What is no longer managed gets its original quotas.
    pub fn set_config(&mut self, config: Config) {
        let enforcing = config.mode == Mode::Enforce;
        if enforcing != self.node.enforcing {
            if self.node.enforcing {
                self.restore();
            }
            // What an observer has computed is not in force.
            self.apps.clear();
        }
        self.node.enforcing = enforcing;
        self.node.override_limits = config.override_limits;
        for (name, running) in &mut self.apps {
            match config.apps.get(name) {
                Some(app) => running.configure(app),
                None => running.remove_all(&mut self.node, self.now),
            }
        }
        self.apps.retain(|name, _| config.apps.contains_key(name));
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
        for running in self.apps.values_mut() {
            if check {
                running.check(&mut self.node, now);
            }
            running.step(&mut self.node, now);
        }
        if check && self.node.originals.is_changed() {
            self.node.save();
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
                let least = app.floor.max(container.requests).min(self.node.cores);
                wanted.entry(name).or_default().insert(id, Wanted { pod, container, least });
            }
        }
        // First what goes, so that a container that changes its application is put back before.
        let none = BTreeMap::new();
        for (name, running) in &mut self.apps {
            running.keep(&mut self.node, self.now, wanted.get(name).unwrap_or(&none));
        }
        self.node.unplaced = false;
        for (name, app) in &config.apps {
            let running = self.apps.entry(name.clone()).or_insert_with(|| Running::new(name, app));
            let missing = running.add(&mut self.node, wanted.get(name).unwrap_or(&none));
            self.node.unplaced |= missing;
        }
        self.put_back_others();
    }

    /// What an earlier agent has changed, and this one does not manage, gets its original quota.
    fn put_back_others(&mut self) {
        let kept: BTreeSet<PathBuf> = if self.node.enforcing {
            self.apps.values().flat_map(Running::paths).cloned().collect()
        } else {
            BTreeSet::new()
        };
        if self.node.originals.has_others(&kept) {
            let errors = self.node.originals.restore(&self.node.tree, &kept);
            self.ended(&errors);
        }
    }

    /// Gives each group the larger of its original quota and what it has: nothing is taken, and no
    /// agent is needed any more.
    ///
    /// Returns what went wrong.
    pub fn release(&mut self) -> Vec<GroupError> {
        self.end();
        let mut errors = Vec::new();
        if !self.node.originals.is_empty() {
            errors = self.node.originals.release(&self.node.tree);
            self.ended(&errors);
        }
        errors
    }

    /// Gives each group its original quota.
    ///
    /// Returns what went wrong.
    pub fn restore(&mut self) -> Vec<GroupError> {
        self.end();
        let mut errors = Vec::new();
        if !self.node.originals.is_empty() {
            errors = self.node.originals.restore(&self.node.tree, &BTreeSet::new());
            self.ended(&errors);
        }
        errors
    }

    /// Forgets all containers, after a last look at who else has written.
    fn end(&mut self) {
        for mut running in std::mem::take(&mut self.apps).into_values() {
            running.check(&mut self.node, self.now);
        }
    }

    fn ended(&mut self, errors: &[GroupError]) {
        // Once more with the next look.
        self.node.unplaced |= !errors.is_empty();
        for error in errors {
            self.node.tally.error(tally::WRITE, error);
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

    /// What the metrics show. Shares and uses are those since the last call.
    pub fn status(&mut self) -> Status {
        let apps = self.apps.iter_mut().map(|(name, running)| (name.to_string(), running.status(&self.node)));
        Status {
            apps: apps.collect(),
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
