//! A run, and what came out.

use super::allocator::Allocator;
use super::case::Case;
use super::load::Load;
use super::node::Node;
use bloc_figures::service_time::exponential;
use bloc_figures::stats::quantile;
use bloc_node_agent::qos::Answers;
use serde::Serialize;
use std::time::Duration;

/// What came out. A client that has left counts with its patience, and as a violation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that were answered or whose client has left.
    pub requests: u64,
    /// Those whose client has left.
    pub left: u64,
    /// Those that took longer than the target times the threshold.
    pub violations: u64,
    /// Mean response time, in milliseconds.
    pub mean_ms: f64,
    /// Its 99th percentile.
    pub p99_ms: f64,
    /// The largest part of violations of a container.
    pub worst: f64,
    /// Cores that the application used.
    pub cores: f64,
    /// Cores that the container outside used.
    pub outside_cores: f64,
    /// 99th percentile of the time of its jobs, in milliseconds.
    pub outside_p99_ms: f64,
    /// The largest sum of the application's shares, as a part of what its requests give.
    pub sum: f64,
}

/// Seconds before the measurement.
const WARM_UP: u64 = 60;

/// What sidecars have told, and will tell in the next second.
#[derive(Clone, Copy, Default)]
struct Reports {
    due: Answers,
    later: Answers,
}

impl Reports {
    fn count(&mut self, took: f64, later: bool) {
        let answers = if later { &mut self.later } else { &mut self.due };
        answers.count += 1;
        answers.time += Duration::from_secs_f64(took);
    }

    fn take(&mut self) -> Answers {
        std::mem::replace(&mut self.due, std::mem::take(&mut self.later))
    }
}

/// Runs a case.
pub fn run(case: &Case, allocator: Allocator) -> Outcome {
    let (count, outside) = (case.containers, case.containers);
    let own = case.start().own;
    let mut loads: Vec<Load> = (0..count).map(|key| Load::new(case, key)).collect();
    let mut rng = fastrand::Rng::with_seed(case.seed.wrapping_mul(1_000_003).wrapping_sub(1));
    let phases: Vec<f64> = (0..count).map(|_| if case.delayed { rng.f64() } else { 1.0 }).collect();
    let mut shares = vec![own; count];
    let places = shares.iter().map(|shares| (case.threads, *shares));
    let mut node = Node::new(case.cores, places.chain([(case.cores, case.outside_shares())]));
    if case.outside > 0.0 {
        (0..case.cores as usize).for_each(|_| job(case, &mut node, &mut rng));
    }
    let mut state = allocator.start(case);
    let mut reports = vec![Reports::default(); count];
    let (patience, bound) = (case.patience.as_secs_f64(), case.target.as_secs_f64() * case.threshold);
    let (mut times, mut jobs, mut sum) = (Vec::new(), Vec::new(), 0.0_f64);
    let (mut left, mut of) = (0, vec![(0_u64, 0_u64); count]);
    let mut used_before = Vec::new();
    for second in 0..WARM_UP + case.measured() {
        let (begins, ends) = (second as f64, (second + 1) as f64);
        let measured = second >= WARM_UP;
        if second == WARM_UP {
            used_before = (0..=count).map(|key| node.used(key)).collect();
        }
        let mut arrivals: Vec<(f64, usize, f64)> = Vec::new();
        let mut wanted: Vec<f64> = (0..count).map(|key| node.backlog(key)).collect();
        for (key, load) in loads.iter_mut().enumerate() {
            while let Some((when, work)) = load.next(ends) {
                arrivals.push((when, key, work));
                wanted[key] += work;
            }
        }
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let heard: Vec<Answers> = reports.iter_mut().map(Reports::take).collect();
        if let Some(new) = state.second(&heard, &wanted) {
            for (key, new) in new.into_iter().enumerate() {
                node.set_shares(key, new);
                shares[key] = new;
            }
        }
        sum = sum.max(shares.iter().sum());
        let stops = arrivals.into_iter().map(|(when, key, work)| (when, Some((key, work))));
        for (until, request) in stops.chain([(ends, None)]) {
            while let Some(end) = node.run(until) {
                if end.key == outside {
                    job(case, &mut node, &mut rng);
                    if measured {
                        jobs.push(end.took);
                    }
                    continue;
                }
                if end.answered {
                    reports[end.key].count(end.took, end.at - begins >= phases[end.key]);
                    if let Some(new) = state.answered(end.key, end.took) {
                        node.set_shares(end.key, new);
                        shares[end.key] = new;
                    }
                }
                if measured {
                    times.push(end.took);
                    left += u64::from(!end.answered);
                    of[end.key].0 += 1;
                    of[end.key].1 += u64::from(end.took > bound);
                }
            }
            if let Some((key, work)) = request {
                node.receive(key, work, patience);
            }
        }
    }
    let cores = |key: usize| (node.used(key) - used_before[key]) / case.measured() as f64;
    let mean_ms = times.iter().sum::<f64>() / times.len() as f64 * 1e3;
    Outcome {
        requests: times.len() as u64,
        left,
        violations: of.iter().map(|(_, violations)| violations).sum(),
        mean_ms,
        p99_ms: p99(times) * 1e3,
        worst: of.iter().map(|(all, violations)| *violations as f64 / *all as f64).fold(0.0, f64::max),
        cores: (0..count).map(cores).sum(),
        outside_cores: cores(outside),
        outside_p99_ms: p99(jobs) * 1e3,
        sum: sum / (own * count as f64),
    }
}

/// The container outside begins its next job.
fn job(case: &Case, node: &mut Node, rng: &mut fastrand::Rng) {
    let outside = case.containers;
    node.receive(outside, exponential(case.work, || rng.f64()).as_secs_f64(), f64::INFINITY);
}

/// 99th percentile; 0 of nothing.
pub(super) fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.99).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_after_the_report_of_a_second_is_told_in_the_next_one() {
        let answers = |count, millis| Answers { count, time: Duration::from_millis(millis) };
        let mut reports = Reports::default();
        reports.count(0.25, false);
        reports.count(0.5, true);
        reports.count(0.125, false);
        assert_eq!(reports.take(), answers(2, 375));
        reports.count(0.25, true);
        assert_eq!([reports.take(), reports.take(), reports.take()], [answers(1, 500), answers(1, 250), answers(0, 0)]);
    }
}
