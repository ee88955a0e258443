//! The CPU shares of an application on this node.
//!
//! Pods of different parents, such as guaranteed and burstable ones, do not wait for each other's
//! CPU on the same level. So each parent has an account of its own.

use super::groups::Groups;
use super::member::{Id, Member, Phase, Wanted};
use super::node::Node;
use super::pod_group::{More, PodGroup};
use super::resource::Resource;
use super::status::{AppQos, ContainerQos, Which};
use crate::cgroup::{GroupError, Tree, Version, Weight, locate};
use crate::config::{AppConfig, AppName, QosConfig};
use crate::cores::Cores;
use crate::pods::Pod;
use crate::qos::{Answers, App, LEAST, Start};
use crate::report::PodName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shares for a core that is requested.
const PER_CORE: f64 = 1_024.0;
/// What runtimes take for one unit of weight of version 2, in shares: nobody has less there.
const LEAST_WEIGHT: f64 = 262_142.0 / 9_999.0;

/// What is known of a container's shares.
#[derive(Debug)]
pub(super) struct Share {
    /// The directory of its pod's group.
    parent: PathBuf,
    requests: Cores,
    /// What the other containers of its pod have themselves that are not the application's.
    beside: f64,
    /// What it has more than its own, or less; counts while it is managed.
    moved: f64,
}

impl Member<Weight, Share> {
    /// What its `requests` give. Version 1 says so.
    fn own(&self) -> f64 {
        own(Some(self.original), self.more.requests)
    }

    /// The part of its own below which nothing falls in the file.
    fn least_part(&self) -> f64 {
        self.original.least() / self.original.get() as f64
    }
}

fn own(original: Option<Weight>, requests: Cores) -> f64 {
    match original {
        Some(Weight::Shares(shares)) => shares as f64,
        Some(Weight::Weight(_)) => (requests.get() * PER_CORE).max(LEAST_WEIGHT),
        None => (requests.get() * PER_CORE).max(LEAST),
    }
}

impl More<Weight> for Share {
    /// Pods compete by the weights of their own groups: a pod has as much more as its containers.
    fn of_pod<'a>(
        pod: &PodGroup<Weight>,
        containers: impl Iterator<Item = (&'a Member<Weight, Self>, Weight)>,
    ) -> Weight {
        let (mut own, mut moved, mut beside) = (0.0, 0.0, 0.0);
        for (member, _) in containers {
            own += member.own();
            moved += if member.is_managed() { member.more.moved } else { 0.0 };
            beside = member.more.beside;
        }
        let all = own + beside;
        pod.original.times((all + moved) / all)
    }
}

/// The CPU shares of an application.
#[derive(Debug)]
pub(super) struct QosApp {
    config: QosConfig,
    namespace: String,
    /// By the directory of the pods' groups.
    apps: BTreeMap<PathBuf, App<Id>>,
    groups: Groups<Weight, Share>,
}

impl Resource for QosApp {
    type Setting = Weight;
    type More = Share;
    type Config = QosConfig;

    fn config_of(app: &AppConfig) -> Option<&QosConfig> {
        app.qos.as_ref()
    }

    fn new(name: &AppName, config: &QosConfig, _: Duration) -> Self {
        Self {
            config: *config,
            namespace: name.namespace().to_owned(),
            apps: BTreeMap::new(),
            groups: Groups::new(name.to_string(), "CPU shares"),
        }
    }

    fn configure(&mut self, config: &QosConfig) {
        self.config = *config;
        for app in self.apps.values_mut() {
            app.set_rule(config.rule);
        }
    }

    fn groups(&self) -> &Groups<Weight, Share> {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut Groups<Weight, Share> {
        &mut self.groups
    }

    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError> {
        let Some(located) = locate(&node.tree, &id.uid, &id.id) else { return Ok(false) };
        let parent = located.pod.parent().map(Path::to_owned).unwrap_or_default();
        let share = Share { parent, requests: new.container.requests, beside: 0.0, moved: 0.0 };
        self.groups.find(node, id, new, &located, share)?;
        Ok(true)
    }

    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>) {
        let beside = self.beside(&node.tree, new.pod);
        let Some(member) = self.groups.members.get_mut(id) else { return };
        member.more.beside = beside;
        let before = member.own();
        member.more.requests = new.container.requests;
        if member.own() != before && member.is_managed() {
            // It comes anew.
            member.phase = Phase::Joining;
        }
    }

    fn detach(&mut self, _: &mut Node, id: &Id) {
        let Some(member) = self.groups.members.get_mut(id) else { return };
        member.more.moved = 0.0;
        if let Some(app) = self.apps.get_mut(&member.more.parent) {
            app.detach(id);
        }
    }
}

impl QosApp {
    /// What the containers of a pod that are not the application's, or do not run yet, have
    /// themselves, together.
    fn beside(&self, tree: &Tree, pod: &Pod) -> f64 {
        let mut beside = 0.0;
        for container in &pod.containers {
            let id = Id::new(pod, container);
            if self.groups.members.contains_key(&id) {
                continue;
            }
            let original = match tree.version() {
                Version::V1 => locate(tree, &id.uid, &id.id).and_then(|at| tree.group(at.container).weight().ok()),
                Version::V2 => None,
            };
            beside += own(original, container.requests);
        }
        beside
    }

    /// Once a second: who has written, who comes and goes, who is late; then writes.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        for id in &self.groups.check(node, now) {
            self.lose(node, now, id);
        }
        for (id, member) in &mut self.groups.members {
            if matches!(member.phase, Phase::Paused { until } if until <= now) {
                member.phase = Phase::Joining;
            }
            // What it had of others, they need; what they had of it, it has.
            if !member.is_managed()
                && let Some(app) = self.apps.get_mut(&member.more.parent)
            {
                app.detach(id);
            }
        }
        // With this part of its own it gets what it requests, whatever the others want.
        let least = (node.requested.get() / node.capacity.cores.get()).min(1.0);
        self.admit(node);
        for (id, member) in &self.groups.members {
            if let Some(app) = self.apps.get_mut(&member.more.parent) {
                app.set_least(id, member.own() * least.max(member.least_part()));
            }
        }
        for app in self.apps.values_mut() {
            app.step();
        }
        self.apply(node, now);
    }

    /// Takes containers into the account of their parent, with their own.
    fn admit(&mut self, node: &mut Node) {
        let joins = |(_, member): &(&Id, &Member<_, _>)| member.phase == Phase::Joining;
        let ready: Vec<Id> = self.groups.members.iter().filter(joins).map(|(id, _)| id.clone()).collect();
        if ready.is_empty() {
            return;
        }
        // The originals must be kept before the first change.
        if node.enforcing && !self.groups.remember(node, ready.iter()) {
            // One may have what it was given before.
            ready.iter().for_each(|id| self.groups.raise(node, id));
            return;
        }
        for id in &ready {
            if let Some(member) = self.groups.members.get_mut(id) {
                member.manage();
                let app = self.apps.entry(member.more.parent.clone()).or_insert_with(|| App::new(self.config.rule));
                app.attach(id.clone(), Start { own: member.own(), least: member.own() });
            }
        }
    }

    /// Writes what differs from what is in the files.
    fn apply(&mut self, node: &mut Node, now: Duration) {
        let (mut changes, mut paused) = (Vec::new(), Vec::new());
        for (id, member) in &mut self.groups.members {
            match member.phase {
                Phase::Joining => {}
                Phase::Paused { .. } => paused.push(id.clone()),
                Phase::Managed => {
                    let own = member.own();
                    let shares = self.apps.get(&member.more.parent).and_then(|app| app.shares(id)).unwrap_or(own);
                    member.more.moved = shares - own;
                    changes.push((id.clone(), member.original.times(shares / own)));
                }
            }
        }
        if !node.enforcing {
            return;
        }
        // What falls goes first, so that the sum is not above what it was.
        changes
            .sort_by_key(|(id, to)| self.groups.members.get(id).is_some_and(|member| to.get() > member.written.get()));
        for (id, to) in changes {
            if self.groups.change(node, now, &id, to) {
                self.lose(node, now, &id);
            }
        }
        // Their pods have what others of the application had given them, or the other way round.
        for id in &paused {
            self.groups.follow(node, id);
        }
    }

    /// Its pods, for whose response times the control plane is asked.
    pub(super) fn pods(&self) -> impl Iterator<Item = PodName> {
        let name = |pod: &String| PodName { namespace: self.namespace.clone(), name: pod.clone() };
        self.groups.members.values().map(move |member| name(&member.pod))
    }

    /// A pod has answered so much more.
    pub(super) fn answered(&mut self, pod: &PodName, more: Answers) {
        if pod.namespace != self.namespace {
            return;
        }
        for (id, member) in self.groups.members.iter().filter(|(_, member)| member.pod == pod.name) {
            if let Some(app) = self.apps.get_mut(&member.more.parent) {
                app.count(id, more);
            }
        }
    }

    /// What the metrics show.
    pub(super) fn status(&self) -> AppQos {
        let container = |(id, member): (&Id, &Member<Weight, Share>)| {
            let requested = member.own();
            ContainerQos {
                which: Which::of(member),
                shares: requested + if member.is_managed() { member.more.moved } else { 0.0 },
                requested,
                response: self.apps.get(&member.more.parent).and_then(|app| app.response(id)),
            }
        };
        AppQos { target: self.config.rule.target, containers: self.groups.members.iter().map(container).collect() }
    }
}
