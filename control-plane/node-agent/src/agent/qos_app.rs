//! The CPU shares of an application on this node.
//!
//! Pods under different parent groups, such as guaranteed and burstable ones, do not compete on the
//! same level. Each parent therefore has its own account.

use super::groups::Groups;
use super::member::{Id, Member, More, Phase, PodGroup, Wanted};
use super::node::Node;
use super::resource::{Resource, groups};
use super::status::{AppQos, ContainerQos, Which};
use crate::cgroup::{GroupError, Tree, Version, Weight, locate};
use crate::config::{AppConfig, AppName};
use crate::cores::Cores;
use crate::pods::Pod;
use crate::qos::{Answers, App, LEAST, Rule, Start};
use crate::report::PodName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PER_CORE: f64 = 1_024.0;
/// The smallest version 2 weight in shares, as runtimes convert it.
const LEAST_WEIGHT: f64 = 262_142.0 / 9_999.0;

#[derive(Debug)]
pub(super) struct Share {
    /// The parent of its pod's group.
    parent: PathBuf,
    requests: Cores,
    /// The shares of the pod's containers that do not belong to the application.
    beside: f64,
    /// The difference from its own shares; counts only while managed.
    moved: f64,
}

impl Member<Weight, Share> {
    /// Its own shares, by its `requests`; version 1 has them in the file.
    fn own(&self) -> f64 {
        own(Some(self.original), self.more.requests)
    }

    /// The fraction of its own shares below which the file cannot go.
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
    /// Pods compete by the weights of their own groups: a pod gains or loses what its containers
    /// do.
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

#[derive(Debug)]
pub(super) struct QosApp {
    rule: Rule,
    namespace: String,
    apps: BTreeMap<PathBuf, App<Id>>,
    groups: Groups<Weight, Share>,
}

impl Resource for QosApp {
    type Setting = Weight;
    type More = Share;
    type Config = Rule;

    fn config_of(app: &AppConfig) -> Option<&Rule> {
        app.qos.as_ref()
    }

    fn new(name: &AppName, rule: &Rule, _: Duration) -> Self {
        Self {
            rule: *rule,
            namespace: name.namespace().to_owned(),
            apps: BTreeMap::new(),
            groups: Groups::new(name.to_string(), "CPU shares"),
        }
    }

    fn configure(&mut self, rule: &Rule) {
        self.rule = *rule;
        for app in self.apps.values_mut() {
            app.set_rule(*rule);
        }
    }

    groups!();

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
        if member.own() != before {
            member.join_again();
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
    /// The shares of a pod's containers that are not the application's or do not run yet.
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

    /// Once a second: looks for foreign writes, admits, moves shares, and writes.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        for id in &self.groups.check(node, now) {
            self.lose(node, now, id);
        }
        for (id, member) in &mut self.groups.members {
            member.resume(now);
            // The account is balanced without it.
            if !member.is_managed()
                && let Some(app) = self.apps.get_mut(&member.more.parent)
            {
                app.detach(id);
            }
        }
        // With this fraction of its own shares a container gets what it requests, whatever others
        // want.
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

    /// Adds containers to the account of their parent, with their own shares.
    fn admit(&mut self, node: &mut Node) {
        let joins = |(_, member): &(&Id, &Member<_, _>)| member.phase == Phase::Joining;
        let ready: Vec<Id> = self.groups.members.iter().filter(joins).map(|(id, _)| id.clone()).collect();
        if ready.is_empty() {
            return;
        }
        // The originals must be saved before the first change.
        if node.enforcing && !self.groups.remember(node, ready.iter()) {
            // They may have shares from an earlier agent.
            ready.iter().for_each(|id| self.groups.raise(node, id));
            return;
        }
        for id in &ready {
            if let Some(member) = self.groups.members.get_mut(id) {
                member.manage();
                let app = self.apps.entry(member.more.parent.clone()).or_insert_with(|| App::new(self.rule));
                app.attach(id.clone(), Start { own: member.own(), least: member.own() });
            }
        }
    }

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
        // Falls come first, so the sum never exceeds its old value.
        changes
            .sort_by_key(|(id, to)| self.groups.members.get(id).is_some_and(|member| to.get() > member.written.get()));
        for (id, to) in changes {
            if self.groups.change(node, now, &id, to) {
                self.lose(node, now, &id);
            }
        }
        // The pods of paused containers still have moved shares.
        for id in &paused {
            self.groups.follow(node, id);
        }
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = PodName> {
        let name = |pod: &String| PodName { namespace: self.namespace.clone(), name: pod.clone() };
        self.groups.members.values().map(move |member| name(&member.pod))
    }

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
        AppQos { target: self.rule.target, containers: self.groups.members.iter().map(container).collect() }
    }
}
