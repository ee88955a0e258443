//! A container of an application, and what one resource says about it.

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

/// A container that belongs to an application.
pub(super) struct Wanted<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
}

/// Where a container is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is to come under the limit.
    Joining,
    /// It is under the limit.
    Managed,
    /// Somebody else has changed what it has, or there was an error.
    Paused { until: Duration },
}

/// A container with its group. `S` is what its files say, `M` what else is known of it.
#[derive(Debug)]
pub(super) struct Member<S, M> {
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) group: Group,
    /// Below the tree.
    pub(super) path: PathBuf,
    pub(super) original: S,
    /// What is in the files, as far as we know.
    pub(super) written: S,
    pub(super) phase: Phase,
    /// Whether it has come under the limit; a part of that is reserved for it while it is paused.
    pub(super) attached: bool,
    /// Whether somebody else has written what it has.
    pub(super) theirs: bool,
    /// Whether an earlier agent has changed it.
    pub(super) known: bool,
    /// Whether it could not be written.
    pub(super) stuck: bool,
    /// How often somebody else has.
    pub(super) foreign: u64,
    /// Steps in a row in which it could not be read.
    pub(super) unread: u32,
    pub(super) more: M,
}

impl<S, M> Member<S, M> {
    pub(super) fn is_managed(&self) -> bool {
        self.phase == Phase::Managed
    }

    /// It comes under the limit.
    pub(super) fn manage(&mut self) {
        (self.phase, self.attached) = (Phase::Managed, true);
        (self.theirs, self.stuck) = (false, false);
    }

    /// Takes what somebody else has written.
    pub(super) fn adopt(&mut self, now: S)
    where
        S: Setting,
    {
        self.original = now.adopted(self.written, self.original);
        (self.written, self.theirs) = (now, true);
    }
}
