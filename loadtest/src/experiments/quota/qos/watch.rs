//! Reads the shares of all containers and pods each 20 ms. It has a thread of its own; dropping it
//! ends that.

use super::super::background::Background;
use super::super::plan::Plan;
use crate::timeline::Point;
use bloc_mesh::cgroups::{Container, GroupError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EACH: Duration = Duration::from_millis(20);
/// A point of a chart is taken after each such time.
const STEP: Duration = Duration::from_millis(500);
/// Shares are rounded in files.
const ROUNDED: f64 = 0.5;

/// The weights of each container and of its pod.
pub type Weights = Vec<[f64; 2]>;

/// What the files said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The most that a container had, in parts of its own.
    pub most: f64,
    /// Samples in which the containers, or their pods, had more together than their own.
    pub above: u64,
    /// CPU that the neighbour used, in cores.
    pub neighbour: f64,
    /// The weight of each container over time.
    pub shares: Vec<Vec<Point>>,
}

/// Reads from `start` on; only what is in the window of the plan counts, but a sum that is too
/// large always does.
pub fn start(
    containers: Vec<Container>,
    neighbour: Container,
    own: Weights,
    start: Instant,
    plan: Plan,
) -> Background<Seen> {
    Background::start(move |stopped| watch(&containers, &neighbour, &own, start, plan, stopped))
}

/// The weights of all.
///
/// # Errors
/// A file cannot be read.
pub fn weights(containers: &[Container]) -> Result<Weights, GroupError> {
    containers.iter().map(Container::weights).collect()
}

impl Seen {
    fn new(containers: usize) -> Self {
        Self { shares: vec![Vec::new(); containers], ..Self::default() }
    }

    /// A sample that counts always.
    fn sum(&mut self, now: &Weights, own: &Weights) {
        let sum = |weights: &Weights, which: usize| weights.iter().map(|one| one[which]).sum::<f64>();
        let is_above = |which| sum(now, which) > sum(own, which) + ROUNDED * own.len() as f64;
        self.above += u64::from(is_above(0) || is_above(1));
    }

    /// A point of the charts.
    fn add(&mut self, at: Duration, now: &Weights, own: &Weights) {
        for (points, ([now, _], [own, _])) in self.shares.iter_mut().zip(now.iter().zip(own)) {
            points.push(Point { at_s: at.as_secs_f64(), value: *now });
            self.most = self.most.max(now / own);
        }
    }
}

fn watch(
    containers: &[Container],
    neighbour: &Container,
    own: &Weights,
    start: Instant,
    plan: Plan,
    stop: &AtomicBool,
) -> Result<Seen, GroupError> {
    let mut seen = Seen::new(containers.len());
    let (from, to) = (plan.warm_up(), plan.length());
    let mut next = from;
    // When the window began, and the last sample in it, with the CPU of the neighbour until then.
    let (mut first, mut last) = (None, None);
    while !stop.load(Ordering::Relaxed) {
        let at = start.elapsed();
        // What is written between two reads is no state of the files.
        let now = weights(containers)?;
        if now == weights(containers)? {
            seen.sum(&now, own);
            if at >= from && at <= to {
                let used = (start.elapsed(), neighbour.counters()?.used);
                first = first.or(Some(used));
                last = Some(used);
                if at >= next {
                    seen.add(at - from, &now, own);
                    next = at + STEP;
                }
            }
        }
        std::thread::sleep((at + EACH).saturating_sub(start.elapsed()));
    }
    if let Some(((began, before), (ended, after))) = first.zip(last) {
        seen.neighbour = cores(after.saturating_sub(before), ended.saturating_sub(began));
    }
    Ok(seen)
}

/// 0 if no time has passed.
fn cores(used: Duration, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { used.div_duration_f64(elapsed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_too_large_beyond_half_a_share_of_each() {
        let own: Weights = vec![[100.0, 100.0], [50.0, 60.0]];
        let above = |now: [[f64; 2]; 2]| {
            let mut seen = Seen::new(2);
            seen.sum(&now.into(), &own);
            seen.above
        };
        assert_eq!([[[100.0, 100.0], [50.0, 60.0]], [[10.0, 0.0], [141.0, 161.0]]].map(above), [0; 2]);
        assert_eq!([[[101.0, 0.0], [50.5, 0.0]], [[0.0, 101.0], [0.0, 60.5]]].map(above), [1; 2]);
        assert_eq!(above([[90.0, 90.0], [40.0, 40.0]]), 0, "less is no fault");
    }

    #[test]
    fn the_most_is_in_parts_of_the_own() {
        let own: Weights = vec![[100.0, 100.0], [50.0, 60.0]];
        let mut seen = Seen::new(2);
        seen.add(Duration::from_secs(1), &vec![[50.0, 500.0], [100.0, 500.0]], &own);
        seen.add(Duration::from_secs(2), &vec![[110.0, 500.0], [40.0, 500.0]], &own);
        assert_eq!(seen.most, 2.0);
        let point = |at_s, value| Point { at_s, value };
        assert_eq!(seen.shares, [vec![point(1.0, 50.0), point(2.0, 110.0)], vec![point(1.0, 100.0), point(2.0, 40.0)]]);
    }

    #[test]
    fn cores_are_cpu_by_time() {
        let cores = |used, elapsed| cores(Duration::from_millis(used), Duration::from_millis(elapsed));
        assert_eq!((cores(300, 600), cores(300, 0)), (0.5, 0.0));
    }
}
