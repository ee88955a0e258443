//! Bursts that exceed the capacity of all servers.
//!
//! The steady load stays below the servers' total rate. It never fills a server, so it does not
//! exercise rejections for capacity, the last retry, or what a client gets after it. A burst does:
//! while it lasts it brings more requests than the servers can serve and hold, whatever the random
//! draws.
//!
//! The seed determines the number of bursts, when they begin, and the intended start of each
//! request. Their number and length bound the number of requests.

use bloc_mesh::load::{self, Load, LoadPlan, Outcome, Sample};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time from the start of one burst to the start of the next.
pub const EVERY: Duration = Duration::from_secs(20);
/// How long a burst lasts.
pub const LENGTH: Duration = Duration::from_secs(2);
/// Requests per second of a burst, in addition to the steady load: one and a half times the total
/// rate of the six servers.
pub const RATE: f64 = 900.0;
/// The time before the first burst, and from the last one to the end, so that the effects of the
/// last one are over by then.
const APART: Duration = Duration::from_secs(10);

/// All bursts of a soak run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// The start of each burst, from the start of the load, and the seed of its arrivals.
    bursts: Vec<(Duration, u64)>,
}

/// What the clients of the bursts saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The requests, burst by burst.
    pub bursts: Vec<Vec<Sample>>,
}

impl Bursts {
    /// The bursts of a load that lasts this long.
    pub fn new(duration: Duration, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let starts = (0..).map(|n| APART + EVERY * n).take_while(|start| *start + APART <= duration);
        Self { bursts: starts.map(|start| (start, rng.random())).collect() }
    }

    /// Runs the bursts beside a `steady` load that begins at `start`. Each has its own clients and
    /// connections.
    pub async fn run(&self, steady: &LoadPlan, start: Instant) -> Seen {
        let mut seen = Seen::default();
        for (at, seed) in &self.bursts {
            let plan = LoadPlan { load: Load::Poisson { rate: RATE }, window: LENGTH, seed: *seed, ..steady.clone() };
            seen.bursts.push(load::run(&plan, start + *at, Arc::default()).await.samples);
        }
        seen
    }
}

impl Seen {
    /// All requests.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.bursts.iter().flatten()
    }

    /// The number of bursts in which a request was shed.
    pub fn shed_in(&self) -> u64 {
        let sheds = |burst: &&Vec<Sample>| burst.iter().any(|sample| sample.outcome == Outcome::Shed);
        self.bursts.iter().filter(sheds).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_come_every_20_s_and_end_before_the_load() {
        let seconds = |seconds| Bursts::new(Duration::from_secs(seconds), 1).bursts;
        let starts: Vec<u64> = seconds(120).iter().map(|burst| burst.0.as_secs()).collect();
        assert_eq!(starts, [10, 30, 50, 70, 90, 110]);
        assert_eq!((seconds(119).len(), seconds(1_800).len()), (5, 90));
    }

    #[test]
    fn the_seed_determines_the_bursts_and_each_burst_differs() {
        let (two_minutes, of_seed) = (Duration::from_secs(120), |seed| Bursts::new(Duration::from_secs(120), seed));
        assert_eq!(of_seed(7), Bursts::new(two_minutes, 7));
        assert_ne!(of_seed(7), of_seed(8));
        let mut seeds: Vec<u64> = of_seed(7).bursts.into_iter().map(|burst| burst.1).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6);
    }

    #[test]
    fn a_burst_counts_as_shed_when_one_of_its_requests_was() {
        let sample = |outcome| Sample { latency: Duration::ZERO, outcome, ended: Duration::ZERO };
        let (ok, shed) = (sample(Outcome::Ok), sample(Outcome::Shed));
        let seen = Seen { bursts: vec![vec![ok, shed, shed], vec![ok], vec![ok], vec![], vec![shed]] };
        assert_eq!((seen.samples().count(), seen.shed_in()), (6, 2));
    }
}
