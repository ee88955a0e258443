//! A run, and what came out.

use super::allocator::Allocator;
use super::case::Case;
use super::cgroup::{Cgroup, Counters, End, PERIOD};
use super::load::Load;
use bloc_figures::stats::quantile;
use bloc_node_agent::Cores;
use serde::Serialize;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that came in the measured time.
    pub requests: u64,
    /// Those that were answered in time.
    pub answered: u64,
    /// Median response time of all requests, in milliseconds; who was not answered took `patience`.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Median of quota minus use, over containers and steps of 100 ms, in cores.
    pub slack_p50: f64,
    /// Its 99th percentile.
    pub slack_p99: f64,
    /// Share of the periods in which a container was throttled.
    pub throttled: f64,
    /// Largest sum of the quotas, as a part of the limit.
    pub sum: f64,
    /// Largest use of all in a second, as a part of the limit.
    pub used: f64,
    /// Quotas written, per container and second.
    pub writes: f64,
}

/// The peak of each container, as it is measured without quotas: the largest mean use over 10 s,
/// which is how often a kubelet looks.
pub fn peaks(case: &Case) -> Vec<f64> {
    let free = vec![64.0; case.containers];
    let mut peaks = vec![0.0_f64; case.containers];
    let mut before = vec![0; case.containers];
    simulate(case, Allocator::Peak(1.0), &free, |step| {
        if (step.at + 1).is_multiple_of(WINDOW) {
            for ((peak, before), cgroup) in peaks.iter_mut().zip(&mut before).zip(step.cgroups) {
                let used = cgroup.counters().used;
                *peak = peak.max((used - *before) as f64 / (WINDOW * PERIOD) as f64);
                *before = used;
            }
        }
    });
    peaks
}

/// Runs a case.
pub fn run(case: &Case, allocator: Allocator) -> Outcome {
    let peaks = if matches!(allocator, Allocator::Peak(_)) { peaks(case) } else { vec![0.0; case.containers] };
    let round = case.round();
    let (mut slack, mut sum, mut second, mut used) = (Vec::new(), 0.0_f64, 0, 0.0_f64);
    let (mut periods, mut throttled, mut writes) = (0, 0, 0);
    let times = simulate(case, allocator, &peaks, |step| {
        if (step.at + 1) * PERIOD <= round {
            return;
        }
        let cores = |used: u64| used as f64 / PERIOD as f64;
        for (quota, counted) in step.quotas.iter().zip(step.counted) {
            slack.push((quota.get() - cores(counted.used)).max(0.0));
            second += counted.used;
            periods += counted.periods;
            throttled += counted.throttled;
        }
        sum = sum.max(step.quotas.iter().map(|quota| quota.get()).sum());
        writes += step.writes;
        if (step.at + 1).is_multiple_of(10) {
            used = used.max(cores(second) / 10.0);
            second = 0;
        }
    });
    let patience = case.patience.as_nanos() as u64;
    let mut times: Vec<u64> = times.into_iter().map(|took| took.min(patience + 1)).collect();
    times.sort_unstable();
    slack.sort_by(f64::total_cmp);
    let time = |share: f64| quantile(&times, share).map_or(f64::NAN, |took| took.min(patience) as f64 / 1e6);
    let of_slack = |share: f64| quantile(&slack, share).unwrap_or(f64::NAN);
    Outcome {
        requests: times.len() as u64,
        answered: times.partition_point(|took| *took <= patience) as u64,
        p50_ms: time(0.5),
        p99_ms: time(0.99),
        p999_ms: time(0.999),
        slack_p50: of_slack(0.5),
        slack_p99: of_slack(0.99),
        throttled: throttled as f64 / periods.max(1) as f64,
        sum: sum / case.limit.get(),
        used: used / case.limit.get(),
        writes: writes as f64 / case.containers as f64 / case.duration.as_secs_f64(),
    }
}

/// Steps over which a peak is a mean.
const WINDOW: u64 = 100;

/// A step of 100 ms that has passed.
struct Step<'a> {
    at: u64,
    cgroups: &'a [Cgroup],
    /// The quotas in it.
    quotas: &'a [Cores],
    counted: &'a [Counters],
    /// Quotas that are written after it.
    writes: u64,
}

/// Returns the time of each request that came in the measured time. The load goes on until each of
/// them has been answered or given up.
fn simulate(case: &Case, allocator: Allocator, peaks: &[f64], mut passed: impl FnMut(&Step)) -> Vec<u64> {
    let round = case.round();
    let end = round + case.duration.as_nanos() as u64;
    let (mut state, mut quotas) = allocator.start(peaks, case.limit);
    let mut loads: Vec<Load> = (0..case.containers).map(|key| Load::new(case, key)).collect();
    let new = |(quota, load): (&Cores, &Load)| Cgroup::new(case, *quota, allocator.burst(*quota), load.phase);
    let mut cgroups: Vec<Cgroup> = quotas.iter().zip(&loads).map(new).collect();
    let mut before = vec![Counters::default(); case.containers];
    let (mut times, mut came) = (Vec::new(), 0);
    let mut at = 0;
    while at * PERIOD < end || times.len() < came {
        let until = (at + 1) * PERIOD;
        for (cgroup, load) in cgroups.iter_mut().zip(&mut loads) {
            let mut ended = |end_: End| {
                if (round..end).contains(&end_.came) {
                    times.push(end_.took);
                }
            };
            while let Some((when, need)) = load.next(until) {
                cgroup.run(when, &mut ended);
                came += usize::from((round..end).contains(&when));
                cgroup.receive(need);
            }
            cgroup.run(until, &mut ended);
        }
        let mut counted = Vec::with_capacity(case.containers);
        for (cgroup, before) in cgroups.iter().zip(&mut before) {
            let now = cgroup.counters();
            counted.push(Counters {
                used: now.used - before.used,
                periods: now.periods - before.periods,
                throttled: now.throttled - before.throttled,
            });
            *before = now;
        }
        let mut writes = 0;
        let in_force = quotas.clone();
        state.step(at as usize, &counted, case.limit, |key, quota| {
            quotas[key] = quota;
            cgroups[key].set_quota(quota);
            writes += 1;
        });
        if until <= end {
            passed(&Step { at, cgroups: &cgroups, quotas: &in_force, counted: &counted, writes });
        }
        at += 1;
    }
    times
}
