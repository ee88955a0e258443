//! How much of the application's places a request had, where the queue is in the application.
//!
//! While `n` requests are in a server with `C` places, `min(n, C)` are worked on: each has
//! `min(1, C / n)` of a place on average, whatever the order. This integrates that over time, and
//! the part of a request is the difference between its arrival and its answer. It is never more
//! than the request took. Over many requests its mean is the execution time: exact with one thread,
//! for any distribution, if every request is answered and leaves the server then.
//!
//! `n` counts the requests of all threads, and is known at this thread's events only. Between two
//! of them a request's part is taken to be the mean of both. With four threads that serve 70, 20, 8
//! and 2% of the requests, one place, 90% load, this is off by 0, -2, -4 and -5% for fixed times,
//! by less than 1% for exponential ones, and by 0, 2, 4 and 6% for 95% 10 ms and 5% 400 ms; with
//! four places by at most 3% (this module's tests).
//!
//! Requests that wait for an event, and those that are reset, have places as if they were worked
//! on, but their time is not measured: they may make a server look faster, never slower.

use crate::units::{Concurrency, Timestamp};

/// What part of a place each request had, integrated since this thread started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// When this thread saw the server last, and the requests in it then.
    seen: Timestamp,
    all: u32,
    /// In seconds of a place.
    seconds: f64,
}

/// The part of a place that each of `all` requests has on average.
fn share(all: u32, places: Concurrency) -> f64 {
    (f64::from(places.get()) / f64::from(all)).min(1.0)
}

impl Work {
    /// A request arrives and meets `others`, and is admitted or not.
    pub fn arrive(&mut self, others: Concurrency, admitted: bool, places: Concurrency, now: Timestamp) {
        self.pass(others.get(), places, now);
        self.all = others.get().saturating_add(u32::from(admitted));
    }

    /// A request has left the server, where `others` are.
    pub fn leave(&mut self, others: Concurrency, places: Concurrency, now: Timestamp) {
        self.pass(others.get().saturating_add(1), places, now);
        self.all = others.get();
    }

    /// The seconds of a place that each request has had which was there all the time. The
    /// difference is what a request had.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Adds up to `now`, when `all` requests are in the server.
    fn pass(&mut self, all: u32, places: Concurrency, now: Timestamp) {
        let share = (share(self.all, places) + share(all, places)) / 2.0;
        self.seconds += now.since(self.seen).as_secs_f64() * share;
        self.seen = now;
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
