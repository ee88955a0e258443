//! Whether a request that arrives may enter.
//!
//! With a free place, only the capacity rejects a request, whatever its deadline: a server that
//! serves nobody never learns its speed. A server that is surely slower than the fleet also bounces
//! bids ([`crate::server::bid::probe`]). If `concurrency` is not configured, a place is free below
//! the smallest likely number of places, 1 at first.
//!
//! Otherwise the expected response time, `max((n + 1) / rate for bids, execution time)` with `n`
//! others, is corrected ([`crate::server::bid`]) and compared with bid and deadline, if known.

use super::Server;
use super::admission::Admission;
use crate::units::{Concurrency, Ratio, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::reason::Reason;
use std::time::Duration;

impl Server {
    /// Judges an arriving request, and counts it for the estimates.
    pub(super) fn judge_arrival(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        if self.concurrency().is_none() {
            self.measured.borrow_mut().places.arrived(others);
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

    pub(super) fn has_a_place(&self, others: Concurrency) -> bool {
        others < self.concurrency().unwrap_or_else(|| self.measured.borrow().places.least())
    }

    /// How many of `others` wait: those beyond the concurrency, or all if that is unknown.
    pub(super) fn waiting(&self, others: Concurrency) -> u32 {
        others.get().saturating_sub(self.concurrency().map_or(0, Concurrency::get))
    }
}
