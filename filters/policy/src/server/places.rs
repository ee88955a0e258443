//! How many requests the application works on at once, where nobody has said so.
//!
//! A request that makes the `n`th in a server with `C` places takes an execution time `S` as long
//! as `n <= C`, and about `S * n / C` beyond. So this counts requests and sums response times by
//! level `n`: 1 to 7 exactly, then four levels an octave. With `N` requests in all, `N_n` on a
//! level, which took `R_n` seconds together, the logarithm of the likelihood of `C` is, but for a
//! constant,
//!
//! `L(C) = (sum N_n ln min(n, C) - N ln sum R_n / n * min(n, C)) / noise`
//!
//! for the `S` that fits best, `sum R_n / n * min(n, C) / N`. `noise` is the squared coefficient of
//! variation of the execution times, at least [`LEAST_NOISE`].
//!
//! Each batch of [`BATCH`] requests has an `S` of its own: otherwise a server that has become slow,
//! and has more requests since, would look like one with few places. The `L` of the batches are
//! added up, the past with weight [`MEMORY`] for each batch since.
//!
//! - **in force** is the largest `C` whose `L` is within [`BAR`] of the best, at most the highest
//!   level of this batch and the last. So while little is known all requests are expected to take
//!   as long as the mean one, and none is bounced because of a queue that may not exist;
//! - **least** is the smallest `C` within [`BAR`] of the best: a request that meets fewer has a
//!   free place, as far as can be known;
//! - **sure** is the best `C`, if it is better than `C / 2` and `2 C` by [`BAR`]. It cannot be
//!   known where the places are never all taken, or always;
//! - **change**: where another `C` than the best is better by [`CHANGE`] for a batch alone, the
//!   past is forgotten.
//!
//! This needs no clock, and nothing of other threads but how many requests they have: each thread
//! has its own estimate from its own requests. Cost: a few additions a request, and two logarithms
//! a level at the end of a measuring interval. Cold start: one place.
//!
//! Considered: the departures from each level by the time spent on it (a Markov chain's
//! likelihood). It needs fewer requests where times vary much, but takes fixed times for twice as
//! many places, and a thread sees only the departures of its own requests.

use crate::units::Concurrency;
use std::time::Duration;

/// The levels: the last is that of 2,048 requests and more.
const LEVELS: usize = 40;
/// Requests in a batch.
const BATCH: f64 = 1000.0;
/// What the past counts for after each batch.
const MEMORY: f64 = 0.9;
/// By how much the best must be more likely, in logarithms.
const BAR: f64 = 3.0;
/// By how much a batch must contradict the past.
const CHANGE: f64 = 5.0;
/// The least noise of a response time that is believed.
const LEAST_NOISE: f64 = 0.3;

/// The level of `n` requests: that of one is 0.
#[inline(never)]
fn level(n: u32) -> usize {
    // The first bit is the octave, and the two after it are the level in the octave.
    let octave = 29_u32.saturating_sub(n.leading_zeros());
    ((4 * octave + (n >> octave)).saturating_sub(1) as usize).min(LEVELS - 1)
}

/// The number of requests that stands for a level: the one in its middle.
#[inline(never)]
fn requests(level: usize) -> u32 {
    let n = level as u32 + 1;
    let octave = (n / 4).saturating_sub(1);
    ((n - 4 * octave) << octave) + (1 << octave) / 2
}

/// How likely a number of places is, and the sum of all execution times if it is that.
#[derive(Clone, Copy, Debug)]
struct Fit {
    likelihood: f64,
    seconds: f64,
}

/// What a thread knows of the places of the application.
#[derive(Clone, Debug)]
pub struct Places {
    /// The batch that is being filled, by level: requests, and the seconds that they took.
    batch: [(f64, f64); LEVELS],
    /// What the batches before say, by level.
    past: [f64; LEVELS],
    /// The highest levels of the last batch and of this one.
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
    pub fn meet(&mut self, others: Concurrency) {
        self.highest.1 = self.highest.1.max(level(others.get().saturating_add(1)));
    }

    /// A request that met `others` has been answered after it `took` so long.
    #[inline(never)]
    pub fn hear(&mut self, others: Concurrency, took: Duration) {
        if let Some((requests, seconds)) = self.batch.get_mut(level(others.get().saturating_add(1))) {
            *requests += 1.0;
            *seconds += took.as_secs_f64();
        }
    }

    /// The execution time has changed: what was heard before says nothing of the same batch.
    pub fn change(&mut self) {
        self.batch.fill((0.0, 0.0));
    }

    /// Ends a measuring interval. `noise`: the squared coefficient of variation of the execution
    /// times. Returns by what factor the execution time is another than it was taken to be before.
    #[inline(never)]
    pub fn measure(&mut self, noise: f64) -> f64 {
        let noise = noise.max(LEAST_NOISE);
        // Of the requests from the level on: how many, and what they took by those they were with.
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
        // Of the requests below: the sum of the logarithms, and what they took.
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

    /// Which numbers of places are likely.
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

    /// The level of the places in force.
    fn used(&self) -> usize {
        self.upper.min(self.highest.0.max(self.highest.1))
    }

    /// The most places that are likely, of those that have been seen taken.
    #[inline(never)]
    pub fn in_force(&self) -> Concurrency {
        Concurrency::new(requests(self.used()))
    }

    /// The fewest places that are likely.
    pub fn least(&self) -> Concurrency {
        Concurrency::new(requests(self.lower))
    }

    /// The number of places, if it is known.
    pub fn sure(&self) -> Option<Concurrency> {
        self.sure.then(|| Concurrency::new(requests(self.best)))
    }
}

/// Whether another level is more likely by more than this.
#[inline(never)]
fn is_beaten(fits: &[Fit], level: usize, by: f64) -> bool {
    fits.get(level).is_some_and(|own| fits.iter().any(|other| other.likelihood - own.likelihood > by))
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
