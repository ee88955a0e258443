//! The mean time that a server's application executes a request, without waiting: a mean with a
//! long memory, and a test for change.
//!
//! A mean over few requests is noisy: senders would compare errors instead of queues. A mean over
//! many is slow to follow a change. Therefore:
//!
//! - the mean, in seconds, covers `max(400 cv^2, 40 C)` requests, with `cv` the coefficient of
//!   variation and `C` the number of requests that the application executes at once (places);
//! - two CUSUM tests on the logarithms of batch means, for slower and for faster, restart the mean
//!   from the batches that show the change;
//! - idle time discounts the past.
//!
//! The derivation of each constant, and measured errors: `filters/adr/0018-the-execution-time.md`.

use crate::units::Concurrency;
use crate::wire::offer;
use std::mem::take;
use std::time::Duration;

/// Memory in requests, per `cv^2`.
const MEMORY: f64 = 400.0;
/// Memory in requests, per place.
const MEMORY_PER_PLACE: f64 = 40.0;
/// Places beyond these do not count: otherwise changes go unnoticed for too long.
const MOST_PLACES: f64 = 100.0;
/// A request beyond the first number of means counts as the mean, once the past weighs the second
/// number of requests: so a stall does not count. It counts in full for its batch, since it may be
/// the first one after a change.
const OUTLIER: (f64, f64) = (50.0, 4.0);
/// The tests' reference (a logarithm) stays at most this much below that of the mean. So a mean
/// that rose without an alarm, as after a stall, makes later batches look faster.
const MOST_BELOW: f64 = 1.0;
/// Least requests in a batch.
const BATCH: f64 = 4.0;
/// Requests in a batch, per place.
const BATCH_PER_PLACE: f64 = 0.25;
/// Change of the logarithm that the tests look for: a factor of about two.
const SHIFT: f64 = 0.65;
/// The shifts of batches are clamped to the first number of standard deviations, or to the second
/// number if that is more. Heavy tails need it.
const CUT: (f64, f64) = (2.0, 0.8);
/// The initial variance of the logarithms of batches, and its weight in batches.
const PRIOR: (f64, f64) = (0.5, 8.0);
/// Least variance of the logarithms of batches.
const LEAST_VARIANCE: f64 = 0.1;
/// Highest correlation of batches that is believed.
const MOST_CORRELATION: f64 = 0.9;
/// After this many idle seconds the past counts half. This is not exponential: after twice as many
/// it counts a seventeenth.
const HALF_LIFE: f64 = 2.0;
/// The largest `cv^2` that is kept across a change, because one stall makes it huge.
const MOST_NOISE_BEFORE: f64 = 10.0;
/// A lower `cv^2` counts as this one in a standard error.
const LEAST_CV2: f64 = 0.01;
/// Longer times, in seconds, count as this one (31 years).
const LONGEST: f64 = 1e9;
/// A shorter mean of a batch, in seconds, counts as this one in a logarithm.
const SHORTEST: f64 = 1e-9;

/// The divisor of the weight of the past after this idle time.
pub(crate) fn aging(idle: Duration) -> f64 {
    1.0 + (idle.as_secs_f64() / HALF_LIFE).powi(4)
}

/// The score that means a change, when the past weighs this many batches. Low at first: a slow
/// start must be forgotten fast, and a false alarm then costs little.
fn bar(batches: f64) -> f64 {
    (2.0 + 0.2 * batches).min(10.0)
}

/// A run of batches with a positive sum of scores.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    score: f64,
    /// The score for each unit of shift, as it was when the run began: the change itself raises
    /// variance and correlation.
    unit: f64,
    requests: f64,
    seconds: f64,
    /// The difference of the logarithms from the reference, not clamped, summed over requests.
    shift: f64,
}

impl Run {
    /// Adds a batch. `toward`: its shift in the direction under test, clamped.
    fn add(&mut self, unit: f64, toward: f64, (requests, seconds, shift): (f64, f64, f64)) {
        if self.requests == 0.0 {
            self.unit = unit;
        }
        self.score += self.unit * (toward - SHIFT / 2.0);
        self.requests += requests;
        self.seconds += seconds;
        self.shift += shift * requests;
        if self.score < 0.0 {
            *self = Self::default();
        }
    }
}

/// The mean execution time.
#[derive(Clone, Debug)]
pub struct Execution {
    /// In seconds.
    mean: f64,
    variance: f64,
    /// `cv^2` before the last alarm. If that was false, this is the true one, so standard errors
    /// use the larger of the two.
    noise_before: f64,
    /// Weight of the past, in requests.
    seen: f64,
    /// The current batch: requests, seconds.
    batch: (f64, f64),
    /// The reference: the usual logarithm of a batch's mean, its variance, its covariance with the
    /// next one, and the last batch's shift.
    log: f64,
    log_variance: f64,
    log_covariance: f64,
    last: f64,
    slower: Run,
    faster: Run,
    /// The mean of the batches of the leading run in seconds, and its weight in the result, 0 to 1.
    recent: f64,
    belief: f64,
    changed: bool,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            mean: 0.0,
            variance: 0.0,
            noise_before: 0.0,
            seen: 0.0,
            batch: (0.0, 0.0),
            log: 0.0,
            log_variance: PRIOR.0,
            log_covariance: 0.0,
            last: 0.0,
            slower: Run::default(),
            faster: Run::default(),
            recent: 0.0,
            belief: 0.0,
            changed: false,
        }
    }
}

impl Execution {
    /// Ages the past after idle time. Otherwise a server that wrongly seems slow gets fewer and
    /// fewer requests, and never corrects itself.
    pub fn idle(&mut self, idle: Duration) {
        let by = aging(idle);
        self.seen /= by;
        self.belief /= by;
    }

    /// Records a request that took this many `seconds` of one of the `places`.
    pub fn observe(&mut self, seconds: f64, places: Concurrency) {
        self.changed = false;
        let (seconds, places) = (seconds.min(LONGEST), f64::from(places.get()).min(MOST_PLACES));
        // `max` ignores a noise that is NaN.
        self.seen = (self.seen + 1.0).min((MEMORY * self.noise()).max(MEMORY_PER_PLACE * places));
        let counted = if self.is_outlier(seconds) { self.mean } else { seconds };
        let difference = counted - self.mean;
        self.mean += difference / self.seen;
        self.variance += (difference * (counted - self.mean) - self.variance) / self.seen;
        self.batch.0 += 1.0;
        self.batch.1 += seconds;
        if self.batch.0 >= (BATCH_PER_PLACE * places).max(BATCH) {
            let (requests, seconds) = take(&mut self.batch);
            self.test(requests, seconds);
        }
    }

    fn test(&mut self, requests: f64, seconds: f64) {
        let log = (seconds / requests).max(SHORTEST).ln();
        let batches = self.seen / requests;
        if batches <= 1.0 {
            // The first batch, or all earlier ones are forgotten.
            let Self { mean, variance, noise_before, seen, .. } = *self;
            *self = Self { mean, variance, noise_before, seen, log, ..Self::default() };
            return;
        }
        self.log = self.log.max(self.mean.ln() - MOST_BELOW);
        let variance = self.log_variance.max(LEAST_VARIANCE);
        let cut = (CUT.0 * variance.sqrt()).max(CUT.1);
        let shift = (log - self.log).clamp(-cut, cut);
        let correlation = (self.log_covariance / variance).clamp(0.0, MOST_CORRELATION);
        let unit = SHIFT / variance * (1.0 - correlation) / (1.0 + correlation);
        let batch = (requests, seconds, log - self.log);
        self.slower.add(unit, shift, batch);
        self.faster.add(unit, -shift, batch);
        let run = if self.slower.score > self.faster.score { self.slower } else { self.faster };
        self.recent = run.seconds / run.requests.max(1.0);
        self.belief = (run.score / bar(batches)).powi(3);
        if self.belief > 1.0 {
            self.noise_before = self.noise().min(MOST_NOISE_BEFORE);
            (self.mean, self.seen, self.belief) = (self.recent, run.requests, 0.0);
            self.changed = true;
            // Assume the variance of exponential times until there are new ones.
            self.variance = self.mean * self.mean;
            self.log += run.shift / run.requests;
            (self.slower, self.faster) = (Run::default(), Run::default());
            return;
        }
        self.log += shift / batches;
        self.log_variance += (shift * shift - self.log_variance) / (batches + PRIOR.1);
        self.log_covariance += (shift * self.last - self.log_covariance) / (batches + PRIOR.1);
        self.last = shift;
    }

    /// The execution time in seconds for a comparison with the fleet's (the mean of all servers'),
    /// shrunk toward that by at most three standard errors ([`offer::shrink`]). `idle`: idle time
    /// that has not aged the past yet.
    pub fn among(&self, fleet: f64, idle: Duration) -> Option<f64> {
        self.mean()?;
        let noise = self.noise_before.max(LEAST_CV2);
        let variance = self.variance.max(noise * self.mean * self.mean) / (self.seen / aging(idle));
        Some(offer::shrink(self.mean, variance, fleet))
    }

    /// Whether a time in seconds is too long to count for the mean.
    pub fn is_outlier(&self, seconds: f64) -> bool {
        self.seen > OUTLIER.1 && seconds > OUTLIER.0 * self.mean
    }

    /// Whether the last request has revealed a change.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The squared coefficient of variation. NaN before the first request, and for times of 0.
    pub fn noise(&self) -> f64 {
        self.variance / (self.mean * self.mean)
    }

    /// Multiplies all times so far by this factor, when the estimate of the places has changed.
    #[inline(never)]
    pub fn scale(&mut self, by: f64) {
        self.mean *= by;
        self.variance *= by * by;
        self.batch.1 *= by;
        self.recent *= by;
        self.log += by.ln();
        for run in [&mut self.slower, &mut self.faster] {
            run.seconds *= by;
        }
    }

    /// The mean execution time in seconds, if there is one.
    pub fn mean(&self) -> Option<f64> {
        (self.seen > 0.0).then_some(self.mean + self.belief * (self.recent - self.mean))
    }
}

#[cfg(test)]
mod tests;
