//! Capacity estimators: how many requests a server's sidecar admits at once. Without an estimator,
//! it admits all.
//!
//! | estimator | capacity | use when |
//! |---|---|---|
//! | `static` | a fixed number | the number is known, and the servers are alike |
//! | `static` with `perCore` | a number for each core of the application's container | a node agent changes CPU quotas ([`PerCore`]) |
//! | `slo` | the measured service rate times the response time promised (SLO) | no number is known, or servers differ or change |
//! | `average` | the mean of the requests in flight over the last interval | you compare with the paper that [`Average`] names |

mod average;
mod per_core;
mod slo;

pub use average::Average;
pub use per_core::PerCore;
pub use slo::Slo;

use crate::config::CapacityParameters;
use crate::units::{Concurrency, Timestamp};

/// The configured estimator of one server, with what it has observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A fixed limit in requests; none: no limit.
    Static(Option<Concurrency>),
    /// A number of requests for each core, at most a limit.
    PerCore(PerCore),
    /// The estimator of the paper that [`Average`] names.
    Average(Average),
    /// The service rate times the SLO.
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

    /// Takes the requests in flight, including one that was just admitted. Only `average` uses
    /// this.
    pub fn observe(&mut self, active: Concurrency, now: Timestamp) {
        match self {
            Self::Static(_) | Self::PerCore(_) | Self::Slo(_) => {}
            Self::Average(average) => average.observe(active, now),
        }
    }

    /// Takes the server's service rate (requests/s) and `concurrency`, each if known. Only `slo`
    /// uses this.
    pub fn serve(&mut self, rate: Option<f64>, concurrency: Option<Concurrency>) {
        if let Self::Slo(slo) = self {
            slo.update(rate, concurrency);
        }
    }

    /// Takes the cores of the application's container; none: unknown. Only `perCore` uses this.
    pub fn provide(&mut self, cores: Option<f64>) {
        if let Self::PerCore(per_core) = self {
            per_core.provide(cores);
        }
    }

    /// The capacity in force, in requests; none: admit all, for want of a limit or of observations.
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
