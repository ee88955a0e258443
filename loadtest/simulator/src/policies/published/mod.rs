//! Published capacity estimators behind BLOC's admission: Gradient2, Vegas and AIMD on delay.
//!
//! All three learn from response times alone. `L`: the limit; `t`: the time from arrival at the
//! server to the answer. A request that was one of fewer than `L / 2` at its arrival does not
//! change the limit.
//!
//! | | rule for each answer | defaults |
//! |---|---|---|
//! | Gradient2 | `L' = 0.8 L + 0.2 (L * clamp(long / t, 0.5, 1) + 4)`; `long`: mean of `t` over 600 answers, times 0.9 whenever above `2 t` | `L` 20 to 200, at the start 20 |
//! | Vegas | queue `q = ceil(L (1 - fastest / t))`, step `s = max(1, floor(log10 L))`: `L + 6 s` if `q <= s`, `L + s` if `q < 3 s`, `L - s` if `q > 6 s`; every 15 to 30 `L` answers the next `t` becomes `fastest`, whatever it is | `L` 1 to 1000, at the start 20 |
//! | AIMD | `L + 1`, or `0.9 L` if `t` exceeds a timeout | timeout 5 s, `L` 20 to 200, at the start 20 |
//!
//! Reference: Netflix concurrency-limits (<https://github.com/Netflix/concurrency-limits>),
//! `Gradient2Limit`, `VegasLimit` and `AIMDLimit`, with their defaults. They serve only for
//! comparison; no filter has them. They see each answer, as in the reference without a window in
//! front: at four answers a second the window's ten samples would take 2.5 s. Deviations: 1. an
//! answer in zero time is skipped; 2. the cap of 200 on the limit is fixed.

use super::{ServerModel, Verdict};
use bloc_policy::server::admission::Admission;
use bloc_policy::units::{Concurrency, Ratio, Timestamp};
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use std::collections::HashMap;
use std::time::Duration;

const START: f64 = 20.0;
const MOST: f64 = 200.0;
const VEGAS_MOST: f64 = 1000.0;
/// The number of answers until a Gradient2 baseline is more than the plain mean, and the number
/// that it then covers.
const WARM_UP: u32 = 10;
const LONG: f64 = 600.0;
const GROWTH: f64 = 4.0;
const SMOOTHING: f64 = 0.2;
const BACKOFF: f64 = 0.9;
/// Vegas measures its fastest time again after at most this many answers for each request of the
/// limit.
const PROBE: f64 = 30.0;

/// Derives a capacity from response times.
pub trait Estimator {
    /// Records the answer to a request after `took`, which is not zero. At its arrival the request
    /// was one of `in_flight`, including itself.
    fn record(&mut self, took: Duration, in_flight: u32, rng: &mut fastrand::Rng);

    /// The limit in force, in requests; at least 1.
    fn limit(&self) -> f64;
}

/// Compares each response time with a long mean.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    least: f64,
    limit: f64,
    /// Seconds.
    long: f64,
    answers: u32,
}

impl Gradient2 {
    /// A new estimator; the limit never falls below `least`, 20 by default.
    pub fn new(least: u32) -> Self {
        Self { least: f64::from(least), limit: START, long: 0.0, answers: 0 }
    }
}

impl Estimator for Gradient2 {
    fn record(&mut self, took: Duration, in_flight: u32, _: &mut fastrand::Rng) {
        let short = took.as_secs_f64();
        self.answers = self.answers.saturating_add(1);
        let weight = if self.answers <= WARM_UP { 1.0 / f64::from(self.answers) } else { 2.0 / (LONG + 1.0) };
        self.long += weight * (short - self.long);
        let long = self.long;
        if long > 2.0 * short {
            self.long *= 0.9;
        }
        if f64::from(in_flight) >= self.limit / 2.0 {
            let wanted = self.limit * (long / short).clamp(0.5, 1.0) + GROWTH;
            self.limit = (self.limit + SMOOTHING * (wanted - self.limit)).clamp(self.least, MOST);
        }
    }

    fn limit(&self) -> f64 {
        self.limit
    }
}

/// Compares each response time with the fastest.
#[derive(Clone, Debug)]
pub struct Vegas {
    limit: f64,
    fastest: Option<Duration>,
    answers: u32,
    /// The share of the longest time until the next probe, 0.5 to 1.
    jitter: Option<f64>,
}

impl Default for Vegas {
    fn default() -> Self {
        Self { limit: START, fastest: None, answers: 0, jitter: None }
    }
}

impl Estimator for Vegas {
    fn record(&mut self, took: Duration, in_flight: u32, rng: &mut fastrand::Rng) {
        self.answers += 1;
        let jitter = *self.jitter.get_or_insert_with(|| 0.5 + 0.5 * rng.f64());
        if f64::from(self.answers) >= jitter * PROBE * self.limit {
            (self.answers, self.jitter, self.fastest) = (0, None, Some(took));
            return;
        }
        let Some(fastest) = self.fastest.filter(|fastest| *fastest <= took) else {
            self.fastest = Some(took);
            return;
        };
        if f64::from(in_flight) < self.limit / 2.0 {
            return;
        }
        let queue = (self.limit * (1.0 - fastest.div_duration_f64(took))).ceil();
        let step = self.limit.log10().floor().max(1.0);
        let change = match queue {
            queue if queue <= step => 6.0 * step,
            queue if queue < 3.0 * step => step,
            queue if queue > 6.0 * step => -step,
            _ => 0.0,
        };
        self.limit = (self.limit + change).clamp(1.0, VEGAS_MOST);
    }

    fn limit(&self) -> f64 {
        self.limit
    }
}

/// Raises the limit until a response takes too long.
#[derive(Clone, Debug)]
pub struct Aimd {
    timeout: Duration,
    least: f64,
    limit: f64,
}

impl Aimd {
    /// An estimator that treats a response longer than `timeout` (5 s by default) as overload; the
    /// limit never falls below `least`, 20 by default.
    pub fn new(timeout: Duration, least: u32) -> Self {
        Self { timeout, least: f64::from(least), limit: START }
    }
}

impl Estimator for Aimd {
    fn record(&mut self, took: Duration, in_flight: u32, _: &mut fastrand::Rng) {
        let limit = if took > self.timeout {
            (self.limit * BACKOFF).floor()
        } else if f64::from(in_flight) >= self.limit / 2.0 {
            self.limit + 1.0
        } else {
            self.limit
        };
        self.limit = limit.clamp(self.least, MOST);
    }

    fn limit(&self) -> f64 {
        self.limit
    }
}

/// A server with BLOC's admission and chips, and a capacity from an [`Estimator`].
#[derive(Clone, Debug)]
pub struct Limited<E> {
    estimator: E,
    headroom: Ratio,
    in_flight: u32,
    /// By the request's number: its arrival, and the requests in flight then, itself included.
    inside: HashMap<u32, (Timestamp, u32)>,
}

impl<E: Estimator> Limited<E> {
    /// An idle server.
    pub fn new(estimator: E, headroom: Ratio) -> Self {
        Self { estimator, headroom, in_flight: 0, inside: HashMap::new() }
    }

    fn admission(&self) -> Admission {
        // The limit is at most a thousand; `as` drops the fraction.
        Admission::new(Some(Concurrency::new(self.estimator.limit() as u32)), self.headroom)
    }

    fn report(&self, chip: bool) -> LoadReport {
        let capacity = self.admission().capacity().map(Concurrency::get);
        LoadReport { chip, queue: Some(self.in_flight), capacity, ..LoadReport::default() }
    }
}

impl<E: Estimator> ServerModel for Limited<E> {
    fn arrive(&mut self, request: u32, _: Option<Bid>, now: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        if !self.admission().admits(Concurrency::new(self.in_flight)) {
            return Verdict::Rejected(self.report(false));
        }
        self.in_flight += 1;
        self.inside.insert(request, (now, self.in_flight));
        Verdict::Admitted
    }

    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        let (came, in_flight) = self.inside.remove(&request)?;
        let took = now.since(came);
        if !took.is_zero() {
            self.estimator.record(took, in_flight, rng);
        }
        self.in_flight -= 1;
        let chip = self.admission().grants_chip(Concurrency::new(self.in_flight), rng);
        Some(self.report(chip))
    }
}

#[cfg(test)]
mod tests;
