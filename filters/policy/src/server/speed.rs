//! The service rate `mu` (requests/s), from the best knowledge available:
//!
//! - `mu = C / execution time`, with the configured `concurrency` `C`;
//! - else the same with the `C` that [`places`](super::places) is sure of;
//! - else the rule of [`service_rate`](super::service_rate), but at least `1 / execution time`.
//!   Otherwise an idle server whose few departures were confident by chance looks slow, gets no
//!   requests, and stays idle (simulated, one gateway, 20 servers: p50 27 s, not 71 ms).
//!
//! Bids and deadlines use the largest likely number of places.

use super::Server;
use super::departures::Totals;
use crate::units::{Concurrency, Timestamp};

impl Server {
    /// How many requests the application works on at once, if the queue is inside the application.
    #[inline(never)]
    pub(super) fn places_of_a_queue_inside(&self) -> Option<Concurrency> {
        self.places().is_none().then(|| self.places_for_estimates())
    }

    /// How many requests the application works on at once, configured or [expected](super::places).
    #[inline(never)]
    pub(super) fn places_for_estimates(&self) -> Concurrency {
        self.concurrency().unwrap_or_else(|| self.measured.borrow().places.in_force())
    }

    /// The same, only if configured or sure.
    pub(super) fn known_concurrency(&self) -> Option<Concurrency> {
        let is_known = self.concurrency().or_else(|| self.estimated_concurrency()).is_some();
        is_known.then(|| self.places_for_estimates())
    }

    /// The estimated concurrency, if it is sure and none is configured.
    pub fn estimated_concurrency(&self) -> Option<Concurrency> {
        self.measured.borrow().places.sure().filter(|_| self.concurrency().is_none())
    }

    /// Whether [`measure`](Self::measure) must end the measuring interval.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.measured.borrow().departures.is_due(now)
    }

    /// Ends the measuring interval if it is over. Servers made by [`beside`](Self::beside) must
    /// then [`follow`](Self::follow). `totals` are those of the whole server.
    pub(super) fn measure(&mut self, totals: Totals, executing: bool, now: Timestamp) {
        let mut borrowed = self.measured.borrow_mut();
        let measured = &mut *borrowed;
        if measured.departures.is_due(now) {
            // Always measured: another configuration may need the estimate.
            let by = measured.places.measure(measured.departures.noise());
            if self.parameters.concurrency().is_none() {
                measured.departures.scale(by);
            }
        }
        measured.departures.measure(totals, executing, now);
        if measured.departures.execution().is_none() {
            // This thread sees the totals of the others, but has measured nothing itself.
            return;
        }
        if let Some(rate) = measured.departures.rate() {
            measured.rate.observe(rate, measured.departures.confidence(), now);
        }
        drop(borrowed);
        self.follow();
    }

    /// Updates the capacity from measurements and CPU, without the estimated concurrency.
    #[inline(never)]
    pub fn follow(&mut self) {
        let most = self.measured.borrow().cpu.rate.unwrap_or(f64::INFINITY);
        let rate = self.rate_with(self.concurrency()).map(|measured| measured.min(most));
        self.capacity.serve(rate, self.concurrency());
    }

    /// Requests per second that a busy server finishes, if known.
    pub fn service_rate(&self) -> Option<f64> {
        self.rate_with(self.known_concurrency())
    }

    #[inline(never)]
    pub(super) fn rate_with(&self, concurrency: Option<Concurrency>) -> Option<f64> {
        concurrency.and_then(|places| self.rate_of(places)).or_else(|| self.rate_by_rule())
    }

    /// The service rate for bids and deadlines: that of all places that are likely.
    pub(super) fn rate_for_bids(&self) -> Option<f64> {
        self.rate_of(self.places_for_estimates()).or_else(|| self.measured.borrow().rate.get())
    }

    pub(super) fn rate_by_rule(&self) -> Option<f64> {
        let (rule, least) = (self.measured.borrow().rate.get(), self.rate_of(Concurrency::new(1)));
        rule.map_or(least, |rate| least.map(|least| rate.max(least)).or(rule))
    }

    #[inline(never)]
    pub(super) fn rate_of(&self, places: Concurrency) -> Option<f64> {
        let time = self.measured.borrow().departures.mean().filter(|time| *time > 0.0)?;
        Some(f64::from(places.get()) / time)
    }
}
