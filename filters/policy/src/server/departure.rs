//! What is measured of a request between its arrival and its answer.

use super::Server;
use super::departures::Flag;
use crate::units::{Concurrency, Timestamp};
use std::time::Duration;

/// Tolerance in seconds: rounding may make a request's work exceed its response time.
const ROUNDING: f64 = 1e-3;

impl Server {
    /// The flag of a request that has just arrived and met `others`. `bid`: whether it made one.
    pub(super) fn flag(&self, others: Concurrency, bid: bool) -> Flag {
        let measured = self.measured.borrow();
        let mut flag = measured.departures.arrive(self.waiting(others));
        (flag.others, flag.bid) = (others, bid);
        flag.work = self.places_of_a_queue_inside().map(|_| measured.work.seconds());
        flag
    }

    /// The application has answered a request, `took` after the hand-over; `others` are left in the
    /// server. Returns whether the request was confident.
    pub(super) fn depart(&mut self, flag: Flag, took: Duration, others: Concurrency, now: Timestamp) -> bool {
        let (inside, is_told) = (self.places_of_a_queue_inside(), self.concurrency().is_some());
        let (places, queue) = (self.places_for_estimates(), self.waiting(others));
        let mut measured = self.measured.borrow_mut();
        let took_seconds = took.as_secs_f64();
        // A request that arrived under another configuration is not measured.
        let work = match (inside, flag.work) {
            (None, then) => then.is_none().then_some(took_seconds),
            (Some(places), then) => {
                measured.work.leave(others, places, now);
                let turns = (f64::from(flag.others.get()) + 1.0) / f64::from(places.get());
                if !is_told && !measured.departures.is_outlier(took_seconds / turns.max(1.0)) {
                    measured.places.observe(flag.others, took);
                }
                // A request may outlive all configurations and measurements: hence the range check.
                let work = then.map(|then| measured.work.seconds() - then);
                work.filter(|work| (0.0..=took_seconds + ROUNDING).contains(work))
            }
        };
        // While the server bounces bids, only requests with a bid count; the rest may be heavier.
        // Any answer that counts ends the probe.
        let counts = flag.bid || !measured.probes.bounces(now);
        if counts {
            measured.probes.end();
        }
        let work = work.filter(|_| counts);
        let confident = measured.departures.depart(flag, took, (work, places), queue, now);
        if work.is_some() && measured.departures.has_changed() {
            measured.places.change();
        }
        // `took` is pure execution time only if the request did not queue in the application.
        if work.is_some() && (inside.is_none() || flag.others == Concurrency::new(0)) {
            let mean = measured.departures.mean().unwrap_or_default();
            measured.remaining.observe(took_seconds, mean);
        }
        drop(measured);
        self.follow();
        confident
    }

    /// A request admitted at `arrived` left without the application's answer; `others` remain.
    pub(super) fn vanish(&mut self, others: Concurrency, arrived: Timestamp, now: Timestamp) {
        self.measured.borrow_mut().probes.leave(arrived);
        if let Some(places) = self.places_of_a_queue_inside() {
            self.measured.borrow_mut().work.leave(others, places, now);
        }
    }
}
