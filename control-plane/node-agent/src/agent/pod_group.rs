//! A pod's own group.

use super::member::Member;
use crate::cgroup::Group;
use crate::setting::Setting;
use std::path::PathBuf;

/// The group of a pod.
#[derive(Debug)]
pub(super) struct PodGroup<S> {
    pub(super) group: Group,
    /// Below the tree.
    pub(super) path: PathBuf,
    pub(super) original: S,
    pub(super) written: S,
}

impl<S: Setting> PodGroup<S> {
    /// Takes what somebody else has written.
    pub(super) fn adopt(&mut self, now: S) {
        self.original = now.adopted(self.written, self.original);
        self.written = now;
    }

    /// What the pod has to have if its containers have this: for each, its original and its new
    /// one. It is as much above its original as its containers are above theirs, and never below
    /// it: who resizes a container in place must find room for it.
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

/// What else is known of a container.
pub(super) trait More<S: Setting>: Sized {
    /// What a pod's group has to have if its containers have this.
    fn of_pod<'a>(pod: &PodGroup<S>, containers: impl Iterator<Item = (&'a Member<S, Self>, S)>) -> S
    where
        S: 'a,
        Self: 'a,
    {
        pod.target(containers.map(|(member, now)| (member.original, now)))
    }
}
