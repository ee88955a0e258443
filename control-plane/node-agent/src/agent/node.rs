//! What the applications of a node share.

use super::tally::{self, Tally};
use crate::cgroup::{Bandwidth, Group, GroupError, Tree};
use crate::cores::Cores;
use crate::originals::Originals;

/// What applications share on this node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) tree: Tree,
    pub(super) originals: Originals,
    pub(super) tally: Tally,
    /// How much CPU this node has.
    pub(super) cores: Cores,
    pub(super) enforcing: bool,
    pub(super) override_limits: bool,
    /// Containers or configuration have changed, or a container has no group.
    pub(super) unplaced: bool,
}

impl Node {
    /// Writes a quota if it is another one.
    pub(super) fn set(&mut self, group: &Group, written: &mut Bandwidth, to: Bandwidth) -> Result<(), GroupError> {
        if *written != to {
            group.set(to)?;
            *written = to;
            self.tally.writes += 1;
        }
        Ok(())
    }

    /// Makes the originals last. Returns whether that worked.
    pub(super) fn save(&mut self) -> bool {
        match self.originals.save() {
            Ok(()) => true,
            Err(error) => {
                self.tally.error(tally::STATE, &error);
                false
            }
        }
    }
}
