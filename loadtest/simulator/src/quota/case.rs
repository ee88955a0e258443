//! What is simulated.

use bloc_figures::service_time::ServiceTime;
use bloc_node_agent::Cores;
use std::time::Duration;

/// One container in so many has a burst.
pub const GROUPS: usize = 4;
/// What a container keeps at least.
pub const FLOOR: Cores = Cores::new(0.02);

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Containers.
    pub containers: usize,
    /// What they may have together, in cores.
    pub limit: Cores,
    /// CPU that each uses without a burst, in cores.
    pub base: f64,
    /// CPU that it uses in a burst, at least as much.
    pub peak: f64,
    /// A burst lasts for this long.
    pub burst: Duration,
    /// One begins each such time, at the next container.
    pub every: Duration,
    /// CPU time of a request.
    pub work: ServiceTime,
    /// How long a client waits.
    pub patience: Duration,
    /// Requests that a container works on at once.
    pub threads: usize,
    /// Whether a quota that is written is filled up, as the kernel does; otherwise what is left of
    /// the period changes by the difference.
    pub refill: bool,
    /// What is measured, after a round of the bursts.
    pub duration: Duration,
    /// The seed.
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            containers: 4,
            limit: Cores::new(1.0),
            base: 0.06,
            peak: 0.6,
            burst: Duration::from_secs(10),
            every: Duration::from_secs(20),
            work: ServiceTime::Exponential(Duration::from_millis(10)),
            patience: Duration::from_secs(1),
            threads: 2,
            refill: true,
            duration: Duration::from_secs(400),
            seed: 1,
        }
    }
}

impl Case {
    /// A burst at each container.
    pub(super) fn round(&self) -> u64 {
        self.every.as_nanos() as u64 * GROUPS.min(self.containers) as u64
    }
}
