//! Bursts that exceed what all servers can do.
//!
//! The steady load keeps below what the servers can do. It never fills one, so it shows nothing of
//! rejections for capacity, of the last retry, and of what a client gets after it. A burst fills
//! all of them: it brings more requests than they can serve and keep while it lasts, whatever the
//! draws.
//!
//! The seed determines how many bursts there are, when they begin, and when each request is meant
//! to begin. Their number and length bound the requests.

use crate::load::{self, Load, LoadPlan, Outcome, Sample};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// From the start of one burst to that of the next.
pub const EVERY: Duration = Duration::from_secs(20);
/// How long a burst lasts.
pub const LENGTH: Duration = Duration::from_secs(2);
/// Requests per second of a burst, beside the steady load: one and a half times what the six
/// servers do together.
pub const RATE: f64 = 900.0;
/// The first burst begins after so long, and the last one so long before the end, so that what the
/// last one leaves behind is gone by then.
const APART: Duration = Duration::from_secs(10);

/// All bursts of a soak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// When each begins, from the start of the load, and the seed of its arrivals.
    bursts: Vec<(Duration, u64)>,
}

/// What their clients saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The requests, burst by burst.
    pub bursts: Vec<Vec<Sample>>,
}

impl Bursts {
    /// Those of a load that lasts so long.
    pub fn new(duration: Duration, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let starts = (0..).map(|n| APART + EVERY * n).take_while(|start| *start + APART <= duration);
        Self { bursts: starts.map(|start| (start, rng.random())).collect() }
    }

    /// Runs them beside a `steady` load that begins at `start`. Each has clients and connections of
    /// its own.
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

    /// In how many bursts a request was shed.
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
