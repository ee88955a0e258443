//! What the lock of the store guards.

use super::history::History;
use super::proxies::Record;
use super::staleness::Staleness;
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
    pub staleness: Staleness,
}

impl Inner {
    /// How many proxies are stale.
    pub fn stale(&self) -> usize {
        let now = Instant::now();
        let stale = |(proxy, record): &(&String, &Record)| {
            record.is_connected(now) && self.staleness.since(proxy, record, now).is_some()
        };
        self.state.proxies.iter().filter(stale).count()
    }
}
