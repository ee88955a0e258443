//! The capacity that meets an SLO: how many requests the measured service rate finishes within it.
//!
//! `C = max(concurrency, 1, floor(slo * mu))`, with the SLO in seconds and the service rate `mu` in
//! requests/s. A request that meets `C - 1` others is answered after `C / mu <= slo`.
//!
//! Unlike `average`, it has no feedback: while the server is busy, `mu` does not depend on how many
//! requests were admitted. Cold start: no limit until a service rate is known.

use crate::units::Concurrency;
use std::time::Duration;

/// The capacity for a service rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    slo: Duration,
    capacity: Option<Concurrency>,
}

impl Slo {
    /// An estimator that has seen nothing and sets no limit.
    pub const fn new(slo: Duration) -> Self {
        Self { slo, capacity: None }
    }

    /// Updates the capacity from a service rate in requests per second, to at least `concurrency`.
    pub fn update(&mut self, rate: Option<f64>, concurrency: Option<Concurrency>) {
        let Some(rate) = rate.filter(|rate| rate.is_finite() && *rate > 0.0) else { return };
        let least = concurrency.map_or(1, Concurrency::get).max(1);
        let finished = (self.slo.as_secs_f64() * rate).floor() as u32;
        self.capacity = Some(Concurrency::new(finished.max(least)));
    }

    /// The capacity in force; none before a service rate is known.
    pub const fn get(&self) -> Option<Concurrency> {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_what_the_server_finishes_within_the_slo() {
        let mut slo = Slo::new(Duration::from_secs(2));
        assert_eq!(slo.get(), None);
        slo.update(None, None);
        assert_eq!(slo.get(), None);
        slo.update(Some(3.9), None);
        assert_eq!(slo.get(), Some(Concurrency::new(7)));
        for invalid in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            slo.update(Some(invalid), None);
            assert_eq!(slo.get(), Some(Concurrency::new(7)), "{invalid} changes nothing");
        }
        slo.update(Some(0.1), Some(Concurrency::new(4)));
        assert_eq!(slo.get(), Some(Concurrency::new(4)), "never below what the application works on at once");
        slo.update(Some(1e300), None);
        assert_eq!(slo.get(), Some(Concurrency::new(u32::MAX)));
    }
}
