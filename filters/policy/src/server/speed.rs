//! How fast the server is, by all that is known of it.
//!
//! The service rate `mu` (requests/s) comes from the best knowledge available:
//!
//! - with `concurrency: C`, `mu = C / execution time`, since the execution time is measured from
//!   the hand-over to the application on;
//! - else the same with the `C` that [`places`](super::places) is sure of;
//! - else by the rule of [`service_rate`](super::service_rate) from departure rate and confidence,
//!   but at least one request at a time, `1 / execution time`. Without that bound, an idle server
//!   whose few departures were confident by chance is taken for a slow one, is left alone, and
//!   stays idle (simulated: one gateway, 20 servers, p50 27 s instead of 71 ms).
//!
//! Bids and deadlines go by another rate, that of the largest number of places that is likely. The
//! estimated `C` holds nothing, and the capacity knows nothing of it.
//!
//! Where the application's CPU and the CPU time of a request are known, the capacity from an SLO
//! goes by at most what the CPU is enough for ([`cpu`](super::cpu)). Reports and metrics say what
//! was measured.

use super::Server;
use super::departures::Totals;
use crate::units::{Concurrency, Timestamp};

impl Server {
    /// How many requests the application works on at once, if it has the queue.
    #[inline(never)]
    pub(super) fn places_of_a_queue_inside(&self) -> Option<Concurrency> {
        self.places().is_none().then(|| self.places_for_estimates())
    }

    /// How many requests the application works on at once, configured or [expected](super::places).
    #[inline(never)]
    pub(super) fn places_for_estimates(&self) -> Concurrency {
        self.concurrency().unwrap_or_else(|| self.measured.borrow().places.in_force())
    }

    /// The same, if it is configured or sure.
    pub(super) fn known_concurrency(&self) -> Option<Concurrency> {
        let is_known = self.concurrency().or_else(|| self.estimated_concurrency()).is_some();
        is_known.then(|| self.places_for_estimates())
    }

    /// How many requests the application works on at once, where this is not configured and sure.
    pub fn estimated_concurrency(&self) -> Option<Concurrency> {
        self.measured.borrow().places.sure().filter(|_| self.concurrency().is_none())
    }

    /// Whether the measuring interval is over. To be asked at each departure and a few times a
    /// second; then [`measure`](Self::measure) must end it.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.measured.borrow().departures.is_due(now)
    }

    /// Ends the measuring interval if it is over. Servers made by [`beside`](Self::beside) must
    /// then [`follow`](Self::follow). `totals` are those of the whole server.
    pub(super) fn measure(&mut self, totals: Totals, executing: bool, now: Timestamp) {
        let mut borrowed = self.measured.borrow_mut();
        let measured = &mut *borrowed;
        if measured.departures.is_due(now) {
            // Another configuration may need the estimate.
            let by = measured.places.measure(measured.departures.noise());
            if self.parameters.concurrency().is_none() {
                measured.departures.scale(by);
            }
        }
        measured.departures.measure(totals, executing, now);
        if measured.departures.execution().is_none() {
            // A thread that has not served anything lately sees the totals of the others, but has
            // measured nothing.
            return;
        }
        if let Some(rate) = measured.departures.rate() {
            measured.rate.hear(rate, measured.departures.confidence(), now);
        }
        drop(borrowed);
        self.follow();
    }

    /// Updates the capacity from the measurements, and from what the CPU is enough for. The
    /// estimated concurrency does not count for it.
    #[inline(never)]
    pub fn follow(&mut self) {
        let most = self.measured.borrow().cpu.rate.unwrap_or(f64::INFINITY);
        let rate = self.rate_with(self.concurrency()).map(|measured| measured.min(most));
        self.capacity.serve(rate, self.concurrency());
    }

    /// What the server finishes when it is busy, in requests per second, if that is known.
    pub fn service_rate(&self) -> Option<f64> {
        self.rate_with(self.known_concurrency())
    }

    /// The same with this concurrency, if it is known.
    #[inline(never)]
    pub(super) fn rate_with(&self, concurrency: Option<Concurrency>) -> Option<f64> {
        concurrency.and_then(|places| self.rate_of(places)).or_else(|| self.rate_by_rule())
    }

    /// The service rate that bids and deadlines go by: that of all places that may be there.
    pub(super) fn rate_for_bids(&self) -> Option<f64> {
        self.rate_of(self.places_for_estimates()).or_else(|| self.measured.borrow().rate.get())
    }

    /// The rate by the rule of [`service_rate`](super::service_rate), but at least one request at
    /// a time.
    pub(super) fn rate_by_rule(&self) -> Option<f64> {
        let (rule, least) = (self.measured.borrow().rate.get(), self.rate_of(Concurrency::new(1)));
        rule.map_or(least, |rate| least.map(|least| rate.max(least)).or(rule))
    }

    /// What a server with so many places finishes, in requests per second.
    #[inline(never)]
    pub(super) fn rate_of(&self, places: Concurrency) -> Option<f64> {
        let time = self.measured.borrow().departures.mean().filter(|time| *time > 0.0)?;
        Some(f64::from(places.get()) / time)
    }
}
