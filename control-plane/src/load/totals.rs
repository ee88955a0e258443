//! The events at a service, as counters that only grow.
//!
//! They start at 0 when this replica starts, and again when a service returns to the configuration.
//! A service without servers keeps them while it is in force.
//!
//! Each event is in the counters of exactly one replica: the one that answered the poll reporting
//! it.

use super::events::counters;
use bloc_policy::sync::ServiceLoad;

/// Events since the first report of the service at this replica while it has been in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that the servers took in.
    pub arrivals: u64,
    /// Responses of the application.
    pub departures: u64,
    /// Departures from a server that had been busy all the time.
    pub confident: u64,
    /// Responses with a chip.
    pub chips_granted: u64,
    /// Responses without a chip.
    pub chips_withheld: u64,
    /// Requests rejected for capacity.
    pub rejected_capacity: u64,
    /// Requests rejected for their bid.
    pub rejected_bid: u64,
    /// Requests rejected for their deadline.
    pub rejected_deadline: u64,
}

impl Totals {
    /// Adds what happened since the last report.
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
