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

/// How much a node has.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Its processors.
    pub cores: Cores,
    /// Its memory.
    pub memory: Bytes,
}

/// How much page cache is taken at one look: the kernel frees it before the write of a limit
/// returns.
pub(super) const CACHE: Bytes = Bytes::mebi(256);

/// What applications share on this node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) tree: Tree,
    pub(super) state: State,
    pub(super) tally: Tally,
    /// How much page cache may be taken until the next look.
    pub(super) cache: Bytes,
    /// Who is at its limit of memory.
    pub(super) alarms: Option<Alarms<Id>>,
    pub(super) capacity: Capacity,
    /// The CPU that all its pods request together.
    pub(super) requested: Cores,
    /// What this node holds of limits over nodes; none: nobody leases.
    pub(super) leases: Option<Leases>,
    pub(super) enforcing: bool,
    pub(super) override_limits: bool,
    /// Containers or configuration have changed, or a container has no group.
    pub(super) unplaced: bool,
}

impl Node {
    /// Writes a setting if it is another one.
    pub(super) fn set<S: Setting>(&mut self, group: &Group, written: &mut S, to: S) -> Result<(), GroupError> {
        if *written != to {
            to.write(group, written)?;
            self.tally.writes += 1;
        }
        Ok(())
    }

    /// Makes the originals last. Returns whether that worked.
    pub(super) fn save(&mut self) -> bool {
        match self.state.save() {
            Ok(()) => true,
            Err(error) => {
                self.tally.error(tally::STATE, &error);
                false
            }
        }
    }

    /// Hears when a container is at its limit of memory. Returns whether that works.
    pub(super) fn watch(&mut self, id: &Id, group: &Group, limit: Bytes) -> bool {
        let alarms = match &mut self.alarms {
            Some(alarms) => Ok(alarms),
            alarms @ None => Alarms::new(self.tree.version()).map(|new| alarms.insert(new)),
        };
        // Without an alarm it gets more at the next look.
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

    /// Waits for those that are at their limit of memory.
    pub(super) fn wait(&mut self, at_most: Duration) -> Vec<Id> {
        if let Some(alarms) = &mut self.alarms {
            alarms.wait(at_most)
        } else {
            std::thread::sleep(at_most);
            Vec::new()
        }
    }
}
