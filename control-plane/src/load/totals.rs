//! The events at a service, as counters that only grow.
//!
//! They start at 0 when this replica starts, and again when a service that had left the
//! configuration comes back. A service without servers keeps them as long as it is in force.
//!
//! Each event is in the counters of exactly one replica: the one that answered the poll that
//! reported it.

use super::events::counters;
use bloc_policy::sync::ServiceLoad;

/// Events since the first report of the service at this replica while it has been in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that the servers took in.
    pub arrivals: u64,
    /// Answers of the application.
    pub departures: u64,
    /// Those of them from a server that had been busy all the time.
    pub confident: u64,
    /// Answers with a chip.
    pub chips_granted: u64,
    /// Answers without one.
    pub chips_withheld: u64,
    /// Requests rejected for the capacity.
    pub rejected_capacity: u64,
    /// Requests rejected for their bid.
    pub rejected_bid: u64,
    /// Requests rejected for their deadline.
    pub rejected_deadline: u64,
}

impl Totals {
    /// Adds what happened since the report before.
    pub fn count(&mut self, load: &ServiceLoad) {
        let [arrivals, departures, confident, granted, withheld, capacity, bid, deadline] = counters(load);
        for (sum, grown) in [
            (&mut self.arrivals, arrivals),
            (&mut self.departures, departures),
            (&mut self.confident, confident),
            (&mut self.chips_granted, granted),
            (&mut self.chips_withheld, withheld),
            (&mut self.rejected_capacity, capacity),
            (&mut self.rejected_bid, bid),
            (&mut self.rejected_deadline, deadline),
        ] {
            *sum = sum.saturating_add(grown);
        }
    }
}
