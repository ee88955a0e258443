//! The load, and where the capacity comes from.

use bloc_mesh::load::poisson_arrivals;
use bloc_mesh::seeds;
use bloc_policy::config::CapacitySpec;
use std::time::Duration;

/// The application's limit in cores, and so the quota of its only container. Half of it is left
/// later.
pub const CORES: f64 = 0.8;
/// Mean CPU time of a request.
pub const WORK: Duration = Duration::from_millis(10);
/// Threads of the backend, and so requests that it works on at once.
pub const THREADS: u16 = 2;
/// Requests that wait in the backend: more than are ever admitted.
pub const QUEUE: usize = 1_000;
/// An answer is good within this time.
pub const SLO: Duration = Duration::from_millis(500);
/// What a capacity is for.
pub const AIM: Duration = Duration::from_millis(250);
/// A client gives up after this time.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// How much of what the first quota is enough for arrives.
pub const OVERLOAD: f64 = 1.5;
/// Time with load before the limit is halved.
pub const WARM_UP: Duration = Duration::from_secs(15);
/// In this time after that the quota is halved.
pub const HALVES: Duration = Duration::from_secs(5);
/// What is measured, from then on.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The part of it in which a sidecar that measures has not learnt yet.
pub const FIRST: Duration = Duration::from_secs(2);

/// Where the capacity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// The measured service rate.
    Slo,
    /// A number for each core. If these are not known, what is right for the first quota.
    PerCore,
}

impl Estimator {
    /// As in the configuration.
    pub fn capacity(self) -> CapacitySpec {
        let per_core = AIM.div_duration_f64(WORK);
        match self {
            Self::Slo => CapacitySpec::Slo { slo: format!("{}ms", AIM.as_millis()) },
            Self::PerCore => CapacitySpec::PerCore { per_core, limit: Some((per_core * CORES) as i64) },
        }
    }
}

/// When requests arrive, in this time.
pub fn arrivals(length: Duration, seed: u64) -> Vec<Duration> {
    poisson_arrivals(OVERLOAD * CORES / WORK.as_secs_f64(), length, seeds::arrivals(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_as_many_again_arrive_as_the_quota_is_enough_for() {
        let length = Duration::from_secs(100);
        let arrivals = arrivals(length, 1);
        assert_eq!(arrivals, super::arrivals(length, 1));
        assert_ne!(arrivals, super::arrivals(length, 2));
        // 120 in each second; four standard deviations.
        let count = arrivals.len() as f64;
        assert!((count - 12_000.0).abs() < 4.0 * 12_000f64.sqrt(), "{count}");
    }

    #[test]
    fn a_capacity_is_for_half_of_the_slo() {
        let [slo, per_core] = [Estimator::Slo, Estimator::PerCore].map(Estimator::capacity);
        assert_eq!(slo, CapacitySpec::Slo { slo: "250ms".to_owned() });
        assert_eq!(per_core, CapacitySpec::PerCore { per_core: 25.0, limit: Some(20) });
    }
}
