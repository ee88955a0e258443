//! What a server offers: the response time that it compares with bids and deadlines.
//!
//! With one configured place, an offer goes by how long the request has been running that is in it
//! ([`crate::server::bid::age`]). A report does not: it is heard by those who come later. An offer
//! is at most half as much again for that. So a bid that a server rejects is less than twice what
//! it reports, which [`is_bounce`](crate::routing::bid::is_bounce) demands. That allows for a
//! server which is not sure that it is faster than the fleet, and counts with the fleet's execution
//! time.
//!
//! All threads share the start of the running request. With `hold: true` it is known: the request
//! is handed over. With `hold: false` the queue is in the application, and the sidecar does not see
//! when the work begins: it is taken to be when the place became free for it, at its own arrival or
//! with the answer to the request before it.

use crate::server::{Measured, Server};
use crate::units::{Concurrency, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::offer;
use std::time::Duration;

/// By what share of an offer the age of a running request raises it at most.
const MOST_BY_AGE: f64 = 0.5;

impl Server {
    /// The expected response time of a request that meets `others`, if it is known.
    pub fn expected(&self, others: Concurrency) -> Option<Duration> {
        Duration::try_from_secs_f64(self.expected_seconds(others)?).ok()
    }

    pub(in crate::server) fn expected_seconds(&self, others: Concurrency) -> Option<f64> {
        let line = (f64::from(others.get()) + 1.0) / self.rate_for_bids()?;
        Some(line.max(self.measured.borrow().departures.mean().unwrap_or_default()))
    }

    /// Whether a free place here is surely too slow for this bid.
    pub(in crate::server) fn is_too_slow_for(&self, bid: Bid, now: Timestamp) -> bool {
        let Some((_, fleet)) = self.known_concurrency().zip(bid.fleet) else { return false };
        let fleet = fleet.as_secs_f64();
        let Measured { departures, trials, .. } = &mut *self.measured.borrow_mut();
        let offer = departures.mean().map(|own| offer::offer(own, own, fleet));
        if offer <= Some(bid.most.as_secs_f64()) || !departures.is_slower_than(fleet) {
            return false;
        }
        let bounces = departures.execution_in(fleet, now) > Some(fleet) || !trials.begin(now);
        if bounces {
            trials.bounced(now);
        }
        bounces
    }

    /// What a request that meets `others` is offered, in seconds, if it is known: [`offer::offer`].
    pub(in crate::server) fn offer(&self, others: Concurrency, fleet: Option<Duration>, now: Timestamp) -> Option<f64> {
        let Some((places, fleet)) = self.known_concurrency().zip(fleet) else {
            return self.expected_seconds(others);
        };
        let fleet = fleet.as_secs_f64();
        let execution = self.measured.borrow().departures.execution_in(fleet, now)?;
        let turns = (f64::from(others.get()) + 1.0) / f64::from(places.get());
        Some(offer::offer(execution * turns.max(1.0), execution, fleet))
    }

    /// Whether it matters when requests begin to run: there is one place, and callers bid.
    fn minds_starts(&self) -> bool {
        self.concurrency() == Some(Concurrency::new(1)) && self.parameters.routing().bids()
    }

    /// Whether a request with a bid or a deadline that will meet `others` is judged by when the
    /// running one began: then this server must [hear](Self::hear_start) that first.
    pub(in crate::server) fn asks_for_start(&self, others: Concurrency) -> bool {
        self.minds_starts() && others > Concurrency::new(0)
    }

    /// The running request began then, as far as this proxy knows. For the next request only.
    pub(in crate::server) fn hear_start(&mut self, start: Option<Timestamp>) {
        self.start = start;
    }

    /// Whether a request begins to run that is handed to the application, and met `others` then
    /// (none, if it was held). All threads must be told.
    pub(in crate::server) fn begins(&self, others: Concurrency) -> bool {
        self.minds_starts() && (self.parameters.hold() || others == Concurrency::new(0))
    }

    /// Likewise, whether the next one begins to run because one was answered, and `others` are
    /// left. Where one is reset, nobody knows whether it ran, and whether the application has
    /// stopped.
    pub(in crate::server) fn passes_on(&self, others: Concurrency) -> bool {
        self.asks_for_start(others) && !self.parameters.hold()
    }

    /// These seconds, which count the running request as one execution time, by its age.
    pub(in crate::server) fn by_age(&self, seconds: f64, now: Timestamp) -> f64 {
        let Some(start) = self.start else { return seconds };
        let measured = self.measured.borrow();
        let excess = measured.rest.excess(now.since(start), measured.departures.mean().unwrap_or_default());
        seconds + excess.min(MOST_BY_AGE * seconds)
    }
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
