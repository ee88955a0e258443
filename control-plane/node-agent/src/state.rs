//! The originals of all resources, in files in one directory.

use crate::bytes::Bytes;
use crate::cgroup::{Bandwidth, GroupError, Limits, Tree, Weight};
use crate::originals::{Originals, StateError};
use crate::setting::Setting;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct State {
    cpu: Originals<Bandwidth>,
    memory: Originals<Limits>,
    shares: Originals<Weight>,
}

/// Groups that an agent continues to manage: quotas, memory, shares.
pub type KeptGroups = [BTreeSet<PathBuf>; 3];

pub trait Kept: Setting {
    fn of(state: &State) -> &Originals<Self>;
    fn of_mut(state: &mut State) -> &mut Originals<Self>;
}

macro_rules! kept {
    ($setting:ty, $field:ident) => {
        impl Kept for $setting {
            fn of(state: &State) -> &Originals<Self> {
                &state.$field
            }
            fn of_mut(state: &mut State) -> &mut Originals<Self> {
                &mut state.$field
            }
        }
    };
}
kept!(Bandwidth, cpu);
kept!(Limits, memory);
kept!(Weight, shares);

/// Does the same with each resource.
macro_rules! each {
    (($($of:tt)+) $one:ident => $do:expr) => {
        [{ let $one = $($of)+.cpu; $do }, { let $one = $($of)+.memory; $do }, { let $one = $($of)+.shares; $do }]
    };
}

impl State {
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let (cpu, memory) = (Originals::open(directory)?, Originals::open(directory)?);
        Ok(Self { cpu, memory, shares: Originals::open(directory)? })
    }

    pub fn problems(&self) -> impl Iterator<Item = &String> {
        each!((&self) one => one.problems()).into_iter().flatten()
    }

    pub fn is_empty(&self) -> bool {
        each!((&self) one => one.is_empty()).into_iter().all(|empty| empty)
    }

    /// Whether [`Self::save`] has something to write.
    pub fn is_changed(&self) -> bool {
        each!((&self) one => one.is_changed()).contains(&true)
    }

    /// Writes the files that have changed. A file that cannot be written keeps its content; the
    /// others are still written.
    pub fn save(&mut self) -> Result<(), StateError> {
        each!((&mut self) one => if one.is_changed() { one.save() } else { Ok(()) }).into_iter().collect()
    }

    pub fn release(&mut self, tree: &Tree) -> Vec<GroupError> {
        each!((&mut self) one => one.release(tree)).into_iter().flatten().collect()
    }

    pub fn has_others(&self, tree: &Tree, [cpu, memory, shares]: &KeptGroups) -> bool {
        let memory = || self.memory.has_others(tree, memory);
        self.cpu.has_others(tree, cpu) || memory() || self.shares.has_others(tree, shares)
    }

    /// Restores all groups except these, and forgets the restored ones.
    pub fn restore(&mut self, tree: &Tree, [cpu, memory, shares]: &KeptGroups) -> Vec<GroupError> {
        let mut errors = self.cpu.restore(tree, cpu);
        errors.extend(self.memory.restore(tree, memory));
        errors.extend(self.shares.restore(tree, shares));
        errors
    }

    /// Restores all groups, and retries as long as the kernel reclaims page cache.
    pub fn restore_all(&mut self, tree: &Tree, patience: Duration) -> Vec<GroupError> {
        let began = Instant::now();
        let in_use = |errors: &[GroupError]| errors.iter().filter_map(GroupError::in_use).sum::<Bytes>();
        let mut before = None;
        loop {
            let errors = self.restore(tree, &KeptGroups::default());
            let now = in_use(&errors);
            if now == Bytes::ZERO || before.is_some_and(|before| now >= before) || began.elapsed() >= patience {
                return errors;
            }
            before = Some(now);
        }
    }
}
