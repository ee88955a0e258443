//! What comes to a container.

use super::case::{Case, GROUPS};
use super::cgroup::PERIOD;
use bloc_figures::service_time::{ServiceTime, exponential};
use std::time::Duration;

/// The requests of one container.
pub struct Load {
    /// When its first period ends.
    pub phase: u64,
    rng: fastrand::Rng,
    work: ServiceTime,
    /// The mean time between two requests in a burst.
    gap: Duration,
    /// The part of them that comes without a burst.
    quiet: f64,
    round: u64,
    burst: u64,
    /// When its burst begins in a round.
    turn: u64,
    next: u64,
}

impl Load {
    /// Of the container `key`.
    pub fn new(case: &Case, key: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(case.seed.wrapping_mul(1_000_003).wrapping_add(key as u64));
        let every = case.every.as_nanos() as u64;
        let groups = GROUPS.min(case.containers);
        // Those that have their bursts together begin one after the other.
        let (group, place, places) = (key % groups, key / groups, case.containers.div_ceil(groups));
        Self {
            phase: rng.u64(1..=PERIOD),
            rng,
            work: case.work,
            gap: case.work.mean().div_f64(case.peak),
            quiet: case.base / case.peak,
            round: case.round(),
            burst: case.burst.as_nanos() as u64,
            turn: every * group as u64 + every * place as u64 / places as u64,
            next: 0,
        }
    }

    /// The next request before that time: when it comes, and the CPU time that it needs.
    pub fn next(&mut self, until: u64) -> Option<(u64, u64)> {
        while self.next < until {
            let when = self.next;
            // Thinning: arrivals at the rate of a burst, of which a part counts.
            let counts = self.rng.f64();
            let need = self.work.draw(|| self.rng.f64()).as_nanos() as u64;
            self.next += exponential(self.gap, || self.rng.f64()).as_nanos() as u64;
            if counts < self.share(when) {
                return Some((when, need.max(1)));
            }
        }
        None
    }

    fn share(&self, when: u64) -> f64 {
        let in_turn = (when % self.round + self.round - self.turn) % self.round < self.burst;
        if in_turn { 1.0 } else { self.quiet }
    }
}
