//! The groups of an application, and one resource in their files.

use super::member::{Id, Member, More, Phase, PodGroup, Wanted};
use super::node::Node;
use super::tally;
use super::timing::PAUSE;
use crate::cgroup::{Group, GroupError, Located};
use crate::originals::Kind;
use crate::state::Kept;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::iter::Sum;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Groups<S, M> {
    app: String,
    /// The resource, for the log.
    what: &'static str,
    /// Whether containers, or a new limit, were refused at the last attempt.
    pub(super) refused: bool,
    pub(super) members: BTreeMap<Id, Member<S, M>>,
    pods: BTreeMap<String, PodGroup<S>>,
}

impl<S: Kept, M: More<S>> Groups<S, M> {
    pub(super) const fn new(app: String, what: &'static str) -> Self {
        Self { app, what, refused: false, members: BTreeMap::new(), pods: BTreeMap::new() }
    }

    /// Counts a refusal of containers or of a limit; logs the first of several.
    pub(super) fn refuse(&mut self, node: &mut Node, why: impl Display) {
        if !self.refused {
            tracing::warn!(app = self.app, %why, "cannot apply the application's {}", self.what);
        }
        self.refused = true;
        node.tally.error(tally::LIMIT, &format!("{}: {}: {why}", self.app, self.what));
    }

    pub(super) fn app(&self) -> &str {
        &self.app
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.members.values().map(|member| &member.path).chain(self.pods.values().map(|pod| &pod.path))
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = (&String, &Group)> {
        self.pods.iter().map(|(uid, pod)| (uid, &pod.group))
    }

    /// Whether a container or its pod may save unused CPU for later.
    pub(super) fn has_burst(&self, id: &Id) -> bool {
        let member = self.members.get(id).map(|member| &member.group);
        let pod = self.pods.get(&id.uid).map(|pod| &pod.group);
        member.into_iter().chain(pod).any(|group| group.burst().is_ok_and(|burst| burst > 0))
    }

    /// Takes the files' present content as written.
    pub(super) fn refresh(&mut self) {
        let members = self.members.values_mut().map(|member| (&member.group, &mut member.written));
        let pods = self.pods.values_mut().map(|pod| (&pod.group, &mut pod.written));
        for (group, written) in members.chain(pods) {
            // The next check reports an error.
            *written = S::read(group).unwrap_or(*written);
        }
    }

    pub(super) fn find(
        &mut self,
        node: &mut Node,
        id: &Id,
        new: &Wanted<'_>,
        located: &Located,
        more: M,
    ) -> Result<(), GroupError> {
        let (pod, group) = (node.tree.group(&located.pod), node.tree.group(&located.container));
        let (of_pod, written) = (S::read(&pod)?, S::read(&group)?);
        let originals = S::of_mut(&mut node.state);
        let known = originals.has(&located.container);
        let member = Member {
            pod: new.pod.name.clone(),
            container: new.container.name.clone(),
            group,
            original: originals.take_over(&located.container, written),
            path: located.container.clone(),
            written,
            phase: Phase::Joining,
            attached: false,
            theirs: false,
            known,
            stuck: false,
            foreign: 0,
            unread: 0,
            more,
        };
        self.members.insert(id.clone(), member);
        self.pods.entry(id.uid.clone()).or_insert_with(|| PodGroup {
            original: originals.take_over(&located.pod, of_pod),
            group: pod,
            path: located.pod.clone(),
            written: of_pod,
        });
        Ok(())
    }

    /// Saves the originals, before the first change. Returns whether that worked.
    pub(super) fn remember<'a>(&self, node: &mut Node, ids: impl Iterator<Item = &'a Id>) -> bool {
        let originals = S::of_mut(&mut node.state);
        for id in ids {
            if let (Some(member), Some(pod)) = (self.members.get(id), self.pods.get(&id.uid)) {
                originals.remember(&pod.path, Kind::Pod, pod.original);
                originals.remember(&member.path, Kind::Container, member.original);
            }
        }
        node.save()
    }

    /// The sum of these containers' originals, for each pod at most the pod's own. None: a pod is
    /// unlimited.
    pub(super) fn own<A: Sum + PartialOrd>(
        &self,
        amount: impl Fn(S) -> Option<A>,
        of: impl Fn(&Id) -> bool,
    ) -> Option<A> {
        let of_pod = |(uid, pod): (&String, &PodGroup<S>)| {
            let containers = self.members.iter().filter(|(id, _)| id.uid == *uid && of(id));
            let sum: Option<A> = containers.map(|(_, member)| amount(member.original)).sum();
            match (amount(pod.original), sum) {
                (Some(pod), Some(sum)) => Some(if pod < sum { pod } else { sum }),
                (pod, sum) => pod.or(sum),
            }
        };
        self.pods.iter().map(of_pod).sum()
    }

    /// The limit for these containers: at most the sum of their originals, unless it may exceed
    /// that.
    pub(super) fn limit<A: Sum + PartialOrd>(
        &self,
        node: &Node,
        limit: A,
        amount: impl Fn(S) -> Option<A>,
        of: impl Fn(&Id) -> bool,
    ) -> A {
        match self.own(amount, of) {
            Some(own) if own < limit && !node.override_limits => own,
            _ => limit,
        }
    }

    /// Whether an earlier agent has changed one of these containers.
    pub(super) fn has_known<T>(&self, ids: &[(Id, T)]) -> bool {
        ids.iter().any(|(id, _)| self.members.get(id).is_some_and(|member| member.known))
    }

    /// Looks for foreign writes, and retries to raise paused containers. Returns the containers
    /// that are gone.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) -> Vec<Id> {
        let mut gone = Vec::new();
        let ids: Vec<Id> = self.members.keys().cloned().collect();
        for id in &ids {
            match self.is_ours(node, now, id) {
                Ok(_) => {}
                Err(error) if error.is_gone() => gone.push(id.clone()),
                Err(error) => node.tally.error(tally::READ, &error),
            }
            if self.members.get(id).is_some_and(|member| matches!(member.phase, Phase::Paused { .. })) {
                self.raise(node, id);
            }
        }
        gone
    }

    /// Updates the pod of a paused container after changes to other containers.
    pub(super) fn follow(&mut self, node: &mut Node, id: &Id) {
        if let Some(written) = self.members.get(id).map(|member| member.written) {
            self.follow_with(node, id, written);
        }
    }

    fn follow_with(&mut self, node: &mut Node, id: &Id, to: S) {
        if let Err(error) = self.write(node, id, to)
            && !error.is_gone()
        {
            node.tally.error(tally::of_write(&error), &error);
        }
    }

    /// Writes a setting of a managed container. Returns whether its group is gone.
    #[must_use]
    pub(super) fn change(&mut self, node: &mut Node, now: Duration, id: &Id, to: S) -> bool {
        let written = match self.is_ours(node, now, id) {
            // A foreign write to its pod may have paused it.
            Ok(true) if self.members.get(id).is_none_or(|member| !member.is_managed()) => Ok(()),
            Ok(true) => self.write(node, id, to),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => false,
            Err(error) if error.is_gone() => true,
            Err(error) if error.is_in_use() => {
                // The next check tries again.
                node.tally.error(tally::IN_USE, &error);
                false
            }
            Err(error) => {
                node.tally.error(tally::WRITE, &error);
                if let Some(member) = self.members.get_mut(id) {
                    member.stuck = true;
                }
                self.pause(node, now, id);
                false
            }
        }
    }

    /// Whether a container and its pod have what was written. If not, what they have becomes the
    /// original.
    fn is_ours(&mut self, node: &mut Node, now: Duration, id: &Id) -> Result<bool, GroupError> {
        let (Some(member), Some(pod)) = (self.members.get_mut(id), self.pods.get_mut(&id.uid)) else {
            return Ok(false);
        };
        let originals = S::of_mut(&mut node.state);
        let (of_container, of_pod) = (S::read(&member.group), S::read(&pod.group));
        // A pod whose container is gone may have been resized too.
        let theirs = of_pod.as_ref().ok().copied().filter(|of_pod| *of_pod != pod.written);
        if let Some(of_pod) = theirs {
            pod.adopt(of_pod);
            originals.replace(&pod.path, pod.original);
        }
        let of_container = of_container?;
        let is_theirs = of_container != member.written;
        if is_theirs {
            member.adopt(of_container);
            originals.replace(&member.path, member.original);
        }
        let pod_is_theirs = theirs.is_some();
        if !pod_is_theirs && !is_theirs {
            return of_pod.map(|_| true);
        }
        // Before a container was admitted, its setting was somebody else's anyway.
        let affected: Vec<Id> = self
            .members
            .iter()
            .filter(|(other, _)| if pod_is_theirs { other.uid == id.uid } else { *other == id })
            .filter(|(_, member)| member.attached)
            .map(|(other, _)| other.clone())
            .collect();
        for other in &affected {
            if let Some(member) = self.members.get_mut(other) {
                member.foreign += 1;
                tracing::info!(
                    app = self.app,
                    pod = member.pod,
                    container = member.container,
                    "the container or its pod had its {} changed by another writer; leaving it alone for 60 s",
                    self.what
                );
            }
            self.pause(node, now, other);
        }
        Ok(false)
    }

    /// Leaves a container alone, with at least its original, or just its original CPU shares.
    pub(super) fn pause(&mut self, node: &mut Node, now: Duration, id: &Id) {
        if let Some(member) = self.members.get_mut(id) {
            member.phase = Phase::Paused { until: now + PAUSE };
        }
        self.raise(node, id);
    }

    /// Gives a container the setting that it has while unmanaged.
    pub(super) fn raise(&mut self, node: &mut Node, id: &Id) {
        let Some(member) = self.members.get_mut(id).filter(|_| node.enforcing) else { return };
        // It may have been resized since the last check.
        match S::read(&member.group) {
            Ok(now) if now != member.written => {
                member.adopt(now);
                S::of_mut(&mut node.state).replace(&member.path, member.original);
            }
            Ok(now) if now.released(member.original) != now => {
                let to = now.released(member.original);
                self.follow_with(node, id, to);
            }
            Err(error) if !error.is_gone() => node.tally.error(tally::READ, &error),
            _ => {}
        }
    }

    /// Writes a container's setting. Raises the pod's before, or lowers it after that.
    fn write(&mut self, node: &mut Node, id: &Id, to: S) -> Result<(), GroupError> {
        let Some(pod) = self.pods.get_mut(&id.uid) else { return Ok(()) };
        // A resize since the last check is intentional.
        let of_pod = S::read(&pod.group)?;
        if of_pod != pod.written {
            pod.adopt(of_pod);
            S::of_mut(&mut node.state).replace(&pod.path, pod.original);
        }
        let mut target = for_pod(&self.members, pod, id, to);
        if pod.written.is_above(target) {
            target = target.possible(&pod.group);
        }
        if target.is_above(pod.written) {
            node.set(&pod.group, &mut pod.written, target)?;
        }
        let written = match self.members.get_mut(id) {
            Some(member) => node.set(&member.group, &mut member.written, to),
            None => Ok(()),
        };
        // Even if the container is gone, because another one may start in the pod.
        if written.as_ref().err().is_none_or(GroupError::is_gone) {
            match node.set(&pod.group, &mut pod.written, target) {
                // Something else in the pod uses memory; its containers have their own limits.
                Err(error) if error.is_in_use() => {}
                done => done?,
            }
        }
        written
    }

    /// Forgets a container, and restores it if it still exists. While observing, nothing is
    /// restored here; what could not be restored before stays in the file.
    pub(super) fn remove(&mut self, node: &mut Node, now: Duration, id: &Id) {
        // A foreign write in the last second counts, too.
        let _ = self.is_ours(node, now, id);
        let Some(member) = self.members.get(id) else { return };
        let changed = node.enforcing && S::of(&node.state).has(&member.path);
        let to = member.original.possible(&member.group);
        let put_back = if changed { self.write(node, id, to) } else { Ok(()) };
        let member = self.members.remove(id);
        let done = match put_back {
            Err(error) if !error.is_gone() => {
                node.tally.error(tally::of_write(&error), &error);
                false
            }
            _ => node.enforcing,
        };
        let originals = S::of_mut(&mut node.state);
        // What could not be restored stays in the file.
        if let Some(member) = member.filter(|member| done && member.written == member.original) {
            originals.forget(&member.path);
        }
        if !self.members.keys().any(|other| other.uid == id.uid)
            && let Some(pod) = self.pods.remove(&id.uid).filter(|pod| done && pod.written == pod.original)
        {
            originals.forget(&pod.path);
        }
    }
}

/// The setting of a pod's group if one of its containers gets `to`.
fn for_pod<S: Kept, M: More<S>>(members: &BTreeMap<Id, Member<S, M>>, pod: &PodGroup<S>, id: &Id, to: S) -> S {
    let containers = members.iter().filter(|(other, _)| other.uid == id.uid);
    M::of_pod(pod, containers.map(|(other, member)| (member, if other == id { to } else { member.written })))
}
