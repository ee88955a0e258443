//! What the lock of the store guards.

use super::history::History;
use super::proxies::Record;
use super::state::State;
use std::collections::BTreeMap;
use std::time::SystemTime;
use tokio::time::Instant;

/// All of it.
pub struct Inner {
    pub state: State,
    pub loaded: Option<SystemTime>,
    /// What was refused and was not made good yet, by where it comes from.
    pub refused: BTreeMap<String, (String, SystemTime)>,
    /// What was refused last, and where it came from.
    pub refusal: Option<(String, String, SystemTime)>,
    pub history: History,
}

impl Inner {
    /// How many proxies are stale.
    pub fn stale(&self) -> usize {
        let now = Instant::now();
        let stale = |record: &Record| record.window.contains(now) && self.state.is_stale(record, now);
        self.state.proxies.iter().filter(|(_, record)| stale(record)).count()
    }
}
