//! What a sender knows of the servers of one cluster: chips, backoff, pending requests (paper,
//! sections 5.4.2 and 5.4.3).
//!
//! | file | decides |
//! |---|---|
//! | [`failures`] | how often a server fails, and which of its failures count against it |
//!
//! An endpoint *qualifies* when it has a chip, or when `reset_interval` has passed since its *last
//! event*, a point in time. Every answer, rejection and failure sets it to now, and so does a
//! probe.
//!
//! | event | chips | last event | shut |
//! |---|---|---|---|
//! | added | 1 | now | no |
//! | an attempt begins, with a chip | -1 | | |
//! | an attempt begins without one: a probe, or forced because no server qualified | | now, or later if the server has not answered other attempts | |
//! | answered with a chip / without | +1, or +2 while chips are *owed*, at most `max_chips` / +0 | now | no / no after a probe |
//! | rejected, not in the cluster, or its answers [ask to leave it alone](crate::wire::headers::MARKS) | 0 | now | yes |
//! | bounced for its bid, or rejected for its deadline | +1 if one was spent | now | no after a probe |
//! | a failure that [counts](crate::endpoints::failures): no answer / an error | +0 / as answered, and -1 | now | yes |
//! | the same, and the server has not served since another such failure, or has said nothing for a quarter of a reset interval | 0 | seven reset intervals from now | yes |
//! | an error of the client that [counts](crate::endpoints::failures) / does not | +0 / as answered | now | yes / no after a probe |
//! | a failure that does not count: no answer / an error | +1 if one was spent / as answered | now | no after a probe |
//! | given up by its caller | +1 if one was spent | | |
//! | given up, and the server hangs: nothing was heard from it since its pending attempts began, a reset interval ago or more | +0 | later, by what it has not answered | yes |
//!
//! A routing that does not ask for chips ([`crate::routing::Mu`]) leaves out a *shut* server until
//! `reset_interval` has passed since it was shut or probed. Then an attempt probes it. A shut
//! server gets no chip back, and other servers' failures are not compared with its own.
//!
//! Qualified endpoints are in a dense array, the others in a tree ordered by last event, so
//! choosing costs the same among ten endpoints as among a thousand. Each move between them costs
//! `O(log n)`, and a request causes at most one.
//!
//! A server is owed the chips that failures have cost it, until it rejects. Without this one that
//! was away, and has no capacity, would get less than the others as long as these hold theirs. A
//! newcomer is owed as many as the others may have requests on average.
//!
//! Cold start: one chip each, so every server may be tried once before it has answered.
//!
//! Deviations from the paper:
//! 1. chips are bounded by `max_chips` (in the paper the counter may grow by one with each probe);
//! 2. a forced attempt counts as an event as a probe does, so that a sender for which no server
//!    qualifies tries them in turn instead of hammering one;
//! 3. a failure costs a chip, so that a dead server is left alone like one that rejected once its
//!    chips are spent, and one that fails fast does not look better than the others;
//! 4. a rejection for a deadline by a server with a queue says nothing about the server: it keeps
//!    its chips;
//! 5. shut servers;
//! 6. owed chips;
//! 7. a server that has not answered the last `n` attempts is left alone for `n` reset intervals,
//!    at most 8, so that one that hangs does not attract a request in each interval; likewise one
//!    whose failures follow each other, and one whose answers time out.

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
    max_chips: u32,
    by_address: HashMap<Box<str>, EndpointId>,
    table: SlotMap<EndpointId, Endpoint>,
    all: Vec<EndpointId>,
    /// How often the order of `all` has changed.
    order: u64,
    /// Servers whose pending requests or shut state have changed since the routing looked, once
    /// each.
    changed: Vec<EndpointId>,
    qualified: Vec<EndpointId>,
    waiting: BTreeSet<(Timestamp, EndpointId)>,
    peers: Compared,
}

impl Endpoints {
    /// No servers yet; an endpoint without a chip is left alone for `reset_interval`.
    pub fn new(reset_interval: Duration, max_chips: u32) -> Self {
        Self {
            reset_interval,
            max_chips: max_chips.max(1),
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

    /// Applies new parameters; what is known of the servers stays.
    pub fn configure(&mut self, reset_interval: Duration, max_chips: u32) {
        self.reset_interval = reset_interval;
        self.max_chips = max_chips.max(1);
        for endpoint in self.table.values_mut() {
            endpoint.chips = endpoint.chips.min(self.max_chips);
        }
    }
}

#[cfg(test)]
mod tests;
