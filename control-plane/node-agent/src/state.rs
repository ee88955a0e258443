//! The originals of all resources.

use crate::bytes::Bytes;
use crate::cgroup::{Bandwidth, GroupError, Limits, Tree, Weight};
use crate::originals::{Originals, StateError};
use crate::setting::Setting;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What groups had before the agent changed them, in files in one directory.
#[derive(Debug)]
pub struct State {
    cpu: Originals<Bandwidth>,
    memory: Originals<Limits>,
    shares: Originals<Weight>,
}

/// A resource whose originals are kept.
pub trait Kept: Setting {
    /// Those of this resource.
    fn of(state: &State) -> &Originals<Self>;
    /// The same, to be changed.
    fn of_mut(state: &mut State) -> &mut Originals<Self>;
}

impl Kept for Bandwidth {
    fn of(state: &State) -> &Originals<Self> {
        &state.cpu
    }
    fn of_mut(state: &mut State) -> &mut Originals<Self> {
        &mut state.cpu
    }
}

impl Kept for Limits {
    fn of(state: &State) -> &Originals<Self> {
        &state.memory
    }
    fn of_mut(state: &mut State) -> &mut Originals<Self> {
        &mut state.memory
    }
}

impl Kept for Weight {
    fn of(state: &State) -> &Originals<Self> {
        &state.shares
    }
    fn of_mut(state: &mut State) -> &mut Originals<Self> {
        &mut state.shares
    }
}

impl State {
    /// Reads the files in this directory.
    ///
    /// # Errors
    /// The directory or a file cannot be read.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let open = (Originals::open(directory)?, Originals::open(directory)?, Originals::open(directory)?);
        Ok(Self { cpu: open.0, memory: open.1, shares: open.2 })
    }

    /// What could not be understood.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.cpu.problems().iter().chain(self.memory.problems()).chain(self.shares.problems())
    }

    /// Whether no group is remembered.
    pub fn is_empty(&self) -> bool {
        self.cpu.is_empty() && self.memory.is_empty() && self.shares.is_empty()
    }

    /// Whether [`Self::save`] has something to write.
    pub const fn is_changed(&self) -> bool {
        self.cpu.is_changed() || self.memory.is_changed() || self.shares.is_changed()
    }

    /// Writes the files that have changed.
    ///
    /// # Errors
    /// One cannot be written. Its last contents stay.
    pub fn save(&mut self) -> Result<(), StateError> {
        // Each, also if another one fails.
        let saved = [save(&mut self.cpu), save(&mut self.memory), save(&mut self.shares)];
        saved.into_iter().collect()
    }

    /// Gives each group what it is to have without an agent.
    pub fn release(&mut self, tree: &Tree) -> Vec<GroupError> {
        let mut errors = self.cpu.release(tree);
        errors.extend(self.memory.release(tree));
        errors.extend(self.shares.release(tree));
        errors
    }

    /// Whether there are groups besides these.
    pub fn has_others(&self, kept: &KeptGroups) -> bool {
        self.cpu.has_others(&kept.cpu) || self.memory.has_others(&kept.memory) || self.shares.has_others(&kept.shares)
    }

    /// Gives each group its originals, except for those that are kept, and forgets those where that
    /// worked.
    pub fn restore(&mut self, tree: &Tree, kept: &KeptGroups) -> Vec<GroupError> {
        let mut errors = self.cpu.restore(tree, &kept.cpu);
        errors.extend(self.memory.restore(tree, &kept.memory));
        errors.extend(self.shares.restore(tree, &kept.shares));
        errors
    }
}

fn save<S: Setting>(originals: &mut Originals<S>) -> Result<(), StateError> {
    if originals.is_changed() { originals.save() } else { Ok(()) }
}

impl State {
    /// Restores all, and goes on as long as the kernel takes page cache for it, for so long at
    /// most.
    pub fn restore_all(&mut self, tree: &Tree, patience: Duration) -> Vec<GroupError> {
        let began = Instant::now();
        let in_use = |errors: &[GroupError]| errors.iter().filter_map(GroupError::in_use).sum::<Bytes>();
        let mut errors = self.restore(tree, &KeptGroups::default());
        loop {
            let before = in_use(&errors);
            if before == Bytes::ZERO || began.elapsed() >= patience {
                return errors;
            }
            errors = self.restore(tree, &KeptGroups::default());
            if in_use(&errors) >= before {
                return errors;
            }
        }
    }
}

/// Groups that an agent goes on to manage.
#[derive(Debug, Default)]
pub struct KeptGroups {
    /// Those whose CPU it manages.
    pub cpu: BTreeSet<PathBuf>,
    /// Those whose memory it manages.
    pub memory: BTreeSet<PathBuf>,
    /// Those whose CPU shares it moves.
    pub shares: BTreeSet<PathBuf>,
}
