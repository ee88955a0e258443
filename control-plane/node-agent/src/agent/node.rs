//! What the applications of a node share.

use super::member::Id;
use super::tally::{self, Tally};
use crate::bytes::Bytes;
use crate::cgroup::{Alarms, Group, GroupError, Tree};
use crate::cores::Cores;
use crate::lease::Leases;
use crate::setting::Setting;
use crate::state::State;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    pub cores: Cores,
    pub memory: Bytes,
}

/// How much page cache may be reclaimed between two checks: the write of a limit returns only after
/// the kernel has freed it.
pub(super) const CACHE: Bytes = Bytes::mebi(256);

#[derive(Debug)]
pub(super) struct Node {
    pub(super) tree: Tree,
    pub(super) state: State,
    pub(super) tally: Tally,
    /// What is left of [`CACHE`].
    pub(super) cache: Bytes,
    pub(super) alarms: Option<Alarms<Id>>,
    pub(super) capacity: Capacity,
    pub(super) requested: Cores,
    /// What this node holds of cluster-wide limits; none without a control plane.
    pub(super) leases: Option<Leases>,
    pub(super) enforcing: bool,
    pub(super) override_limits: bool,
    /// Whether containers or configuration changed, or a container has no group.
    pub(super) unplaced: bool,
}

impl Node {
    pub(super) fn new(tree: Tree, state: State, capacity: Capacity) -> Self {
        Self {
            tree,
            state,
            tally: Tally::default(),
            cache: CACHE,
            alarms: None,
            capacity,
            requested: Cores::ZERO,
            leases: None,
            enforcing: false,
            override_limits: false,
            unplaced: false,
        }
    }

    /// Writes a setting if it differs from `written`.
    pub(super) fn set<S: Setting>(&mut self, group: &Group, written: &mut S, to: S) -> Result<(), GroupError> {
        if *written != to {
            to.write(group, written)?;
            self.tally.writes += 1;
        }
        Ok(())
    }

    /// Saves the originals. Returns whether that worked.
    pub(super) fn save(&mut self) -> bool {
        match self.state.save() {
            Ok(()) => true,
            Err(error) => {
                self.tally.error(tally::STATE, &error);
                false
            }
        }
    }

    /// Watches for a container to reach its memory limit. Returns whether that works.
    pub(super) fn watch(&mut self, id: &Id, group: &Group, limit: Bytes) -> bool {
        let alarms = match &mut self.alarms {
            Some(alarms) => Ok(alarms),
            alarms @ None => Alarms::new(self.tree.version()).map(|new| alarms.insert(new)),
        };
        // Without an alarm it gets more at the next check.
        let watched = alarms.and_then(|alarms| alarms.watch(id.clone(), group, limit));
        if let Err(error) = &watched {
            self.tally.error(tally::READ, error);
        }
        watched.is_ok()
    }

    pub(super) fn forget(&mut self, id: &Id) {
        if let Some(alarms) = &mut self.alarms {
            alarms.forget(id);
        }
    }

    pub(super) fn wait(&mut self, at_most: Duration) -> Vec<Id> {
        if let Some(alarms) = &mut self.alarms {
            alarms.wait(at_most)
        } else {
            std::thread::sleep(at_most);
            Vec::new()
        }
    }
}
