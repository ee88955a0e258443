//! The execution time of a server: a mean with a long memory, and a test for change.
//!
//! A mean over few requests is noisy, so bids would compare errors instead of queues. A mean over
//! many is slow to follow a change. Therefore:
//!
//! - the mean (s) covers `max(400 cv^2, 40 C)` requests: a standard error of 3.5%;
//! - two CUSUM tests on the logarithms of batch means, for slower and for faster, restart it;
//! - idle time lets the past count for less.
//!
//! The derivation and measured errors are in `filters/adr/0018-the-execution-time.md`.

use crate::units::Concurrency;
use crate::wire::offer;
use std::mem::take;
use std::time::Duration;

/// Memory in requests, per `cv^2`.
const MEMORY: f64 = 400.0;
/// Memory in requests, per place.
const MEMORY_PER_PLACE: f64 = 40.0;
/// Most places that count: with more, changes would go unnoticed for too long.
const MOST_PLACES: f64 = 100.0;
/// A request beyond this multiple of the mean does not count for the mean, once this many requests
/// are known: a stall of a minute is no execution time.
const OUTLIER: (f64, f64) = (50.0, 4.0);
/// Most by which the batches' usual logarithm is below that of the mean.
const MOST_BELOW: f64 = 1.0;
/// Least requests in a batch.
const BATCH: f64 = 4.0;
/// Requests in a batch, per place.
const BATCH_PER_PLACE: f64 = 0.25;
/// Change of the logarithm that the tests look for: a factor of about two.
const SHIFT: f64 = 0.65;
/// Cut of the logarithms: in standard deviations, and at least. Heavy tails need it.
const CUT: (f64, f64) = (2.0, 0.8);
/// Initial variance of the logarithms of batches, and its weight in batches.
const PRIOR: (f64, f64) = (0.5, 8.0);
/// Least variance of the logarithms of batches.
const LEAST_VARIANCE: f64 = 0.1;
/// Highest correlation of batches that is believed.
const MOST_CORRELATION: f64 = 0.9;
/// Idle seconds after which the past counts half.
const HALF_LIFE: f64 = 2.0;
/// Greatest `cv^2` that is kept across an alarm: a stall makes it huge.
const MOST_NOISE_BEFORE: f64 = 10.0;
/// Least `cv^2` by which a mean is judged.
const LEAST_CV2: f64 = 0.01;
/// Longest time in seconds that is believed, 31 years.
const LONGEST: f64 = 1e9;
/// Shortest mean of a batch in seconds that has its own logarithm.
const SHORTEST: f64 = 1e-9;

/// The divisor of the past's weight after this idle time.
pub(crate) fn aging(idle: Duration) -> f64 {
    1.0 + (idle.as_secs_f64() / HALF_LIFE).powi(4)
}

/// The score of an alarm, when the past counts for this many batches. Low at first: a slow start
/// must be forgotten fast, and a false alarm then costs little.
fn bar(batches: f64) -> f64 {
    (2.0 + 0.2 * batches).min(10.0)
}

/// A run of batches with a positive sum of scores.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    score: f64,
    /// Score of a shift of 1, kept for the run: a change would raise variance and correlation.
    unit: f64,
    requests: f64,
    seconds: f64,
    /// Difference of the logarithms from the usual one, summed over requests.
    shift: f64,
}

impl Run {
    /// Adds a batch. `toward`: its shift in the direction under test, cut.
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
    /// `cv^2` before the last alarm, which may have been false.
    noise_before: f64,
    /// Weight of the past, in requests.
    seen: f64,
    /// The current batch: requests, seconds.
    batch: (f64, f64),
    /// Usual logarithm of a batch's mean, its variance, and its covariance with the next.
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
    /// Ages the past after an idle time. Otherwise a server that wrongly seems slow is asked ever
    /// more rarely, and never corrects itself.
    pub fn idle(&mut self, idle: Duration) {
        let by = aging(idle);
        self.seen /= by;
        self.belief /= by;
    }

    /// A request took this many `seconds` of one of the `places`.
    pub fn observe(&mut self, seconds: f64, places: Concurrency) {
        self.changed = false;
        let (seconds, places) = (seconds.min(LONGEST), f64::from(places.get()).min(MOST_PLACES));
        // If the noise is NaN, the other bound holds.
        self.seen = (self.seen + 1.0).min((MEMORY * self.noise()).max(MEMORY_PER_PLACE * places));
        let heard = if self.is_outlier(seconds) { self.mean } else { seconds };
        let difference = heard - self.mean;
        self.mean += difference / self.seen;
        self.variance += (difference * (heard - self.mean) - self.variance) / self.seen;
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

    /// The execution time in seconds, compared with a fleet's: the own one as far as it surely
    /// differs from `fleet`, after this idle time.
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

    /// Corrects all times so far by this factor.
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
