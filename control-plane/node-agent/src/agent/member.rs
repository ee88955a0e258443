//! A container of an application, its pod, and one resource of both.

use crate::cgroup::Group;
use crate::pods::{Container, Pod};
use crate::setting::Setting;
use std::path::PathBuf;
use std::time::Duration;

/// A container: the uid of its pod, and the runtime's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) uid: String,
    pub(super) id: String,
}

impl Id {
    pub(super) fn new(pod: &Pod, container: &Container) -> Self {
        Self { uid: pod.uid.clone(), id: container.id.clone() }
    }
}

pub(super) struct Wanted<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Joining,
    Managed,
    /// Left alone after a foreign write or an error.
    Paused {
        until: Duration,
    },
}

/// A container with its group. `S` is its setting, `M` what else is known about it.
#[derive(Debug)]
pub(super) struct Member<S, M> {
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) group: Group,
    /// Relative to the tree.
    pub(super) path: PathBuf,
    pub(super) original: S,
    /// What the files contain, as far as the agent knows.
    pub(super) written: S,
    pub(super) phase: Phase,
    /// Whether it was admitted; its part of the limit stays reserved while it is paused.
    pub(super) attached: bool,
    /// Whether `written` is a foreign write.
    pub(super) theirs: bool,
    /// Whether an earlier agent has changed it.
    pub(super) known: bool,
    /// Whether a write failed.
    pub(super) stuck: bool,
    pub(super) foreign: u64,
    /// Consecutive steps in which it could not be read.
    pub(super) unread: u32,
    pub(super) more: M,
}

impl<S, M> Member<S, M> {
    pub(super) fn is_managed(&self) -> bool {
        self.phase == Phase::Managed
    }

    pub(super) fn manage(&mut self) {
        (self.phase, self.attached) = (Phase::Managed, true);
        (self.theirs, self.stuck) = (false, false);
    }

    /// Ends a pause that is over.
    pub(super) fn resume(&mut self, now: Duration) -> bool {
        let ends = matches!(self.phase, Phase::Paused { until } if until <= now);
        if ends {
            self.phase = Phase::Joining;
        }
        ends
    }

    /// Admits it again: its minimum has changed.
    pub(super) fn join_again(&mut self) {
        if self.is_managed() {
            self.phase = Phase::Joining;
        }
    }

    /// Adopts a foreign write.
    pub(super) fn adopt(&mut self, now: S)
    where
        S: Setting,
    {
        self.original = now.adopted(self.written, self.original);
        (self.written, self.theirs) = (now, true);
    }
}

#[derive(Debug)]
pub(super) struct PodGroup<S> {
    pub(super) group: Group,
    /// Relative to the tree.
    pub(super) path: PathBuf,
    pub(super) original: S,
    pub(super) written: S,
}

impl<S: Setting> PodGroup<S> {
    /// Adopts a foreign write.
    pub(super) fn adopt(&mut self, now: S) {
        self.original = now.adopted(self.written, self.original);
        self.written = now;
    }

    /// The pod's setting for these originals and settings of its containers. It exceeds its
    /// original by as much as theirs do, and is never below it, so an in-place resize finds room.
    fn target(&self, containers: impl Iterator<Item = (S, S)>) -> S {
        let Some(original) = self.original.amount(self.original) else { return self.original };
        let (mut more, mut less, mut unlimited, mut largest) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (original, now) in containers {
            let now = now.amount(self.original);
            largest = largest.max(now.unwrap_or(0));
            match (original.amount(self.original), now) {
                (Some(original), Some(now)) => {
                    more = more.saturating_add(now.saturating_sub(original));
                    less = less.saturating_add(original.saturating_sub(now));
                }
                // Without a limit of its own, a container is limited by its pod.
                (None, Some(now)) => unlimited = unlimited.saturating_add(now),
                (_, None) => {}
            }
        }
        let amount = original.saturating_add(more).saturating_sub(less).max(unlimited).max(largest).max(original);
        self.original.with_amount(amount)
    }
}

/// What else is known about a container.
pub(super) trait More<S: Setting>: Sized {
    /// The setting of a pod's group for these settings of its containers.
    fn of_pod<'a>(pod: &PodGroup<S>, containers: impl Iterator<Item = (&'a Member<S, Self>, S)>) -> S
    where
        S: 'a,
        Self: 'a,
    {
        pod.target(containers.map(|(member, now)| (member.original, now)))
    }
}
