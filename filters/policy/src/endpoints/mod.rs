//! What a sender knows about the servers of one cluster: chips, backoff, pending requests (paper,
//! sections 5.4.2 and 5.4.3). [`failures`] decides which failures count against a server.
//!
//! An endpoint *qualifies* if it has a chip, or if `reset_interval` has passed since its *last
//! event*. A *shut* server is left out by routings without chips ([`crate::routing::Mu`]) until
//! `reset_interval` has passed since it was shut or probed; then an attempt probes it. A server is
//! *owed* the chips that failures cost it. `filters/adr/0003-a-server-that-did-not-answer.md` has
//! the effect of each event, and the deviations from the paper. Cost: a request moves at most one
//! endpoint between qualified (a dense array) and waiting (a tree), in `O(log n)`.

mod answer;
mod attempts;
mod endpoint;
pub mod failures;
mod list;
mod qualify;
mod row;
mod shut;

pub use answer::{Answer, Permit};
pub use endpoint::{Endpoint, EndpointId};
pub(crate) use row::Row;

use crate::units::Timestamp;
use endpoint::Compared;
use hashbrown::HashMap;
use slotmap::SlotMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// The servers of one cluster.
#[derive(Clone, Debug)]
pub struct Endpoints {
    reset_interval: Duration,
    by_address: HashMap<Box<str>, EndpointId>,
    table: SlotMap<EndpointId, Endpoint>,
    all: Vec<EndpointId>,
    /// How often the order of `all` changed.
    order: u64,
    /// Servers whose pending requests or shut state changed since the routing last looked, once
    /// each.
    changed: Vec<EndpointId>,
    qualified: Vec<EndpointId>,
    waiting: BTreeSet<(Timestamp, EndpointId)>,
    peers: Compared,
}

impl Endpoints {
    /// No servers yet. An endpoint without a chip is left alone for `reset_interval`.
    pub fn new(reset_interval: Duration) -> Self {
        Self {
            reset_interval,
            by_address: HashMap::new(),
            table: SlotMap::with_key(),
            all: Vec::new(),
            order: 0,
            changed: Vec::new(),
            qualified: Vec::new(),
            waiting: BTreeSet::new(),
            peers: Compared::default(),
        }
    }

    /// Applies new parameters, and keeps what is known about the servers.
    pub fn configure(&mut self, reset_interval: Duration) {
        self.reset_interval = reset_interval;
    }
}

#[cfg(test)]
mod tests;
