//! Grants and limits of an application's memory.

use super::member::{Id, Member};
use super::memory_app::{MemoryApp, Use};
use super::node::Node;
use super::resource::Resource;
use super::tally;
use super::timing::UNREAD_CHECKS;
use crate::bytes::Bytes;
use crate::cgroup::{Limits, Usage, Version};
use crate::memory::{RECLAIM, Rule};
use crate::setting::Setting;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a container's further alarms wait after one that brought nothing: only page cache was
/// at the limit, or nobody had memory to give.
const QUIET: Duration = Duration::from_millis(250);
/// How old a container's use may be when memory is taken from it.
const FRESH: Duration = Duration::from_millis(20);

impl MemoryApp {
    /// Checks all containers: foreign writes, use, and grants.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        self.groups.check(node, now);
        self.read(node, now, true);
        self.admit(node);
        let limit = self.limit(node, |id| self.memory.of(id).is_some());
        let managed = self.groups.members.keys().any(|id| self.memory.of(id).is_some());
        if managed && limit != self.memory.limit() {
            match self.memory.set_limit(limit) {
                Ok(()) => self.groups.refused = false,
                Err(why) => self.groups.refuse(node, why),
            }
        }
        if now.saturating_sub(self.reclaimed) >= RECLAIM {
            self.reclaimed = now;
            self.memory.reclaim(&self.uses());
        } else {
            self.memory.observe(&self.uses());
        }
        let managed: Vec<Id> = self.managed().map(|(id, _)| id.clone()).collect();
        for id in &managed {
            self.serve(id);
        }
        self.apply(node, now);
    }

    /// Serves a container that is at its limit.
    pub(super) fn ask(&mut self, node: &mut Node, now: Duration, id: &Id) {
        let Some(member) = self.groups.members.get_mut(id).filter(|member| member.is_managed()) else { return };
        member.more.asked = now < member.more.quiet;
        if member.more.asked {
            return;
        }
        match member.group.memory_usage() {
            Ok(usage) => member.more.last = usage,
            Err(error) if error.is_gone() => return self.lose(node, now, id),
            Err(error) => return node.tally.error(tally::READ, &error),
        }
        let lacks = self.lacks(id);
        // A grant is a whole step.
        if lacks + self.config.rule.step > self.memory.pool() && now.saturating_sub(self.read) >= FRESH {
            // Memory that is in use by now must not be taken.
            self.read(node, now, false);
            self.memory.observe(&self.uses());
        }
        if (lacks == Bytes::ZERO || !self.serve(id))
            && let Some(member) = self.groups.members.get_mut(id)
        {
            member.more.quiet = now + QUIET;
        }
        self.apply(node, now);
    }

    pub(super) fn step(&mut self, node: &mut Node, now: Duration) {
        let due = |more: &Use| more.asked && more.quiet <= now;
        let asked: Vec<Id> = self.managed().filter(|(_, member)| due(&member.more)).map(|(id, _)| id.clone()).collect();
        for id in &asked {
            self.ask(node, now, id);
        }
    }

    /// What a container's limit lacks to be a step above its use.
    fn lacks(&self, id: &Id) -> Bytes {
        let used = self.groups.members.get(id).map(|member| member.more.last.working_set());
        used.zip(self.memory.of(id)).map_or(Bytes::ZERO, |(used, limit)| used + self.config.rule.step - limit)
    }

    /// Grants a container what it lacks. Returns whether it got something.
    fn serve(&mut self, id: &Id) -> bool {
        let Some(used) = self.groups.members.get(id).map(|member| member.more.last.working_set()) else {
            return false;
        };
        let mut granted = false;
        while self.lacks(id) > Bytes::ZERO {
            let before = self.memory.of(id);
            self.memory.grant(id, used);
            if self.memory.of(id) == before {
                break;
            }
            granted = true;
        }
        let short = self.lacks(id) > Bytes::ZERO;
        self.grants += u64::from(granted);
        self.refused_grants += u64::from(short);
        if let Some(member) = self.groups.members.get_mut(id) {
            member.more.short = short;
        }
        granted
    }

    /// Reads the use of all containers. `counts`: whether failures count towards a pause.
    fn read(&mut self, node: &mut Node, now: Duration, counts: bool) {
        self.read = now;
        let (mut gone, mut unread) = (Vec::new(), Vec::new());
        for (id, member) in &mut self.groups.members {
            match member.group.memory_usage() {
                Ok(usage) => {
                    (member.more.last, member.unread) = (usage, 0);
                    member.resume(now);
                }
                Err(error) if error.is_gone() => gone.push(id.clone()),
                Err(error) => {
                    node.tally.error(tally::READ, &error);
                    member.unread += u32::from(counts);
                    if counts && member.unread == UNREAD_CHECKS {
                        unread.push(id.clone());
                    }
                }
            }
        }
        if counts {
            self.count_kills(node.tree.version());
        }
        for id in &gone {
            self.lose(node, now, id);
        }
        for id in &unread {
            self.groups.pause(node, now, id);
        }
    }

    /// Version 2 also counts for the pod: a container's group may be removed with its process.
    fn count_kills(&mut self, version: Version) {
        for (uid, pod) in self.groups.pods() {
            let containers = self.groups.members.iter().filter(|(id, _)| id.uid == *uid);
            let kills = match version {
                Version::V1 => Some(containers.map(|(_, member)| member.more.last.oom_kills).sum()),
                Version::V2 => pod.memory_usage().ok().map(|usage| usage.oom_kills),
            };
            if let Some(kills) = kills {
                self.kills.insert(uid.clone(), kills);
            }
        }
    }

    pub(super) fn managed(&self) -> impl Iterator<Item = (&Id, &Member<Limits, Use>)> {
        self.groups.members.iter().filter(|(_, member)| member.is_managed())
    }

    fn uses(&self) -> BTreeMap<Id, Bytes> {
        let read = self.managed().filter(|(_, member)| member.unread == 0);
        read.map(|(id, member)| (id.clone(), member.more.last.working_set())).collect()
    }

    /// Writes the limits that differ from the files, falling ones first.
    fn apply(&mut self, node: &mut Node, now: Duration) {
        if !node.enforcing {
            return;
        }
        let (version, rule) = (node.tree.version(), self.config.rule);
        let cache = &mut node.cache;
        let mut changes: Vec<(bool, Id, Limits)> = self
            .managed()
            .filter_map(|(id, member)| {
                let to = target(version, rule, member, self.memory.of(id)?, cache);
                differs(to, member.written).then(|| (to.is_above(member.written), id.clone(), to))
            })
            .collect();
        changes.sort_by_key(|(rises, ..)| *rises);
        for (_, id, to) in &changes {
            if self.groups.change(node, now, id, *to) {
                self.lose(node, now, id);
            } else {
                self.watch(node, id);
            }
        }
    }

    fn watch(&mut self, node: &mut Node, id: &Id) {
        let Some(member) = self.groups.members.get_mut(id).filter(|member| member.is_managed()) else { return };
        let Some(limit) = self.memory.of(id) else { return };
        // Version 1 watches one limit.
        if node.tree.version() == Version::V1 || !member.more.watched {
            member.more.watched = node.watch(id, &member.group, limit);
        }
    }
}

/// The smallest change that is written: the kernel counts in pages.
const LEAST_CHANGE: Bytes = Bytes::mebi(1);

/// The limits to be written for a container. `cache` is how much page cache may still be reclaimed.
fn target(version: Version, rule: Rule, member: &Member<Limits, Use>, limit: Bytes, cache: &mut Bytes) -> Limits {
    let Use { last: Usage { total, clean, .. }, short, .. } = member.more;
    let max = limit + rule.step;
    let max = match member.written.max {
        Some(now) if now <= max => max,
        // It falls only as far as page cache has been reclaimed.
        Some(now) => max.max(total + rule.step).min(now),
        None => max.max(total + rule.step),
    };
    let high = match version {
        Version::V1 => None,
        // A container that is only throttled and gets no more would hang.
        Version::V2 if short => Some(max),
        Version::V2 => {
            let taken = (total - limit).min(clean).min(*cache);
            *cache -= taken;
            // What has been reclaimed is not given back.
            let most = member.written.high.unwrap_or(max).max(limit);
            Some(limit.max(total - taken).min(most))
        }
    };
    Limits { max: Some(max), high }
}

fn differs(to: Limits, now: Limits) -> bool {
    let differs = |to: Option<Bytes>, now: Option<Bytes>| match (to, now) {
        (Some(to), Some(now)) => to - now >= LEAST_CHANGE || now - to >= LEAST_CHANGE,
        (to, now) => to != now,
    };
    differs(to.max, now.max) || differs(to.high, now.high)
}
