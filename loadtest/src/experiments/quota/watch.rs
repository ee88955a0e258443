//! Reads the files of the containers while the load runs, each 10 ms, and sets quotas for the
//! allocators that are a rule.
//!
//! It has a thread of its own, so that the load does not delay it. Dropping it ends the thread.

use super::allocator::{Interval, State};
use super::background::Background;
use super::delay::{Delays, Sample};
use super::plan::{LIMIT, Plan};
use crate::timeline::Point;
use bloc_mesh::cgroups::{Container, CpuCounters, GroupError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EACH: Duration = Duration::from_millis(10);
/// Quotas are whole microseconds of a period.
const ROUNDED: f64 = 1e-4;
/// A step of 100 ms ends with the first sample after this.
const STEP: Duration = Duration::from_millis(95);

/// What the files said.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Unused CPU of each container in each step, in cores.
    pub slack: Vec<f64>,
    /// The most that each container used in a step, in cores.
    pub peaks: Vec<f64>,
    /// Periods of all containers.
    pub periods: u64,
    /// Those of them in which one was throttled.
    pub throttled: u64,
    /// Waits for a larger quota.
    pub raised: Vec<Duration>,
    /// Throttled containers that got none.
    pub in_vain: u64,
    /// Samples in which the quotas together were above the limit.
    pub above: u64,
    /// The quota of each container over time.
    pub quotas: Vec<Vec<Point>>,
}

/// Reads from `start` on; only what is in the window of the plan counts.
pub fn start(containers: Vec<Container>, state: State, start: Instant, plan: Plan) -> Background<Seen> {
    Background::start(move |stopped| watch(&containers, state, start, plan, stopped))
}

/// What is known of one container.
#[derive(Clone, Debug, Default)]
struct Known {
    /// At the beginning of this step.
    counters: CpuCounters,
    at: Duration,
    /// The sum of the quotas in the samples of this step, and how many they are.
    quotas: f64,
    samples: u32,
    delays: Delays,
}

/// A step of one container.
struct Step {
    interval: Interval,
    /// The mean quota.
    quota: f64,
    periods: u64,
    throttled: u64,
}

impl Known {
    /// Ends a step, and begins the next one.
    fn step(&mut self, counters: CpuCounters, at: Duration) -> Step {
        let quota = std::mem::take(&mut self.quotas) / f64::from(std::mem::take(&mut self.samples).max(1));
        let before = std::mem::replace(&mut self.counters, counters);
        let elapsed = at - std::mem::replace(&mut self.at, at);
        let used = counters.used.saturating_sub(before.used).div_duration_f64(elapsed);
        let (periods, throttled) = (counters.periods - before.periods, counters.throttled - before.throttled);
        Step { interval: Interval { used, throttled: throttled > 0 }, quota, periods, throttled }
    }
}

impl Seen {
    fn add(&mut self, container: usize, step: &Step, at: Duration) {
        let Interval { used, .. } = step.interval;
        self.slack.push((step.quota - used).max(0.0));
        self.periods += step.periods;
        self.throttled += step.throttled;
        self.peaks[container] = self.peaks[container].max(used);
        self.quotas[container].push(Point { at_s: at.as_secs_f64(), value: step.quota });
    }
}

fn watch(
    containers: &[Container],
    mut state: State,
    start: Instant,
    plan: Plan,
    stop: &AtomicBool,
) -> Result<Seen, GroupError> {
    let count = containers.len();
    let mut seen = Seen { peaks: vec![0.0; count], quotas: vec![Vec::new(); count], ..Seen::default() };
    let mut known = vec![Known::default(); count];
    for (container, known) in containers.iter().zip(&mut known) {
        known.counters = container.counters()?;
    }
    let (mut next, mut began, mut now) = (Duration::ZERO, Duration::ZERO, Vec::new());
    loop {
        // A sample that is missed is not made up for.
        next = (next + EACH).max(start.elapsed());
        std::thread::sleep((start + next).saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let counts = next > plan.warm_up() && next <= plan.length();
        let ends_step = next - began >= STEP;
        let before = std::mem::replace(&mut now, vec![0.0; count]);
        let mut intervals = Vec::with_capacity(count);
        for (number, (container, known)) in containers.iter().zip(&mut known).enumerate() {
            let (counters, at) = (container.counters()?, start.elapsed());
            // Without a quota, nobody asks for it.
            let quota = container.quota()?.unwrap_or(0.0);
            known.quotas += quota;
            now[number] = quota;
            known.samples += 1;
            if counts {
                known.delays.add(Sample { at, throttled: counters.throttled, quota });
            }
            if ends_step {
                let step = known.step(counters, at);
                intervals.push(step.interval);
                if counts {
                    seen.add(number, &step, next - plan.warm_up());
                }
            }
        }
        seen.above += u64::from(is_above(&before, &now));
        if !ends_step {
            continue;
        }
        began = next;
        if let Some(quotas) = state.step(&intervals) {
            for (container, quota) in containers.iter().zip(quotas) {
                container.set_quota(Some(*quota))?;
            }
        }
    }
    for known in known {
        seen.raised.extend(known.delays.raised);
        seen.in_vain += known.delays.in_vain;
    }
    Ok(seen)
}

/// Whether two samples show the same quotas, and too large a sum: what is written while they are
/// read is no state of the files.
fn is_above(before: &[f64], now: &[f64]) -> bool {
    before == now && now.iter().sum::<f64>() > LIMIT + ROUNDED * now.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_too_large_if_two_samples_show_it() {
        let of = |before: &[f64], now: &[f64]| is_above(before, now);
        assert!(of(&[0.5, 0.501], &[0.5, 0.501]) && !of(&[0.5, 0.5], &[0.5, 0.5]));
        assert!(!of(&[0.4, 0.501], &[0.5, 0.501]) && !of(&[], &[2.0]), "it changes");
    }

    #[test]
    fn a_step_has_its_mean_quota_and_what_was_counted_in_it() {
        let counters = |used, periods, throttled| CpuCounters { used: Duration::from_millis(used), periods, throttled };
        let mut known = Known { counters: counters(500, 5, 2), quotas: 0.6, samples: 2, ..Known::default() };
        let step = known.step(counters(520, 7, 3), Duration::from_millis(200));
        assert_eq!((step.quota, step.periods, step.throttled), (0.3, 2, 1));
        assert_eq!(step.interval, Interval { used: 0.1, throttled: true });
        known.quotas = 0.4;
        known.samples = 1;
        let step = known.step(counters(520, 7, 3), Duration::from_millis(300));
        assert_eq!((step.quota, step.periods, step.throttled), (0.4, 0, 0));
        assert_eq!(step.interval, Interval::default());

        let mut seen = Seen { peaks: vec![0.0; 2], quotas: vec![vec![]; 2], ..Seen::default() };
        for used in [0.1, 0.5, 0.2] {
            let interval = Interval { used, throttled: true };
            seen.add(1, &Step { interval, quota: 0.3, periods: 2, throttled: 1 }, Duration::from_secs(1));
        }
        assert_eq!((seen.periods, seen.throttled, &*seen.peaks), (6, 3, &[0.0, 0.5][..]));
        let close = seen.slack.iter().zip([0.2, 0.0, 0.1]).all(|(one, other)| (one - other).abs() < 1e-9);
        assert!(close && seen.slack.len() == 3, "{:?}", seen.slack);
        assert_eq!((seen.quotas[0].len(), seen.quotas[1][2]), (0, Point { at_s: 1.0, value: 0.3 }));
    }
}
