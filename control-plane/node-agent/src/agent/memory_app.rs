//! The memory of an application on this node.

use super::groups::Groups;
use super::member::{Id, Member, More, Phase, Wanted};
use super::node::Node;
use super::resource::{Resource, groups};
use super::status::{AppMemory, ContainerMemory, Which};
use crate::bytes::Bytes;
use crate::cgroup::{GroupError, Limits, Usage, locate};
use crate::config::{AppConfig, AppName, MemoryConfig};
use crate::memory::{App, Refused, Start};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Use {
    /// The guaranteed minimum.
    pub(super) least: Bytes,
    pub(super) last: Usage,
    /// Whether nobody could give what it needs.
    pub(super) short: bool,
    /// Whether an alarm waits for `quiet` to pass.
    pub(super) asked: bool,
    pub(super) quiet: Duration,
    /// Whether there is an alarm for its limit.
    pub(super) watched: bool,
}

#[derive(Debug)]
pub(super) struct MemoryApp {
    pub(super) config: MemoryConfig,
    pub(super) memory: App<Id>,
    pub(super) groups: Groups<Limits, Use>,
    /// When unused memory was last reclaimed.
    pub(super) reclaimed: Duration,
    /// When the use of all containers was last read.
    pub(super) read: Duration,
    pub(super) grants: u64,
    pub(super) refused_grants: u64,
    /// Processes that the kernel killed in each pod, by uid.
    pub(super) kills: BTreeMap<String, u64>,
}

impl More<Limits> for Use {}

impl Resource for MemoryApp {
    type Setting = Limits;
    type More = Use;
    type Config = MemoryConfig;

    fn config_of(app: &AppConfig) -> Option<&MemoryConfig> {
        app.memory.as_ref()
    }

    fn new(name: &AppName, config: &MemoryConfig, now: Duration) -> Self {
        Self {
            config: config.clone(),
            memory: App::new(config.rule, config.limit),
            groups: Groups::new(name.to_string(), "memory limit"),
            reclaimed: now,
            read: now,
            grants: 0,
            refused_grants: 0,
            kills: BTreeMap::new(),
        }
    }

    /// The limit applies from the next [`Self::check`] at which it has room for all minimums.
    fn configure(&mut self, config: &MemoryConfig) {
        if *config != self.config {
            self.memory.set_rule(config.rule);
            self.config = config.clone();
            self.groups.refused = false;
        }
    }

    groups!();

    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError> {
        let Some(located) = locate(&node.tree, &id.uid, &id.id) else { return Ok(false) };
        let last = node.tree.group(&located.container).memory_usage()?;
        let least = least(node, new);
        let more = Use { least, last, short: false, asked: false, quiet: Duration::ZERO, watched: false };
        self.groups.find(node, id, new, &located, more)?;
        Ok(true)
    }

    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>) {
        let least = least(node, new);
        if let Some(member) = self.groups.members.get_mut(id).filter(|member| member.more.least != least) {
            member.more.least = least;
            member.join_again();
        }
    }

    fn detach(&mut self, node: &mut Node, id: &Id) {
        node.forget(id);
        if !self.groups.members.keys().any(|other| other.uid == id.uid && other != id) {
            self.kills.remove(&id.uid);
        }
        self.memory.detach(id);
    }
}

fn least(node: &Node, new: &Wanted<'_>) -> Bytes {
    new.container.memory.min(node.capacity.memory)
}

impl MemoryApp {
    pub(super) fn has(&self, id: &Id) -> bool {
        self.groups.members.contains_key(id)
    }

    pub(super) fn admit(&mut self, node: &mut Node) {
        let capacity = node.capacity.memory;
        let ready: Vec<(Id, Start)> = self
            .groups
            .members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Joining)
            .map(|(id, member)| {
                let used = member.more.last.working_set();
                (id.clone(), Start { used, least: member.more.least, most: capacity })
            })
            .collect();
        if ready.is_empty() {
            return;
        }
        let outcome = self.attach(node, &ready);
        // Later containers need not wait for each other.
        if outcome.is_err() && self.managed().next().is_some() {
            for one in &ready {
                if let Ok(true) = self.attach(node, std::slice::from_ref(one)) {
                    self.manage(&one.0);
                }
            }
        } else if let Ok(true) = outcome {
            ready.iter().for_each(|(id, _)| self.manage(id));
        }
        match outcome {
            Ok(true) => self.groups.refused = false,
            Ok(false) => {}
            Err(why) => self.groups.refuse(node, why),
        }
        for (id, _) in &ready {
            if self.groups.members.get(id).is_some_and(|member| !member.is_managed()) {
                // It may have a limit from an earlier agent, or from before a pause.
                self.groups.raise(node, id);
            }
        }
    }

    fn manage(&mut self, id: &Id) {
        if let Some(member) = self.groups.members.get_mut(id) {
            member.manage();
        }
    }

    /// Returns whether the originals could be saved, which must precede the first change.
    fn attach(&mut self, node: &mut Node, ready: &[(Id, Start)]) -> Result<bool, Refused> {
        let is_new = |id: &Id| ready.iter().any(|(new, _)| new == id);
        let limit = self.limit(node, |id| is_new(id) || self.memory.of(id).is_some());
        let mut memory = self.memory.clone();
        memory.set_limit(limit)?;
        // What an earlier agent granted may leave no room for margins.
        if self.groups.has_known(ready) {
            memory.take_over(ready)?
        } else {
            memory.attach(ready)?
        };
        if node.enforcing && !self.groups.remember(node, ready.iter().map(|(id, _)| id)) {
            return Ok(false);
        }
        self.memory = memory;
        Ok(true)
    }

    /// The limit for these containers: at most the sum of what their pods had originally.
    pub(super) fn limit(&self, node: &Node, of: impl Fn(&Id) -> bool) -> Bytes {
        self.groups.limit(node, self.config.limit, |limits| limits.max, of)
    }

    pub(super) fn status(&self, node: &Node) -> AppMemory {
        let container = |(id, member): (&Id, &Member<Limits, Use>)| ContainerMemory {
            which: Which::of(member),
            limit: self.memory.of(id).filter(|_| member.is_managed() || !node.enforcing).or(member.written.max),
            used: member.more.last.working_set(),
        };
        let pods: BTreeMap<&String, &String> =
            self.groups.members.iter().map(|(id, member)| (&id.uid, &member.pod)).collect();
        let kills = pods.into_iter().map(|(uid, pod)| (pod.clone(), self.kills.get(uid).copied().unwrap_or(0)));
        AppMemory {
            limit: self.memory.limit(),
            pool: self.memory.pool(),
            grants: self.grants,
            refused_grants: self.refused_grants,
            oom_kills: kills.collect(),
            containers: self.groups.members.iter().map(container).collect(),
        }
    }
}
