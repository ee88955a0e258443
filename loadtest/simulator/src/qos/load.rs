//! What comes to a container.

use super::case::{Case, HOT, Hot};
use bloc_figures::service_time::exponential;
use std::time::Duration;

/// The requests of one container.
#[derive(Debug)]
pub(super) struct Load {
    rng: fastrand::Rng,
    work: Duration,
    /// The mean time between two requests while it is hot.
    gap: Duration,
    /// The part of them that comes while it is not.
    quiet: f64,
    /// Seconds: which of each `round` it is hot.
    round: f64,
    begins: f64,
    ends: f64,
    next: f64,
}

impl Load {
    /// Of the container `key`.
    pub fn new(case: &Case, key: usize) -> Self {
        let rng = fastrand::Rng::with_seed(case.seed.wrapping_mul(1_000_003).wrapping_add(key as u64));
        // Cores that it wants while it is not hot.
        let cores = case.load * case.part() / (HOT + case.containers as f64 - 1.0);
        let mean = case.work.as_secs_f64();
        let (work, hot, quiet, each) = match case.hot {
            Hot::Wanders(each) => (mean, cores * HOT, 1.0 / HOT, each.as_secs_f64()),
            Hot::Slow if key == 0 => (mean * HOT, cores * HOT, 1.0, 1.0),
            Hot::Slow => (mean, cores, 1.0, 1.0),
        };
        Self {
            rng,
            work: Duration::from_secs_f64(work),
            gap: Duration::from_secs_f64(work / hot),
            quiet,
            round: each * case.containers as f64,
            begins: each * key as f64,
            ends: each * (key + 1) as f64,
            next: 0.0,
        }
    }

    /// The next request before that time: when it comes, and the CPU time that it needs, in
    /// seconds.
    pub fn next(&mut self, until: f64) -> Option<(f64, f64)> {
        while self.next < until {
            let when = self.next;
            // Thinning: arrivals at the rate of a hot one, of which a part counts.
            let counts = self.rng.f64();
            let need = exponential(self.work, || self.rng.f64()).as_secs_f64();
            self.next += exponential(self.gap, || self.rng.f64()).as_secs_f64();
            if counts < self.share(when) {
                return Some((when, need));
            }
        }
        None
    }

    fn share(&self, when: f64) -> f64 {
        if (self.begins..self.ends).contains(&(when % self.round)) { 1.0 } else { self.quiet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests and CPU time of each container in so many seconds.
    fn sums(case: &Case, from: f64, until: f64) -> Vec<(f64, f64)> {
        (0..case.containers)
            .map(|key| {
                let mut load = Load::new(case, key);
                let all = std::iter::from_fn(|| load.next(until)).filter(|(when, _)| *when >= from);
                all.fold((0.0, 0.0), |(count, sum), (_, work)| (count + 1.0, sum + work))
            })
            .collect()
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.05, "{value} instead of {expected}");
    }

    #[test]
    fn one_is_hot_and_it_wanders() {
        let case = Case { hot: Hot::Wanders(Duration::from_secs(1_000)), ..Case::default() };
        for (from, hot) in [(0.0, 0), (1_000.0, 1), (3_000.0, 3), (4_000.0, 0)] {
            // 0.8 of 3 cores, of which the hot one wants a half.
            for (key, (count, work)) in sums(&case, from, from + 1_000.0).into_iter().enumerate() {
                let cores = if key == hot { 1.2 } else { 0.4 };
                near(work, cores * 1_000.0);
                near(count, cores * 1_000.0 / 0.02);
            }
        }
    }

    #[test]
    fn a_slow_one_needs_three_times_the_time() {
        let case = Case { hot: Hot::Slow, ..Case::default() };
        for (key, (count, work)) in sums(&case, 0.0, 3_000.0).into_iter().enumerate() {
            near(count, 60_000.0);
            near(work, if key == 0 { 3_600.0 } else { 1_200.0 });
        }
    }
}
