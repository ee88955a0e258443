//! How much longer the request takes that is being worked on, where the application has one place.
//!
//! A request meets one that runs, and perhaps some that wait. Of those that wait nothing is known
//! but the mean execution time `S`. Of the one that runs its age `a` is known, and its mean rest is
//!
//! `E[X - a | X > a] = S + k * a`, `k = (v - 1) / (v + 1)`
//!
//! for execution times `X` with the squared coefficient of variation `v`: exactly where they are
//! fixed (`k` = -1), uniform from 0 on, exponential (0), or of a Pareto distribution that begins at
//! 0. An offer that counts the running request as `S` is too high or too low by
//!
//! `0.75 * (k * a + max(0, 0.45 * (1 - v)) * S)`
//!
//! - **0.75**: `v` has an error, and so has `S`. With all of it, bids pick more of the same servers
//!   at once.
//! - **The last term**: callers make bids from reports, which count a running request as one `S`.
//!   At a random moment its rest is shorter where times vary little: by `(1 - v) / 2 * S`, which is
//!   `-k` times the mean age. Without the term all offers would be below what bids are made of, and
//!   too many requests accept the first server. 0.45 instead of a half saves attempts for the same
//!   p99. Where times vary much, the rest is longer than `S`, but the term would be below 0, and
//!   hide what matters there: that a long request runs.
//!
//! **An impossible age.** Where times vary little, no request becomes older than `S / -k`. If one
//! is twice as old, or older than 50 `S`, then the application hangs, or the start is that of
//! another request: its rest counts as `S`, as in a report.
//!
//! `v` comes from the requests whose start is known for sure. The newest has the weight 1/100, and
//! counts for at most 20 `S`. It is divided by the `S` of its time, which is right soon after a
//! change of speed. Cold start: `v` = 1, so that no age matters. Cost: a few additions a request,
//! and for each one that meets another.
//!
//! Not in the papers. What was tried is in `filters/adr/0021-the-age-of-the-running-request.md`.

use std::time::Duration;

/// How much of what the age says is believed.
const BELIEF: f64 = 0.75;
/// How much shorter the running request's rest is taken to be on average than `S`, where times are
/// fixed, in `S`.
const TYPICAL: f64 = 0.45;
/// The weight of the newest execution time is 1 by the requests heard and the first of these, or 1
/// by the second.
const MEMORY: (f64, f64) = (9.0, 100.0);
/// A request counts for at most this many times the mean execution time.
const OUTLIER: f64 = 20.0;
/// No request is so many times the mean execution time old.
const OLDEST: f64 = 50.0;

/// What the execution times say about the rest of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rest {
    heard: f64,
    /// By how much the squared coefficient of variation exceeds 1.
    over: f64,
}

impl Rest {
    /// A request took this many seconds to execute, where the mean is `mean` seconds.
    pub fn hear(&mut self, took: f64, mean: f64) {
        // By 0, it counts for the most.
        let ratio = (took / mean).min(OUTLIER);
        self.heard += 1.0;
        self.over += (ratio * ratio - 2.0 - self.over) / (self.heard + MEMORY.0).min(MEMORY.1);
    }

    /// By how many seconds the rest of a request of this age exceeds the mean execution time, which
    /// is `mean` seconds, in comparison with a report; at least `-mean`.
    pub fn excess(&self, age: Duration, mean: f64) -> f64 {
        let age = age.as_secs_f64();
        // Squares that were divided by too large a mean may be too small.
        let over = self.over.max(-1.0);
        let longer = age * over / (over + 2.0);
        if longer < -2.0 * mean || age > OLDEST * mean {
            return 0.0;
        }
        (BELIEF * (longer - TYPICAL * over.min(0.0) * mean)).max(-mean)
    }
}

#[cfg(test)]
#[path = "age_tests.rs"]
mod tests;
