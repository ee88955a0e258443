//! How long the running request will still take, in an application with one place.
//!
//! For execution times `X` with mean `S` and squared coefficient of variation `v`, the mean rest at
//! age `a` is `E[X - a | X > a] = S + k * a`, with `k = (v - 1) / (v + 1)`. Offers that count the
//! running request as `S` are off by
//!
//! `0.75 * (k * a + max(0, 0.45 * (1 - v)) * S)`
//!
//! `v` starts as 1. Derivation: `filters/adr/0021-the-age-of-the-running-request.md`.

use std::time::Duration;

/// Share of the correction that is applied, because `v` and `S` have errors.
const BELIEF: f64 = 0.75;
/// By how much less than `S` a report should count a running request if times are fixed, in `S`.
/// Without this term, too many requests accept the first server.
const TYPICAL: f64 = 0.45;
/// Weight of the newest execution time: `1 / min(requests + first, second)`.
const MEMORY: (f64, f64) = (9.0, 100.0);
/// Execution times are cut at this multiple of the mean.
const OUTLIER: f64 = 20.0;
/// Older running requests, in multiples of the mean, have hung, or their start is wrong.
const OLDEST: f64 = 50.0;

/// What the variation of the execution times says about a request's rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RemainingTime {
    heard: f64,
    /// `v - 1`.
    over: f64,
}

impl RemainingTime {
    /// A request took `took` seconds to execute, where the mean is `mean` seconds. Only for
    /// requests whose start is known for sure.
    pub fn observe(&mut self, took: f64, mean: f64) {
        // If the mean is 0, the ratio is `OUTLIER`.
        let ratio = (took / mean).min(OUTLIER);
        self.heard += 1.0;
        self.over += (ratio * ratio - 2.0 - self.over) / (self.heard + MEMORY.0).min(MEMORY.1);
    }

    /// How many seconds the rest of a request of this age exceeds what a report assumes, given a
    /// mean of `mean` seconds; at least `-mean`. 0 for an impossible age, as in a report.
    pub fn excess(&self, age: Duration, mean: f64) -> f64 {
        let age = age.as_secs_f64();
        // Dividing by too large a mean may have made the squares too small.
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
