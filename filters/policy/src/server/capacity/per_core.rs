//! A capacity by CPU: `C = max(1, floor(per core * cores + 1e-9))`, at most the limit, if any.
//!
//! A node agent moves cores, and the control plane reports them ([`cpu`](crate::proxy::cpu)). While
//! they are unknown, the limit is the capacity. Not in the papers.

use crate::units::Concurrency;

/// Error of sums and products of quotas: ten for each of 0.1 + 0.7 cores are eight, not seven.
const ROUNDING: f64 = 1e-9;

/// The capacity for the known cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerCore {
    per_core: f64,
    limit: Option<Concurrency>,
    capacity: Option<Concurrency>,
}

impl PerCore {
    /// `per_core` requests for each core, at most `limit`. The cores are unknown at first.
    pub const fn new(per_core: f64, limit: Option<Concurrency>) -> Self {
        Self { per_core, limit, capacity: limit }
    }

    /// Sets the number of cores; none: unknown.
    pub fn provide(&mut self, cores: Option<f64>) {
        // `as` truncates, and saturates.
        let requests = cores.map(|cores| Concurrency::new(((self.per_core * cores + ROUNDING) as u32).max(1)));
        self.capacity = requests.into_iter().chain(self.limit).min();
    }

    /// The capacity in force, in requests; none: no limit.
    pub const fn get(&self) -> Option<Concurrency> {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(limit: Option<u32>, cores: Option<f64>) -> Option<u32> {
        let mut capacity = PerCore::new(8.0, limit.map(Concurrency::new));
        assert_eq!(capacity.get().map(Concurrency::get), limit, "cold");
        capacity.provide(Some(1.0));
        capacity.provide(cores);
        capacity.get().map(Concurrency::get)
    }

    #[test]
    fn the_capacity_is_in_proportion_to_the_cores() {
        for (cores, requests) in [(2.0, 16), (1.0, 8), (0.5, 4), (0.49, 3), (0.125, 1), (0.1, 1), (1e-9, 1)] {
            assert_eq!(capacity(None, Some(cores)), Some(requests), "{cores}");
        }
    }

    #[test]
    fn the_error_of_a_sum_of_quotas_costs_no_request() {
        for (per_core, cores, requests) in [
            (10.0, 0.8, 8),
            (10.0, 0.1 + 0.7, 8),
            (100.0, 0.29, 29),
            (1.0, 8.0 - 0.9e-9, 8),
            (1.0, 8.0 - 1.1e-9, 7),
            (1.0, 8.999, 8),
        ] {
            let mut capacity = PerCore::new(per_core, None);
            capacity.provide(Some(cores));
            assert_eq!(capacity.get(), Some(Concurrency::new(requests)), "{per_core} * {cores}");
        }
    }

    #[test]
    fn the_limit_bounds_it_and_stands_in_while_the_cores_are_not_known() {
        assert_eq!([0.5, 1.0, 1.25, 1.5].map(|cores| capacity(Some(10), Some(cores))), [4, 8, 10, 10].map(Some));
        assert_eq!([capacity(Some(10), None), capacity(None, None)], [Some(10), None]);
    }

    #[test]
    fn numbers_that_no_machine_has_do_no_harm() {
        assert_eq!([f64::NAN, -1.0, 0.0].map(|cores| capacity(Some(10), Some(cores))), [Some(1); 3]);
        assert_eq!(capacity(None, Some(1e300)), Some(u32::MAX));
        assert_eq!(capacity(Some(10), Some(f64::INFINITY)), Some(10));
    }
}
