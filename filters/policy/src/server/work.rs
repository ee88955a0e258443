//! How much of the application's places each request used, if the queue is inside the application.
//!
//! While `n` requests are in a server with `C` places, each has `min(1, C / n)` of a place on
//! average, in any order of service. A request's work is the integral of that from its arrival to
//! its answer. Its mean over many requests is the execution time.
//!
//! This thread sees `n`, the requests of all threads, only at its own events. It interpolates
//! between them, at an error of up to 6%: `filters/adr/0018-the-execution-time.md`.

use crate::units::{Concurrency, Timestamp};

/// The work of a request that stays, integrated since this thread started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// When this thread last saw the server, and the number of requests in it.
    seen: Timestamp,
    all: u32,
    seconds: f64,
}

fn share(all: u32, places: Concurrency) -> f64 {
    (f64::from(places.get()) / f64::from(all)).min(1.0)
}

impl Work {
    /// A request arrives and meets `others`.
    pub fn arrive(&mut self, others: Concurrency, admitted: bool, places: Concurrency, now: Timestamp) {
        self.pass(others.get(), places, now);
        self.all = others.get().saturating_add(u32::from(admitted));
    }

    /// A request has left the server; `others` remain.
    pub fn leave(&mut self, others: Concurrency, places: Concurrency, now: Timestamp) {
        self.pass(others.get().saturating_add(1), places, now);
        self.all = others.get();
    }

    /// The integral, in seconds of one place. The difference of two values is a request's work.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Integrates up to `now`, when `all` requests are in the server.
    fn pass(&mut self, all: u32, places: Concurrency, now: Timestamp) {
        let share = (share(self.all, places) + share(all, places)) / 2.0;
        self.seconds += now.since(self.seen).as_secs_f64() * share;
        self.seen = now;
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
