//! An application on this node: its quotas in the kernel's files.

use super::app::Running;
use super::member::{Id, Member, Phase};
use super::node::Node;
use super::tally;
use crate::cgroup::{Bandwidth, GroupError};
use crate::cores::Cores;
use crate::cpu::LEAST_CHANGE;
use std::time::Duration;

/// By how much sums of quotas may differ, because the kernel counts in microseconds.
const ROUNDING: Cores = Cores::new(1e-4);

impl Running {
    /// Writes the quotas that differ from what is in the files: those that fall first, and those
    /// that rise only as far as the limit allows with what is in force. A quota that could not be
    /// lowered has to be, before others rise.
    pub(super) fn apply(&mut self, node: &mut Node, time: Duration) {
        if !node.enforcing {
            return;
        }
        let (mut fall, mut rise) = (Vec::new(), Vec::new());
        for (id, member) in self.members.iter().filter(|(_, member)| member.phase == Phase::Managed) {
            let Some(quota) = self.cpu.quota(id) else { continue };
            let to = Bandwidth::of(quota, member.written.period);
            match (member.written.is_above(to), to.is_above(member.written)) {
                (true, _) => fall.push((id.clone(), to)),
                (_, true) => rise.push((id.clone(), to)),
                _ => {}
            }
        }
        for (id, to) in &fall {
            self.change(node, time, id, *to);
        }
        for (id, to) in &rise {
            let left = (self.cpu.limit() + ROUNDING) - self.in_force();
            let Some(member) = self.members.get(id) else { continue };
            let (Some(now), Some(wanted)) = (member.written.cores(), to.cores()) else { continue };
            if now + left >= wanted {
                self.change(node, time, id, *to);
            } else if left > now * LEAST_CHANGE {
                let to = Bandwidth::of(now + left, member.written.period);
                self.change(node, time, id, to);
            }
        }
    }

    /// What counts against the limit: what is in the files. A container that is not managed counts
    /// with what it had before, unless it has more than its own quota or could not be written.
    fn in_force(&self) -> Cores {
        let of = |(id, member): (&Id, &Member)| {
            let reserved = self.cpu.quota(id)?;
            let is_above = !member.theirs && member.written.is_above(member.original);
            let counts = member.phase == Phase::Managed || member.stuck || is_above;
            Some(if counts { member.written.cores().unwrap_or(reserved) } else { reserved })
        };
        self.members.iter().filter_map(of).sum()
    }

    fn change(&mut self, node: &mut Node, now: Duration, id: &Id, to: Bandwidth) {
        let written = match self.is_ours(node, now, id) {
            // Another one's pod may have paused it.
            Ok(true) if self.members.get(id).is_none_or(|member| member.phase != Phase::Managed) => Ok(()),
            Ok(true) => self.write(node, id, to),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.is_gone() => self.lose(node, now, id),
            Err(error) => {
                node.tally.error(tally::WRITE, &error);
                if let Some(member) = self.members.get_mut(id) {
                    member.stuck = true;
                }
                self.pause(node, now, id);
            }
        }
    }

    /// Whether the quotas of a container and its pod are what was written. If not, they are the
    /// originals from now on.
    pub(super) fn is_ours(&mut self, node: &mut Node, now: Duration, id: &Id) -> Result<bool, GroupError> {
        let (Some(member), Some(pod)) = (self.members.get_mut(id), self.pods.get_mut(&id.uid)) else {
            return Ok(false);
        };
        let (of_container, of_pod) = (member.group.bandwidth(), pod.group.bandwidth());
        // A pod whose container is gone may have been resized too.
        let theirs = of_pod.as_ref().ok().copied().filter(|of_pod| *of_pod != pod.written);
        if let Some(of_pod) = theirs {
            (pod.original, pod.written) = (of_pod, of_pod);
            node.originals.replace(&pod.path, of_pod);
        }
        let of_container = of_container?;
        let is_theirs = of_container != member.written;
        if is_theirs {
            member.adopt(of_container);
            node.originals.replace(&member.path, of_container);
        }
        let pod_is_theirs = theirs.is_some();
        if !pod_is_theirs && !is_theirs {
            return of_pod.map(|_| true);
        }
        // Before they came under the limit the quotas were theirs anyway.
        let affected: Vec<Id> = self
            .members
            .keys()
            .filter(|other| if pod_is_theirs { other.uid == id.uid } else { *other == id })
            .filter(|other| self.cpu.quota(other).is_some())
            .cloned()
            .collect();
        for other in &affected {
            if let Some(member) = self.members.get_mut(other) {
                member.foreign += 1;
                tracing::info!(
                    app = self.name,
                    pod = member.pod,
                    container = member.container,
                    "somebody else has written its quota or its pod's; it is left alone for 60 s"
                );
            }
            self.pause(node, now, other);
        }
        Ok(false)
    }

    /// Gives a container at least its own quota.
    pub(super) fn raise(&mut self, node: &mut Node, id: &Id) {
        let Some(member) = self.members.get_mut(id).filter(|_| node.enforcing) else { return };
        // It may have been resized since it was looked at.
        match member.group.bandwidth() {
            Ok(now) if now != member.written => {
                member.adopt(now);
                node.originals.replace(&member.path, now);
            }
            Ok(now) if member.original.is_above(now) => {
                let original = member.original;
                match self.write(node, id, original) {
                    Err(error) if !error.is_gone() => node.tally.error(tally::WRITE, &error),
                    _ => {}
                }
            }
            Err(error) if !error.is_gone() => node.tally.error(tally::READ, &error),
            _ => {}
        }
    }

    /// Whether the originals of a container are kept, so that it may be changed.
    pub(super) fn is_remembered(&self, node: &Node, id: &Id) -> bool {
        self.members.get(id).is_some_and(|member| node.originals.has(&member.path))
    }

    /// Writes the quota of a container. Its pod's is raised before, or lowered after that.
    fn write(&mut self, node: &mut Node, id: &Id, to: Bandwidth) -> Result<(), GroupError> {
        let Some(pod) = self.pods.get_mut(&id.uid) else { return Ok(()) };
        // Whoever has resized it since it was looked at means it.
        let of_pod = pod.group.bandwidth()?;
        if of_pod != pod.written {
            (pod.original, pod.written) = (of_pod, of_pod);
            node.originals.replace(&pod.path, of_pod);
        }
        let containers = self.members.iter().filter(|(other, _)| other.uid == id.uid);
        let target = pod
            .target(containers.map(|(other, member)| (member.original, if other == id { to } else { member.written })));
        if target.is_above(pod.written) {
            node.set(&pod.group, &mut pod.written, target)?;
        }
        let written = match self.members.get_mut(id) {
            Some(member) => node.set(&member.group, &mut member.written, to),
            None => Ok(()),
        };
        // A pod whose container is gone goes back too: another one may start in it.
        if written.as_ref().err().is_none_or(GroupError::is_gone) {
            node.set(&pod.group, &mut pod.written, target)?;
        }
        written
    }

    /// Forgets a container whose group is gone. Another one may have taken its place.
    pub(super) fn lose(&mut self, node: &mut Node, now: Duration, id: &Id) {
        self.remove(node, now, id);
        node.unplaced = true;
    }

    /// Forgets a container, and gives it its original quota if it still exists.
    pub(super) fn remove(&mut self, node: &mut Node, now: Duration, id: &Id) {
        // A change of the last second is somebody else's original.
        let _ = self.is_ours(node, now, id);
        let Some(original) = self.members.get(id).map(|member| member.original) else { return };
        let changed = node.enforcing && self.is_remembered(node, id);
        let put_back = if changed { self.write(node, id, original) } else { Ok(()) };
        self.cpu.detach(id);
        let member = self.members.remove(id);
        let done = match put_back {
            Err(error) if !error.is_gone() => {
                node.tally.error(tally::WRITE, &error);
                false
            }
            _ => true,
        };
        // What could not be put back stays in the file, for the next one who can.
        if let Some(member) = member.filter(|_| done) {
            node.originals.forget(&member.path);
        }
        if !self.members.keys().any(|other| other.uid == id.uid)
            && let Some(pod) = self.pods.remove(&id.uid).filter(|pod| done && pod.written == pod.original)
        {
            node.originals.forget(&pod.path);
        }
    }
}
