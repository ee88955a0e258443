//! A pod's own group.

use crate::cgroup::{Bandwidth, Group};
use std::path::PathBuf;

/// The group of a pod. It is as much above its original as its containers are above theirs, and
/// never below it: who resizes a container in place must find room for it.
#[derive(Debug)]
pub(super) struct PodGroup {
    pub(super) group: Group,
    /// Below the tree.
    pub(super) path: PathBuf,
    pub(super) original: Bandwidth,
    pub(super) written: Bandwidth,
}

impl PodGroup {
    /// What the pod has to have if its containers have this: for each, its original quota and its
    /// new one.
    pub(super) fn target(&self, containers: impl Iterator<Item = (Bandwidth, Bandwidth)>) -> Bandwidth {
        let Some(original) = self.original.quota else { return self.original };
        let micros = |bandwidth: Bandwidth| bandwidth.quota_in(self.original.period);
        let (mut more, mut less, mut unlimited, mut largest) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (original, quota) in containers {
            largest = largest.max(micros(quota).unwrap_or(0));
            match (micros(original), micros(quota)) {
                (Some(original), Some(quota)) => {
                    more = more.saturating_add(quota.saturating_sub(original));
                    less = less.saturating_add(original.saturating_sub(quota));
                }
                // Without a limit of its own, a container is limited by its pod.
                (None, Some(quota)) => unlimited = unlimited.saturating_add(quota),
                (_, None) => {}
            }
        }
        let quota = original.saturating_add(more).saturating_sub(less).max(unlimited).max(largest).max(original);
        Bandwidth { quota: Some(quota), period: self.original.period }
    }
}
