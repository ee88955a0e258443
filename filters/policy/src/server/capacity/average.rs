//! The mean number of active requests as the next capacity (paper, section 5.4.4).
//!
//! `C' = max(1, round(mean of active))` over an interval (default 30 s). For comparisons only: **it
//! can only fall**, since it caps the active requests itself. Any idle phase lowers it for good.
//!
//! Deviations: 1. the mean is taken at arrivals (with Poisson arrivals, that is the mean over
//! time); 2. an interval without arrivals keeps the capacity.

use crate::units::{Concurrency, Timestamp};
use std::time::Duration;

/// The paper's estimator.
#[derive(Clone, Debug, PartialEq)]
pub struct Average {
    interval: Duration,
    started: Option<Timestamp>,
    sum: u64,
    observations: u64,
    capacity: Option<Concurrency>,
}

impl Average {
    /// An estimator that has seen nothing and sets no limit.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, started: None, sum: 0, observations: 0, capacity: None }
    }

    /// Records `active` requests at `now`.
    pub fn observe(&mut self, active: Concurrency, now: Timestamp) {
        let started = *self.started.get_or_insert(now);
        if now.since(started) >= self.interval {
            let mean = (self.sum + self.observations / 2).checked_div(self.observations);
            if let Some(mean) = mean {
                self.capacity = Some(Concurrency::new(u32::try_from(mean).unwrap_or(u32::MAX).max(1)));
            }
            (self.started, self.sum, self.observations) = (Some(now), 0, 0);
        }
        self.sum += u64::from(active.get());
        self.observations += 1;
    }

    /// The capacity in force; none during the first interval.
    pub const fn get(&self) -> Option<Concurrency> {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_mean_of_an_interval_is_the_capacity_of_the_next() {
        let mut average = Average::new(Duration::from_secs(30));
        for (second, active) in [(0, 10), (10, 20), (29, 29)] {
            average.observe(Concurrency::new(active), at(second));
            assert_eq!(average.get(), None, "no limit in the first interval");
        }
        average.observe(Concurrency::new(1), at(30));
        assert_eq!(average.get(), Some(Concurrency::new(20)), "59 / 3, rounded");
        average.observe(Concurrency::new(0), at(60));
        assert_eq!(average.get(), Some(Concurrency::new(1)), "only the second interval counts");
        average.observe(Concurrency::new(0), at(90));
        assert_eq!(average.get(), Some(Concurrency::new(1)), "never below one");
    }

    #[test]
    fn the_average_capacity_never_rises_under_its_own_limit() {
        let mut average = Average::new(Duration::from_secs(1));
        let mut last = u32::MAX;
        for second in 0..20 {
            // A flood: the server is as full as the capacity allows.
            let active = average.get().map_or(50, Concurrency::get);
            average.observe(Concurrency::new(active), at(second));
            let capacity = average.get().map_or(u32::MAX, Concurrency::get);
            assert!(capacity <= last, "rose from {last} to {capacity}");
            last = capacity;
        }
        assert_eq!(last, 50);
    }
}
