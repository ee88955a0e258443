//! Whether a request that arrives may enter.
//!
//! A request for which there is a free place (`n < C`; where `C` is not configured, the least that
//! is likely, 1 at first) is rejected for the capacity only, whatever its deadline: a server that
//! serves nobody never learns how fast it is. It is bounced for its bid only where this server is
//! surely slower than the fleet ([`crate::server::bid::trial`]).
//!
//! A request that meets `n` others has an expected response time of `max((n + 1) / rate for bids,
//! execution time)`. Cold start: unknown, and no request is rejected for it. Bids and deadlines are
//! compared with what follows from it and from the age of the running request
//! ([`crate::server::bid`]).

use super::Server;
use super::admission::Admission;
use crate::units::{Concurrency, Ratio, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::reason::Reason;
use std::time::Duration;

impl Server {
    /// Judges a request that arrives, and counts it where it matters whether it enters.
    pub(super) fn judge_arrival(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        if self.concurrency().is_none() {
            self.measured.borrow_mut().places.meet(others);
        }
        let verdict = self.judge(others, bid, deadline, now);
        self.start = None;
        if let Some(places) = self.places_of_a_queue_inside() {
            self.measured.borrow_mut().work.arrive(others, verdict.is_ok(), places, now);
        }
        verdict
    }

    pub(super) fn judge(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        let admitted = Admission::new(self.capacity(), Ratio::within(self.parameters.headroom())).admits(others);
        self.capacity.observe(Concurrency::new(others.get().saturating_add(u32::from(admitted))), now);
        if !admitted {
            return Err(Reason::Capacity);
        }
        if self.has_a_place(others) {
            let slow = bid.is_some_and(|bid| self.is_too_slow_for(bid, now));
            return if slow { Err(Reason::Bid) } else { Ok(()) };
        }
        let by_age = |seconds| self.by_age(seconds, now);
        if deadline.is_some_and(|left| self.expected_seconds(others).map(by_age) > Some(left.as_secs_f64())) {
            return Err(Reason::Deadline);
        }
        if bid.is_some_and(|bid| self.offer(others, bid.fleet, now).map(by_age) > Some(bid.most.as_secs_f64())) {
            return Err(Reason::Bid);
        }
        Ok(())
    }

    /// Whether the application has a place for a request that meets this many others.
    pub(super) fn has_a_place(&self, others: Concurrency) -> bool {
        others < self.concurrency().unwrap_or_else(|| self.measured.borrow().places.least())
    }

    /// How many of `others` wait: those beyond the concurrency, or all if that is not known.
    pub(super) fn waiting(&self, others: Concurrency) -> u32 {
        others.get().saturating_sub(self.concurrency().map_or(0, Concurrency::get))
    }
}
