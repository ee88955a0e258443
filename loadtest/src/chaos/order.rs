//! What to run.

use crate::policy::Policy;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// What balances the load in the column of ours.
    pub policy: Policy,
    /// Only the rows whose name is this; all if empty.
    pub only: Vec<String>,
    /// How long a flood lasts.
    pub flood: Duration,
    /// Nothing begins that would end later.
    pub limit: Duration,
    /// Determines the order, the victims, the arrivals and the service times.
    pub seed: u64,
}

impl Chaos {
    /// Whether the row of this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The seed of the arrivals of a row: the same for all its columns.
    pub fn arrivals(&self, number: u64) -> u64 {
        self.seed.wrapping_add(1_000 * number)
    }
}
