//! Capacity estimators: how many requests a server may hold at once.
//!
//! | estimator | capacity | use |
//! |---|---|---|
//! | `static` | a number | it is known, and the servers are alike |
//! | `static` with `perCore` | a number for each core of the application | a node agent moves CPU ([`PerCore`]) |
//! | `slo` | what the measured service rate finishes within the SLO | it is unknown, or servers differ or change |
//! | `average` | the mean of the requests in flight over the last interval | comparisons with the paper ([`Average`]) |

mod average;
mod per_core;
mod slo;

pub use average::Average;
pub use per_core::PerCore;
pub use slo::Slo;

use crate::config::CapacityParameters;
use crate::units::{Concurrency, Timestamp};

/// The capacity of one server, as configured.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A fixed limit in requests; none: no limit.
    Static(Option<Concurrency>),
    /// In proportion to the cores.
    PerCore(PerCore),
    /// The paper's estimator.
    Average(Average),
    /// What the service rate finishes within the SLO.
    Slo(Slo),
}

impl Capacity {
    /// The configured estimator, without any observation.
    pub fn new(parameters: CapacityParameters) -> Self {
        match parameters {
            CapacityParameters::Unlimited => Self::Static(None),
            CapacityParameters::Static(limit) => Self::Static(Some(limit)),
            CapacityParameters::PerCore { per_core, limit } => Self::PerCore(PerCore::new(per_core, limit)),
            CapacityParameters::Average(interval) => Self::Average(Average::new(interval)),
            CapacityParameters::Slo(slo) => Self::Slo(Slo::new(slo)),
        }
    }

    /// Records that `active` requests were in the server at `now`, including an admitted new one.
    pub fn observe(&mut self, active: Concurrency, now: Timestamp) {
        match self {
            Self::Static(_) | Self::PerCore(_) | Self::Slo(_) => {}
            Self::Average(average) => average.observe(active, now),
        }
    }

    /// Updates the capacity from the service rate (requests/s) and the `concurrency` of a server.
    pub fn serve(&mut self, rate: Option<f64>, concurrency: Option<Concurrency>) {
        if let Self::Slo(slo) = self {
            slo.update(rate, concurrency);
        }
    }

    /// Sets the number of cores; none: unknown.
    pub fn provide(&mut self, cores: Option<f64>) {
        if let Self::PerCore(per_core) = self {
            per_core.provide(cores);
        }
    }

    /// The capacity in force, in requests; none: no limit (yet).
    pub fn get(&self) -> Option<Concurrency> {
        match self {
            Self::Static(limit) => *limit,
            Self::PerCore(per_core) => per_core.get(),
            Self::Average(average) => average.get(),
            Self::Slo(slo) => slo.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_the_average_estimator_learns_from_requests_in_the_server() {
        let capacity = |parameters| {
            let mut capacity = Capacity::new(parameters);
            capacity.observe(Concurrency::new(4), Timestamp::ZERO);
            capacity.observe(Concurrency::new(9), Timestamp::ZERO.after(Duration::from_secs(30)));
            capacity.get().map(Concurrency::get)
        };
        assert_eq!(capacity(CapacityParameters::Average(Duration::from_secs(30))), Some(4));
        assert_eq!(capacity(CapacityParameters::Static(Concurrency::new(7))), Some(7));
        assert_eq!(capacity(CapacityParameters::Unlimited), None);
        assert_eq!(capacity(CapacityParameters::Slo(Duration::from_secs(1))), None, "no service rate is known");
    }
}
