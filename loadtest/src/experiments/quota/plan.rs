//! The load: what each container gets, and when.

use bloc_mesh::load::poisson_arrivals;
use bloc_mesh::seeds;
use serde::Serialize;
use std::time::Duration;

/// Containers.
pub const CONTAINERS: usize = 4;
/// What all may use together, in cores.
pub const LIMIT: f64 = 1.0;
/// Mean CPU time of a request.
pub const WORK: Duration = Duration::from_millis(10);
/// Threads of a container, and so the cores that it can use.
pub const THREADS: usize = 2;
/// Requests that wait in a container.
pub const QUEUE: usize = 100;
/// An answer is good within this time.
pub const SLO: Duration = Duration::from_millis(200);
/// A client gives up after this time.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// CPU that each container needs, in cores; and in a burst.
const BASE: f64 = 0.06;
const PEAK: f64 = 0.6;
/// Longest time with load before anything counts, as long as the autoscaler looks back.
const WARM_UP: Duration = Duration::from_secs(10);

/// One burst after the other: the first container, the second and so on, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// How long a burst lasts.
    pub burst: Duration,
    /// From the beginning of a burst to that of the next one.
    pub every: Duration,
}

impl Plan {
    /// Time with little load, which does not count.
    pub fn warm_up(self) -> Duration {
        self.every.min(WARM_UP)
    }

    /// What is measured, after the warm-up.
    pub fn window(self) -> Duration {
        self.every * CONTAINERS as u32
    }

    /// All of it.
    pub fn length(self) -> Duration {
        self.warm_up() + self.window()
    }

    /// When requests arrive, and at which container, in order.
    pub fn arrivals(self, seed: u64) -> Vec<(Duration, usize)> {
        let rates = [BASE, PEAK].map(|cores| cores / WORK.as_secs_f64());
        let at = |container| self.arrivals_at(container, rates, seed).into_iter().map(move |at| (at, container));
        let mut all: Vec<(Duration, usize)> = (0..CONTAINERS).flat_map(at).collect();
        all.sort_unstable();
        all
    }

    /// When requests arrive at a container, in order, with so many in a second, and so many in its
    /// burst.
    pub fn arrivals_at(self, container: usize, [base, peak]: [f64; 2], seed: u64) -> Vec<Duration> {
        // Arrivals that come more often are a second stream beside the first.
        let of = |rate, stream| poisson_arrivals(rate, self.length(), stream);
        let own = seeds::backend(seed, container);
        let more = of(peak - base, seeds::backend(own, 0)).into_iter().filter(|at| self.bursts(container, *at));
        let mut all: Vec<Duration> = of(base, seeds::arrivals(own)).into_iter().chain(more).collect();
        all.sort_unstable();
        all
    }

    /// Whether a container has its burst at this time after the start.
    pub fn bursts(self, container: usize, at: Duration) -> bool {
        let Some(since) = at.checked_sub(self.warm_up() + self.every * container as u32) else { return false };
        since < self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { burst: Duration::from_secs(10), every: Duration::from_secs(20) };

    #[test]
    fn bursts_wander_after_the_warm_up() {
        assert_eq!((PLAN.warm_up().as_secs(), PLAN.window().as_secs(), PLAN.length().as_secs()), (10, 80, 90));
        let short = Plan { burst: Duration::from_millis(250), every: Duration::from_millis(500) };
        assert_eq!((short.warm_up(), short.window()), (short.every, 4 * short.every));
        let bursting = |second: u64| {
            let those = (0..CONTAINERS).filter(|one| PLAN.bursts(*one, Duration::from_secs(second)));
            those.collect::<Vec<_>>()
        };
        let expected: [(u64, &[usize]); 8] =
            [(9, &[]), (10, &[0]), (19, &[0]), (20, &[]), (29, &[]), (30, &[1]), (79, &[3]), (80, &[])];
        for (second, those) in expected {
            assert_eq!(bursting(second), those, "{second}");
        }
    }

    #[test]
    fn arrivals_have_the_planned_rates_and_repeat_with_the_seed() {
        let arrivals = PLAN.arrivals(1);
        assert_eq!(arrivals, PLAN.arrivals(1));
        assert_ne!(arrivals, PLAN.arrivals(2));
        assert!(arrivals.is_sorted());
        let count = |container, from: u64, to: u64| {
            let within = |at: Duration| (from..to).contains(&at.as_secs());
            arrivals.iter().filter(|(at, of)| *of == container && within(*at)).count() as f64
        };
        for container in 0..CONTAINERS {
            let from = 10 + 20 * container as u64;
            // Ten seconds with 60 in each; 80 with 6 in each. Four standard deviations of each.
            let burst = count(container, from, from + 10);
            assert!((burst - 600.0).abs() < 4.0 * 600f64.sqrt(), "{burst}");
            let rest = count(container, 0, 90) - burst;
            assert!((rest - 480.0).abs() < 4.0 * 480f64.sqrt(), "{rest}");
        }
    }
}
