//! Events at one server per second, see [`Rates`](super::rates::Rates).
//!
//! The confidence is confident departures divided by departures. Only the page shows all this; no
//! decision uses it.

use bloc_policy::sync::ServiceLoad;
use serde::Serialize;
use std::ops::AddAssign;

/// Events per second at a server, or at all servers of a service. Finite and at least 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRates {
    /// Responses of the application.
    pub departures: f64,
    /// Departures from a server that had been busy all the time.
    pub confident: f64,
    /// Responses with a chip.
    pub chips_granted: f64,
    /// Responses without a chip.
    pub chips_withheld: f64,
    /// Requests rejected for capacity.
    pub rejected_capacity: f64,
    /// Requests rejected for their bid.
    pub rejected_bid: f64,
    /// Requests rejected for their deadline.
    pub rejected_deadline: f64,
}

impl EventRates {
    /// Share of the departures that were confident, 0 to 1; `None` without departures.
    pub fn confidence(&self) -> Option<f64> {
        (self.departures > 0.0).then(|| (self.confident / self.departures).min(1.0))
    }

    /// Rejections that mean trouble, in requests per second: those for capacity and for the
    /// deadline. A rejected bid is normal: bids use it to find a server.
    pub fn rejected(&self) -> f64 {
        self.rejected_capacity + self.rejected_deadline
    }

    /// Rejected requests as a share of rejected and answered ones; 0 to 1.
    pub fn rejected_share(&self) -> f64 {
        let rejected = self.rejected();
        if rejected > 0.0 { rejected / (rejected + self.departures) } else { 0.0 }
    }
}

impl AddAssign for EventRates {
    fn add_assign(&mut self, other: Self) {
        self.departures += other.departures;
        self.confident += other.confident;
        self.chips_granted += other.chips_granted;
        self.chips_withheld += other.chips_withheld;
        self.rejected_capacity += other.rejected_capacity;
        self.rejected_bid += other.rejected_bid;
        self.rejected_deadline += other.rejected_deadline;
    }
}

/// From rates in the order of [`counters`].
impl From<[f64; 8]> for EventRates {
    fn from(rates: [f64; 8]) -> Self {
        let [
            _,
            departures,
            confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        ] = rates;
        Self {
            departures,
            confident,
            chips_granted,
            chips_withheld,
            rejected_capacity,
            rejected_bid,
            rejected_deadline,
        }
    }
}

/// Arrivals, then the events in the order of the fields of [`EventRates`].
pub fn counters(load: &ServiceLoad) -> [u64; 8] {
    let e = &load.events;
    [
        load.arrived,
        load.departed,
        e.departed_confident,
        e.chips_granted,
        e.chips_withheld,
        e.rejected_capacity,
        e.rejected_bid,
        e.rejected_deadline,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rates;
    use super::*;
    use bloc_policy::sync::ServiceEvents;
    use std::time::Duration;

    #[test]
    fn turns_every_counter_into_its_own_rate() {
        let events = ServiceEvents {
            departed_confident: 40,
            chips_granted: 30,
            chips_withheld: 20,
            rejected_capacity: 15,
            rejected_bid: 10,
            rejected_deadline: 5,
        };
        let load = ServiceLoad { arrived: 60, departed: 50, events, ..ServiceLoad::default() };
        let span = Duration::from_secs(5);
        let mut rates = Rates::default();
        rates.receive(counters(&load), Some(span), span);
        let rates = rates.get().unwrap();
        let expected = EventRates {
            departures: 10.0,
            confident: 8.0,
            chips_granted: 6.0,
            chips_withheld: 4.0,
            rejected_capacity: 3.0,
            rejected_bid: 2.0,
            rejected_deadline: 1.0,
        };
        assert_eq!((rates[0], EventRates::from(rates)), (12.0, expected));
        let mut twice = expected;
        twice += expected;
        assert_eq!((twice.departures, twice.rejected_deadline), (20.0, 2.0));
        assert_eq!(
            (expected.confidence(), expected.rejected(), expected.rejected_share()),
            (Some(0.8), 4.0, 4.0 / 14.0)
        );
        assert_eq!((EventRates::default().confidence(), EventRates::default().rejected_share()), (None, 0.0));
    }
}
