//! What a server offers: the response time that it compares with bids and deadlines.
//!
//! With one configured place, an offer depends on the running request's
//! [age](crate::server::bid::age). A report does not, since later requests hear it. A server may
//! reject only bids below twice its report ([`is_bounce`](crate::routing::bid::is_bounce)), so the
//! age raises an offer by at most a half.
//!
//! All threads share the start of the running request. With `hold: true` it is the hand-over. With
//! `hold: false` it is taken to be the request's own arrival, or the answer to the one before it.

use crate::server::{Measured, Server};
use crate::units::{Concurrency, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::offer;
use std::time::Duration;

/// Share by which the running request's age raises an offer at most. The rest up to twice the
/// report is for a server that offers by the fleet's execution time, but reports its own.
const MOST_BY_AGE: f64 = 0.5;

impl Server {
    /// The expected response time of a request that meets `others`, if known.
    pub fn expected(&self, others: Concurrency) -> Option<Duration> {
        Duration::try_from_secs_f64(self.expected_seconds(others)?).ok()
    }

    pub(in crate::server) fn expected_seconds(&self, others: Concurrency) -> Option<f64> {
        let line = (f64::from(others.get()) + 1.0) / self.rate_for_bids()?;
        Some(line.max(self.measured.borrow().departures.mean().unwrap_or_default()))
    }

    /// Whether this server is surely too slow for this bid, though a place is free.
    pub(in crate::server) fn is_too_slow_for(&self, bid: Bid, now: Timestamp) -> bool {
        let Some((_, fleet)) = self.known_concurrency().zip(bid.fleet) else { return false };
        let fleet = fleet.as_secs_f64();
        let Measured { departures, probes, .. } = &mut *self.measured.borrow_mut();
        let offer = departures.mean().map(|own| offer::offer(own, own, fleet));
        if offer <= Some(bid.most.as_secs_f64()) || !departures.is_slower_than(fleet) {
            return false;
        }
        let bounces = departures.execution_in(fleet, now) > Some(fleet) || !probes.begin(now);
        if bounces {
            probes.bounced(now);
        }
        bounces
    }

    /// The offer in seconds to a request that meets `others`, if known: [`offer::offer`].
    pub(in crate::server) fn offer(&self, others: Concurrency, fleet: Option<Duration>, now: Timestamp) -> Option<f64> {
        let Some((places, fleet)) = self.known_concurrency().zip(fleet) else {
            return self.expected_seconds(others);
        };
        let fleet = fleet.as_secs_f64();
        let execution = self.measured.borrow().departures.execution_in(fleet, now)?;
        let turns = (f64::from(others.get()) + 1.0) / f64::from(places.get());
        Some(offer::offer(execution * turns.max(1.0), execution, fleet))
    }

    /// Whether starts matter: there is one place, and callers bid.
    fn minds_starts(&self) -> bool {
        self.concurrency() == Some(Concurrency::new(1)) && self.parameters.routing().bids()
    }

    /// Whether a request with a bid or a deadline that meets `others` is judged by the running
    /// one's start. If so, [pass it in](Self::observe_start) first.
    pub(in crate::server) fn asks_for_start(&self, others: Concurrency) -> bool {
        self.minds_starts() && others > Concurrency::new(0)
    }

    /// Sets the start of the running request, for the next arrival only.
    pub(in crate::server) fn observe_start(&mut self, start: Option<Timestamp>) {
        self.start = start;
    }

    /// Whether a request that is handed over starts to run. `others`: how many it met on arrival, 0
    /// if it was held. If so, tell all threads.
    pub(in crate::server) fn begins(&self, others: Concurrency) -> bool {
        self.minds_starts() && (self.parameters.hold() || others == Concurrency::new(0))
    }

    /// Whether the next request starts to run because one was answered and `others` are left. After
    /// a reset nobody knows whether that request ran, or whether the application has stopped.
    pub(in crate::server) fn passes_on(&self, others: Concurrency) -> bool {
        self.asks_for_start(others) && !self.parameters.hold()
    }

    /// Corrects expected seconds, which count the running request as one execution time.
    pub(in crate::server) fn by_age(&self, seconds: f64, now: Timestamp) -> f64 {
        let Some(start) = self.start else { return seconds };
        let measured = self.measured.borrow();
        let excess = measured.remaining.excess(now.since(start), measured.departures.mean().unwrap_or_default());
        seconds + excess.min(MOST_BY_AGE * seconds)
    }
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
