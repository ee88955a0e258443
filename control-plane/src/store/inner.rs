//! The data that the store's lock guards.

use super::history::History;
use super::proxies::Record;
use super::state::State;
use std::collections::BTreeSet;
use std::time::SystemTime;
use tokio::time::Instant;

/// The guarded data.
pub struct Inner {
    pub state: State,
    pub loaded: Option<SystemTime>,
    /// The origins of the refusals that are not resolved yet.
    pub refused: BTreeSet<String>,
    pub history: History,
}

impl Inner {
    /// The number of stale proxies.
    pub fn stale(&self) -> usize {
        let now = Instant::now();
        let stale = |record: &Record| record.window.contains(now) && self.state.is_stale(record, now);
        self.state.proxies.iter().filter(|(_, record)| stale(record)).count()
    }
}
