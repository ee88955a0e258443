//! The execution time of a server: a mean with a long memory, and a test for change.
//!
//! A mean over few requests is noisy, and each server's is wrong in its own way. Then bids compare
//! errors instead of queues. A mean over many is slow to follow a change. So this is both:
//!
//! - **mean** (s): all requests count equally at first, then the newest with weight `1 / N`, `N =
//!   max(400 cv^2, 40 C)` requests. `cv^2` is the squared coefficient of variation of the execution
//!   times, estimated with the same weights, and `C` the concurrency, configured or expected
//!   ([`crate::server::places`]), at most 100. So the standard error is 5% or less once `N`
//!   requests have been seen, 3.5% in the long run;
//! - **change**: two CUSUM tests, for slower and for faster, on the logarithms of the means of
//!   batches of `max(4, C / 4)` requests. A batch whose logarithm is `d` above its usual value, cut
//!   at two standard deviations or 0.8, whichever is more, scores `s / v * (d - s / 2)`, `s` =
//!   0.65: the logarithm of the likelihood of times that are twice as long, by that of the usual
//!   ones. `v` is the variance of these logarithms, at least 0.1, times `(1 + r) / (1 - r)` for the
//!   correlation `r` of one batch with the next: many places make batches that resemble each other.
//!   A sum below 0 begins anew. A sum keeps the `v` with which it began, since a change raises both
//!   variance and correlation. Above [`bar`] the mean starts anew from the batches in the sum.
//!   Until then they have the weight `(sum / bar)^3` in what is reported;
//! - **idle time** lets the past count for `1 / (1 + (idle / 2 s)^4)`: a server that took itself
//!   for slow would be asked ever more rarely, and would never learn better. Pauses between
//!   requests of a busy server hardly count.
//!
//! A request that takes more than 50 times the mean does not count for the mean once four are
//! known: a stall of a minute is no execution time. Batches count in full, so a change is followed
//! whatever its size. Where late answers have raised the mean without an alarm, the usual logarithm
//! is raised too, to that of the mean less 1: then the next batches look faster. The batches of an
//! alarm say little about `cv^2`, and those before it are from other times; it starts as 1. How
//! sure the new mean is goes by the `cv^2` before as well: an alarm may be false where times vary.
//! So 300 requests after a stall of a minute the mean is within an eighth (fixed and exponential
//! times, 90% of 40 trials).
//!
//! The first batches have a low bar, since a slow start must be forgotten fast, and a false alarm
//! costs little while little is known. Logarithms, and the cut, because times with a heavy tail
//! make sums of raw times jump. Cost: a few multiplications a request, one logarithm and one square
//! root a batch.
//!
//! Measured by this module's tests: times are doubled or halved after 3,000 requests; the error
//! within which 90% of 200 trials are 150 and 400 requests later:
//!
//! | times | slower | faster | false alarms in 20,000 requests |
//! |---|---|---|---|
//! | fixed | 0, 0 | 0, 0 | 0 |
//! | exponential | 15%, 8% | 13%, 7% | 0.06 |
//! | lognormal, sigma 1.5 | 45%, 23% | 74%, 21% | 0 |
//! | 95% 10 ms, 5% 400 ms | 46%, 23% | 75%, 23% | 1.0 |
//!
//! Lognormal times with sigma 1.5 have a `cv^2` of 8.5: a mean over 150 of them has a standard
//! error of 24% even if the instant of the change is known.

use crate::units::Concurrency;
use crate::wire::offer;
use std::mem::take;
use std::time::Duration;

/// The memory in requests, by `cv^2`.
const MEMORY: f64 = 400.0;
/// The memory in requests, by place.
const MEMORY_PER_PLACE: f64 = 40.0;
/// So many places count, at most: a change must be noticed, however many there are.
const MOST_PLACES: f64 = 100.0;
/// A request that takes more than so many times the mean does not count for it, once so many
/// requests are known.
const OUTLIER: (f64, f64) = (50.0, 4.0);
/// The usual logarithm of batches is below that of the mean by at most this.
const MOST_BELOW: f64 = 1.0;
/// Requests in a batch, at least.
const BATCH: f64 = 4.0;
/// Requests in a batch, by place.
const BATCH_PER_PLACE: f64 = 0.25;
/// The change of the logarithm that the tests look for.
const SHIFT: f64 = 0.65;
/// Where the logarithms of batches are cut: in standard deviations, and at least.
const CUT: (f64, f64) = (2.0, 0.8);
/// The variance of the logarithms of batches at the start, and what it counts for in batches.
const PRIOR: (f64, f64) = (0.5, 8.0);
/// The least variance of the logarithms of batches.
const LEAST_VARIANCE: f64 = 0.1;
/// The highest correlation of batches that is believed.
const MOST_CORRELATION: f64 = 0.9;
/// After this many idle seconds the past counts half.
const HALF_LIFE: f64 = 2.0;
/// The most that is believed of the squared coefficient of variation before an alarm: a stall makes
/// it huge.
const MOST_NOISE_BEFORE: f64 = 10.0;
/// The least squared coefficient of variation by which a mean is judged.
const LEAST_CV2: f64 = 0.01;
/// The longest time in seconds that is believed, 31 years.
const LONGEST: f64 = 1e9;
/// The shortest mean of a batch in seconds that has a logarithm of its own.
const SHORTEST: f64 = 1e-9;

/// By what the past counts less after this idle time.
pub(crate) fn aging(idle: Duration) -> f64 {
    1.0 + (idle.as_secs_f64() / HALF_LIFE).powi(4)
}

/// The score at which the mean starts anew, when the past counts for this many batches.
fn bar(batches: f64) -> f64 {
    (2.0 + 0.2 * batches).min(10.0)
}

/// Batches whose scores add up to more than 0.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    score: f64,
    /// What a shift of 1 scores.
    unit: f64,
    requests: f64,
    seconds: f64,
    /// By how much their logarithms differ from the usual one, times their requests.
    shift: f64,
}

impl Run {
    /// Adds a batch. `toward`: by how much it is shifted the way that this tests for, cut.
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
    /// Seconds.
    mean: f64,
    variance: f64,
    /// The squared coefficient of variation before the last alarm.
    noise_before: f64,
    /// How many requests the past counts for.
    seen: f64,
    /// The batch that is being filled: requests, seconds.
    batch: (f64, f64),
    /// The usual logarithm of a batch's mean, its variance, and its covariance with the next.
    log: f64,
    log_variance: f64,
    log_covariance: f64,
    /// By how much the last batch's logarithm differed.
    last: f64,
    slower: Run,
    faster: Run,
    /// The mean of the batches that look like a change, in seconds, and how far it is believed.
    recent: f64,
    belief: f64,
    /// Whether the last request has made the mean start anew.
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
    /// The server was idle for this long.
    pub fn rest(&mut self, idle: Duration) {
        let by = aging(idle);
        self.seen /= by;
        self.belief /= by;
    }

    /// A request took this many `seconds` of one of these `places`.
    pub fn hear(&mut self, seconds: f64, places: Concurrency) {
        self.changed = false;
        let (seconds, places) = (seconds.min(LONGEST), f64::from(places.get()).min(MOST_PLACES));
        // Where it is not a number, the other bound holds.
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

    /// Tests for a change with a full batch.
    fn test(&mut self, requests: f64, seconds: f64) {
        let log = (seconds / requests).max(SHORTEST).ln();
        let batches = self.seen / requests;
        if batches <= 1.0 {
            // The first, or all before it is forgotten.
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

    /// The execution time of a server of a fleet with the execution time `fleet`: its own as far as
    /// it surely differs, after this idle time; in seconds.
    pub fn among(&self, fleet: f64, idle: Duration) -> Option<f64> {
        self.mean()?;
        let noise = self.noise_before.max(LEAST_CV2);
        let variance = self.variance.max(noise * self.mean * self.mean) / (self.seen / aging(idle));
        Some(offer::shrink(self.mean, variance, fleet))
    }

    /// Whether a time in seconds does not count for the mean.
    pub fn is_outlier(&self, seconds: f64) -> bool {
        self.seen > OUTLIER.1 && seconds > OUTLIER.0 * self.mean
    }

    /// Whether the last request has shown that times are others than before.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// The squared coefficient of variation. Not a number before the first request, and for times
    /// of 0.
    pub fn noise(&self) -> f64 {
        self.variance / (self.mean * self.mean)
    }

    /// All requests so far have taken longer by this factor than was heard.
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
