//! An application on this node: its containers come and go.

use super::member::{Id, Member, Phase, Wanted};
use super::node::Node;
use super::pod_group::PodGroup;
use super::status::AppStatus;
use super::tally;
use super::timing::{JOIN_STEPS, PAUSE, UNREAD_STEPS};
use crate::cgroup::locate;
use crate::config::{AppConfig, AppName};
use crate::cores::Cores;
use crate::cpu::{App, Interval, Refused, Start};
use crate::originals::Kind;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// An application and its containers.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) name: String,
    config: AppConfig,
    pub(super) cpu: App<Id>,
    pub(super) members: BTreeMap<Id, Member>,
    pub(super) pods: BTreeMap<String, PodGroup>,
    /// Why containers are not under the limit, or why a new limit is not in force.
    refused: Option<Refused>,
}

impl Running {
    pub(super) fn new(name: &AppName, config: &AppConfig) -> Self {
        Self {
            name: name.to_string(),
            config: config.clone(),
            cpu: App::new(config.rule, config.limit),
            members: BTreeMap::new(),
            pods: BTreeMap::new(),
            refused: None,
        }
    }

    /// Takes a new configuration. The limit is in force with the next [`Self::check`] at which it
    /// leaves room for what the containers keep.
    pub(super) fn configure(&mut self, config: &AppConfig) {
        if *config != self.config {
            self.cpu.set_rule(config.rule);
            self.config = config.clone();
            self.refused = None;
        }
    }

    /// Puts containers back that are not wanted any more.
    pub(super) fn keep(&mut self, node: &mut Node, now: Duration, wanted: &BTreeMap<Id, Wanted<'_>>) {
        let gone: Vec<Id> = self.members.keys().filter(|id| !wanted.contains_key(id)).cloned().collect();
        for id in &gone {
            self.remove(node, now, id);
        }
    }

    /// Puts all containers back.
    pub(super) fn remove_all(&mut self, node: &mut Node, now: Duration) {
        self.keep(node, now, &BTreeMap::new());
    }

    /// The groups that it changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.members.values().map(|member| &member.path).chain(self.pods.values().map(|pod| &pod.path))
    }

    /// Takes the containers that are new. Returns whether a group was not found.
    pub(super) fn add(&mut self, node: &mut Node, wanted: &BTreeMap<Id, Wanted<'_>>) -> bool {
        let mut missing = false;
        for (id, new) in wanted {
            if let Some(member) = self.members.get_mut(id) {
                if member.least != new.least {
                    member.least = new.least;
                    // It comes anew, with what it has to keep now.
                    member.phase = if member.phase == Phase::Managed { Phase::JOINING } else { member.phase };
                }
                continue;
            }
            let Some(located) = locate(&node.tree, &id.uid, &id.id) else {
                missing = true;
                continue;
            };
            let (pod, container) = (node.tree.group(&located.pod), node.tree.group(&located.container));
            match (
                pod.bandwidth(),
                container.bandwidth(),
                pod.has_burst().and_then(|pods| Ok(pods || container.has_burst()?)),
            ) {
                (Ok(of_pod), Ok(of_container), Ok(false)) => {
                    let known = node.originals.has(&located.container);
                    let original = node.originals.take_over(&located.container, of_container);
                    let mut member = Member::new(new, container, located.container, original, of_container);
                    member.known = known;
                    self.members.insert(id.clone(), member);
                    self.pods.entry(id.uid.clone()).or_insert_with(|| PodGroup {
                        original: node.originals.take_over(&located.pod, of_pod),
                        group: pod,
                        path: located.pod,
                        written: of_pod,
                    });
                }
                (Ok(_), Ok(_), Ok(true)) => {
                    missing = true;
                    node.tally.error(tally::BURST, &located.container.display());
                }
                (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                    missing = true;
                    node.tally.error(tally::READ, &error);
                }
            }
        }
        missing
    }

    /// Reads the counters, decides, and writes.
    pub(super) fn step(&mut self, node: &mut Node, now: Duration) {
        let mut intervals = BTreeMap::new();
        let (mut gone, mut unread) = (Vec::new(), Vec::new());
        for (id, member) in &mut self.members {
            match member.read(now) {
                Ok(Some(interval)) => match &mut member.phase {
                    Phase::Managed => {
                        let quota = self.cpu.quota(id).unwrap_or_default();
                        intervals.insert(id.clone(), if node.enforcing { interval } else { would(interval, quota) });
                    }
                    Phase::Joining { steps, used } => {
                        *steps += 1;
                        *used += interval.used;
                    }
                    Phase::Paused { until } if *until <= now => member.phase = Phase::JOINING,
                    Phase::Paused { .. } => {}
                },
                Ok(None) => {}
                Err(error) if error.is_gone() => gone.push(id.clone()),
                Err(error) => {
                    node.tally.error(tally::READ, &error);
                    if member.unread == UNREAD_STEPS {
                        unread.push(id.clone());
                    }
                }
            }
        }
        for id in &gone {
            self.lose(node, now, id);
        }
        // Nobody knows what it needs.
        for id in &unread {
            self.pause(node, now, id);
        }
        // The changes are what differs from the files.
        self.cpu.step(&intervals);
        self.admit(node);
        self.apply(node, now);
    }

    /// Brings containers under the limit that were observed for long enough.
    fn admit(&mut self, node: &mut Node) {
        let ready: Vec<(Id, Start)> = self
            .members
            .iter()
            .filter_map(|(id, member)| match member.phase {
                Phase::Joining { steps, used } if steps >= JOIN_STEPS => {
                    Some((id.clone(), start(member, node, used * (1.0 / f64::from(steps)))))
                }
                _ => None,
            })
            .collect();
        if ready.is_empty() {
            return;
        }
        let (mut ready, mut refused) = (ready, Vec::new());
        let mut outcome = self.attach(node, &ready);
        // Those that must keep most keep the others out no longer.
        while matches!(outcome, Err(Refused::BelowFloors { .. }))
            && let Some(largest) = self.largest(&ready)
        {
            refused.push(ready.remove(largest));
            outcome = if ready.is_empty() { Ok(true) } else { self.attach(node, &ready) };
        }
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(why) => {
                self.refuse(node, why);
                false
            }
        };
        if admitted && refused.is_empty() {
            self.refused = None;
        }
        for (id, _) in &refused {
            let limit = self.cpu.limit();
            tracing::debug!(app = self.name, id = id.id, %limit, "must keep more than there is room for");
            node.tally
                .error(tally::LIMIT, &format!("{}: {} must keep more than {limit} has room for", self.name, id.id));
        }
        for (id, admitted) in
            ready.iter().map(|(id, _)| (id, admitted)).chain(refused.iter().map(|(id, _)| (id, false)))
        {
            if let Some(member) = self.members.get_mut(id) {
                member.phase = if admitted { Phase::Managed } else { Phase::JOINING };
                member.theirs &= !admitted;
                member.stuck &= !admitted;
            }
            if !admitted {
                // It may have a quota of an earlier agent, or of the time before a pause.
                self.raise(node, id);
            }
        }
    }

    /// Which of these must keep most, and more than the floor.
    fn largest(&self, ready: &[(Id, Start)]) -> Option<usize> {
        let above = ready.iter().enumerate().filter(|(_, (_, start))| start.least > self.config.floor);
        above.max_by(|(_, (_, a)), (_, (_, b))| a.least.get().total_cmp(&b.least.get())).map(|(index, _)| index)
    }

    /// Whether the originals could be kept, which must be so before the first change.
    fn attach(&mut self, node: &mut Node, ready: &[(Id, Start)]) -> Result<bool, Refused> {
        let is_new = |id: &Id| ready.iter().any(|(new, _)| new == id);
        let limit = self.limit(node, |id| is_new(id) || self.cpu.quota(id).is_some());
        let mut cpu = self.cpu.clone();
        for (id, start) in ready {
            cpu.set_least(id, start.least);
        }
        // What an earlier agent has released may use more than the limit.
        let known = ready.iter().any(|(id, _)| self.members.get(id).is_some_and(|member| member.known));
        cpu.set_limit(limit)?;
        if known {
            cpu.take_over(ready)?
        } else {
            cpu.attach(ready)?
        };
        if node.enforcing && !self.remember(node, ready) {
            return Ok(false);
        }
        self.cpu = cpu;
        Ok(true)
    }

    /// Makes the originals last, before the first change.
    fn remember(&self, node: &mut Node, ready: &[(Id, Start)]) -> bool {
        for (id, _) in ready {
            if let (Some(member), Some(pod)) = (self.members.get(id), self.pods.get(&id.uid)) {
                node.originals.remember(&pod.path, Kind::Pod, pod.original);
                node.originals.remember(&member.path, Kind::Container, member.original);
            }
        }
        node.save()
    }

    fn refuse(&mut self, node: &mut Node, refused: Refused) {
        if self.refused.is_none() {
            tracing::warn!(app = self.name, %refused, "the limit leaves no room");
        }
        self.refused = Some(refused);
        node.tally.error(tally::LIMIT, &format!("{}: {refused}", self.name));
    }

    /// The limit for these containers: at most the sum of what their pods had themselves.
    fn limit(&self, node: &Node, of: impl Fn(&Id) -> bool) -> Cores {
        if node.override_limits {
            return self.config.limit;
        }
        let own: Option<Cores> = self
            .pods
            .iter()
            .map(|(uid, pod)| {
                let containers = self.members.iter().filter(|(id, _)| id.uid == *uid && of(id));
                let sum: Option<Cores> = containers.map(|(_, member)| member.original.cores()).sum();
                match (pod.original.cores(), sum) {
                    (Some(pod), Some(sum)) => Some(pod.min(sum)),
                    (pod, sum) => pod.or(sum),
                }
            })
            .sum();
        own.map_or(self.config.limit, |own| own.min(self.config.limit))
    }

    /// Compares all quotas with what was written, and the limit in force with what it should be.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        let ids: Vec<Id> = self.members.keys().cloned().collect();
        for id in &ids {
            match self.is_ours(node, now, id) {
                Ok(_) => {}
                // The next reading removes it.
                Err(error) if error.is_gone() => {}
                Err(error) => node.tally.error(tally::READ, &error),
            }
            // What could not be raised at first.
            if self.members.get(id).is_some_and(|member| matches!(member.phase, Phase::Paused { .. })) {
                self.raise(node, id);
            }
        }
        let limit = self.limit(node, |id| self.cpu.quota(id).is_some());
        let managed = self.members.keys().any(|id| self.cpu.quota(id).is_some());
        if managed && limit != self.cpu.limit() {
            match self.cpu.set_limit(limit) {
                Ok(_) => self.refused = None,
                Err(refused) => self.refuse(node, refused),
            }
        }
    }

    /// Leaves a container alone, with at least its own quota.
    pub(super) fn pause(&mut self, node: &mut Node, now: Duration, id: &Id) {
        if let Some(member) = self.members.get_mut(id) {
            member.phase = Phase::Paused { until: now + PAUSE };
        }
        self.raise(node, id);
    }

    /// What the metrics show.
    pub(super) fn status(&mut self, node: &Node) -> AppStatus {
        let containers = self.members.iter_mut().map(|(id, member)| {
            let quota = self.cpu.quota(id).filter(|_| !node.enforcing);
            member.status(quota)
        });
        AppStatus { containers: containers.collect(), limit: self.cpu.limit(), free: self.cpu.free() }
    }
}

/// How a container with this use comes under the limit. It did not use more than it had.
fn start(member: &Member, node: &Node, used: Cores) -> Start {
    let used = member.written.cores().map_or(used, |quota| used.min(quota));
    Start { used, least: member.least, most: node.cores }
}

/// What a container would meet with this quota, which is not in force.
fn would(interval: Interval, quota: Cores) -> Interval {
    Interval { throttled: if interval.used > quota { 1.0 } else { interval.throttled }, ..interval }
}
