//! The memory of an application: who needs more, and who needs less.

use super::member::{Id, Member, Phase};
use super::memory_app::{MemoryApp, Use};
use super::memory_files::{differs, target};
use super::node::Node;
use super::resource::Resource;
use super::tally;
use super::timing::UNREAD_CHECKS;
use crate::bytes::Bytes;
use crate::cgroup::{Limits, Version};
use crate::memory::RECLAIM;
use crate::setting::Setting;
use std::collections::BTreeMap;
use std::time::Duration;

/// A container that has asked for memory which it does not need, or which nobody has, is not looked
/// at again for so long: its page cache is at the limit.
const QUIET: Duration = Duration::from_millis(250);
/// How old the use of those that are to give may be.
const FRESH: Duration = Duration::from_millis(20);

impl MemoryApp {
    /// Looks at all containers: who has written their limits, what they use, and who needs more.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        self.groups.check(node, now);
        self.read(node, now, true);
        self.admit(node);
        let limit = self.limit(node, |id| self.memory.of(id).is_some());
        let managed = self.groups.members.keys().any(|id| self.memory.of(id).is_some());
        if managed && limit != self.memory.limit() {
            match self.memory.set_limit(limit) {
                Ok(_) => self.refused = None,
                Err(refused) => self.refuse(node, refused),
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

    /// A container is at its limit.
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
            // Whoever is to give must not be taken what it uses by now.
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

    /// Looks at those that have asked while there was time.
    pub(super) fn step(&mut self, node: &mut Node, now: Duration) {
        let due = |more: &Use| more.asked && more.quiet <= now;
        let asked: Vec<Id> = self.managed().filter(|(_, member)| due(&member.more)).map(|(id, _)| id.clone()).collect();
        for id in &asked {
            self.ask(node, now, id);
        }
    }

    /// What a container needs to have a step above its use.
    fn lacks(&self, id: &Id) -> Bytes {
        let used = self.groups.members.get(id).map(|member| member.more.last.working_set());
        used.zip(self.memory.of(id)).map_or(Bytes::ZERO, |(used, limit)| used + self.config.rule.step - limit)
    }

    /// Grants a container what it lacks. Returns whether it got anything.
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

    /// Reads what all use. `counts`: whether failures count towards a pause.
    fn read(&mut self, node: &mut Node, now: Duration, counts: bool) {
        self.read = now;
        let (mut gone, mut unread) = (Vec::new(), Vec::new());
        for (id, member) in &mut self.groups.members {
            match member.group.memory_usage() {
                Ok(usage) => {
                    (member.more.last, member.unread) = (usage, 0);
                    if matches!(member.phase, Phase::Paused { until } if until <= now) {
                        member.phase = Phase::Joining;
                    }
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
        // Nobody knows what it needs.
        for id in &unread {
            self.groups.pause(node, now, id);
        }
    }

    /// Version 2 counts in the pod what happens in its containers, and there it stays: the group of
    /// a container may go with its process.
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

    /// What those use that could be read.
    fn uses(&self) -> BTreeMap<Id, Bytes> {
        let read = self.managed().filter(|(_, member)| member.unread == 0);
        read.map(|(id, member)| (id.clone(), member.more.last.working_set())).collect()
    }

    /// Writes the limits that differ from what is in the files: those that fall first.
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

    /// Hears when a container is at its limit.
    fn watch(&mut self, node: &mut Node, id: &Id) {
        let Some(member) = self.groups.members.get_mut(id).filter(|member| member.is_managed()) else { return };
        let Some(limit) = self.memory.of(id) else { return };
        // Version 1 has to be told the limit.
        if node.tree.version() == Version::V1 || !member.more.watched {
            member.more.watched = node.watch(id, &member.group, limit);
        }
    }
}
