//! Estimates how many requests the application works on at once (its *places*), if not configured.
//!
//! A request that arrives as the `n`th takes about `S * max(1, n / C)` in a server with `C` places
//! and the execution time `S`. Each thread counts requests and sums response times by level `n`,
//! and rates each `C` by its likelihood:
//! `filters/adr/0020-a-concurrency-that-is-not-configured.md`.
//!
//! Cold start: one place. Cost: a few additions a request, two logarithms a level and interval.

use crate::units::Concurrency;
use std::time::Duration;

/// Levels: 1 to 7 exactly, then four an octave. The last one is 2,048 requests and more.
const LEVELS: usize = 40;
/// Requests in a batch.
const BATCH: f64 = 1000.0;
/// Weight of the past after each batch.
const MEMORY: f64 = 0.9;
/// Log-likelihood by which the best `C` must beat another that is ruled out.
const BAR: f64 = 3.0;
/// Log-likelihood by which a single batch must contradict the past, which is then forgotten.
const CHANGE: f64 = 5.0;
/// Least squared coefficient of variation that is believed.
const LEAST_NOISE: f64 = 0.3;

/// The level of `n` requests: 0 for one.
#[inline(never)]
fn level(n: u32) -> usize {
    // The leading bit gives the octave, the next two bits the level within it.
    let octave = 29_u32.saturating_sub(n.leading_zeros());
    ((4 * octave + (n >> octave)).saturating_sub(1) as usize).min(LEVELS - 1)
}

/// The number of requests in the middle of a level.
#[inline(never)]
fn requests(level: usize) -> u32 {
    let n = level as u32 + 1;
    let octave = (n / 4).saturating_sub(1);
    ((n - 4 * octave) << octave) + (1 << octave) / 2
}

/// The log-likelihood of a number of places, and the sum of all execution times under it.
#[derive(Clone, Copy, Debug)]
struct Fit {
    likelihood: f64,
    seconds: f64,
}

/// One thread's estimate of the application's places.
#[derive(Clone, Debug)]
pub struct Places {
    /// The current batch, by level: requests and their seconds.
    batch: [(f64, f64); LEVELS],
    /// Log-likelihood from earlier batches, by level.
    past: [f64; LEVELS],
    /// The highest levels of the last batch and of the current one.
    highest: (usize, usize),
    /// The lowest and the highest level that are likely.
    lower: usize,
    upper: usize,
    /// The most likely level, and whether it is sure.
    best: usize,
    sure: bool,
}

impl Default for Places {
    fn default() -> Self {
        let (batch, past) = ([(0.0, 0.0); LEVELS], [0.0; LEVELS]);
        Self { batch, past, highest: (0, 0), lower: 0, upper: LEVELS - 1, best: 0, sure: false }
    }
}

impl Places {
    /// A request arrives and meets `others`.
    #[inline(never)]
    pub fn arrived(&mut self, others: Concurrency) {
        self.highest.1 = self.highest.1.max(level(others.get().saturating_add(1)));
    }

    /// A request that met `others` was answered after `took`.
    #[inline(never)]
    pub fn observe(&mut self, others: Concurrency, took: Duration) {
        if let Some((requests, seconds)) = self.batch.get_mut(level(others.get().saturating_add(1))) {
            *requests += 1.0;
            *seconds += took.as_secs_f64();
        }
    }

    /// The execution time has changed. The current batch would mix both times, so it starts again.
    pub fn change(&mut self) {
        self.batch.fill((0.0, 0.0));
    }

    /// Ends a measuring interval. `noise`: the squared coefficient of variation of the execution
    /// times. Returns the factor by which the new estimate corrects the execution time.
    #[inline(never)]
    pub fn measure(&mut self, noise: f64) -> f64 {
        let noise = noise.max(LEAST_NOISE);
        // For requests at this level and above: their number, and their seconds divided by `n`.
        let (mut left, mut shares) = (0.0, 0.0);
        for (of, (heard, took)) in self.batch.iter().enumerate() {
            left += heard;
            shares += took / f64::from(requests(of));
        }
        if shares <= 0.0 {
            return 1.0;
        }
        let all = left;
        let mut fits = Vec::with_capacity(LEVELS);
        // For requests below: the sum of `ln n`, and their seconds.
        let (mut logarithms, mut below) = (0.0, 0.0);
        for (of, (heard, took)) in self.batch.iter().enumerate() {
            let n = f64::from(requests(of));
            let (logarithm, seconds) = (n.ln(), below + shares * n);
            let likelihood = (logarithms + left * logarithm - all * seconds.ln()) / noise;
            fits.push(Fit { likelihood, seconds });
            logarithms += heard * logarithm;
            left -= heard;
            below += took;
            shares -= took / n;
        }
        let before = fits.get(self.used()).map_or(0.0, |fit| fit.seconds);
        let full = all >= BATCH;
        if full && is_beaten(&fits, self.best, CHANGE) {
            self.past.fill(0.0);
        }
        for (fit, past) in fits.iter_mut().zip(&mut self.past) {
            fit.likelihood += *past;
            if full {
                *past = MEMORY * fit.likelihood;
            }
        }
        self.judge(&fits);
        if full {
            self.highest = (self.highest.1, 0);
            self.batch.fill((0.0, 0.0));
        }
        fits.get(self.used()).map_or(0.0, |fit| fit.seconds) / before
    }

    fn judge(&mut self, fits: &[Fit]) {
        (self.best, self.lower, self.upper) = (LEVELS, LEVELS, 0);
        for level in 0..LEVELS {
            if !is_beaten(fits, level, BAR) {
                self.lower = self.lower.min(level);
                self.upper = level;
            }
            if !is_beaten(fits, level, 0.0) {
                self.best = self.best.min(level);
            }
        }
        let places = requests(self.best);
        let beats = |places| is_beaten(fits, level(places), BAR);
        self.sure = beats(2 * places) && (places == 1 || beats(places / 2));
    }

    fn used(&self) -> usize {
        self.upper.min(self.highest.0.max(self.highest.1))
    }

    /// The largest likely number of places, at most what was occupied in this batch or the last
    /// one. So while little is known, no request is bounced for a queue that may not exist.
    #[inline(never)]
    pub fn in_force(&self) -> Concurrency {
        Concurrency::new(requests(self.used()))
    }

    /// The smallest likely number of places.
    pub fn least(&self) -> Concurrency {
        Concurrency::new(requests(self.lower))
    }

    /// The number of places, if sure. It never is if the places are never all taken, or always.
    pub fn sure(&self) -> Option<Concurrency> {
        self.sure.then(|| Concurrency::new(requests(self.best)))
    }
}

/// Whether another level beats this one by more than `by`.
#[inline(never)]
fn is_beaten(fits: &[Fit], level: usize, by: f64) -> bool {
    fits.get(level).is_some_and(|own| fits.iter().any(|other| other.likelihood - own.likelihood > by))
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
