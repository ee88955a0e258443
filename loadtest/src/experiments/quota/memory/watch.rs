//! Reads the files of the containers each 5 ms. It has a thread of its own; dropping it ends that.

use super::super::background::Background;
use super::super::plan::Plan;
use super::plan::{MEBI, counts_from, length};
use super::waits::Waits;
use crate::timeline::Point;
use bloc_mesh::cgroups::{ContainerMemory, GroupError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EACH: Duration = Duration::from_millis(5);
/// Slack is taken from the first sample after each such time.
const STEP: Duration = Duration::from_millis(100);

/// What the files said.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Maximum minus use of each container in each step, in MiB.
    pub slack: Vec<f64>,
    /// The most that each container used, in bytes.
    pub peaks: Vec<u64>,
    /// Waits for a larger limit.
    pub raised: Vec<Duration>,
    /// Containers at their limit that got no larger one.
    pub in_vain: u64,
    /// The maximum of each container over time, in MiB.
    pub limits: Vec<Vec<Point>>,
}

/// Reads from now on, in a plan that began at `start`; only what is in its window counts.
pub fn start(containers: Vec<ContainerMemory>, start: Instant, plan: Plan) -> Background<Seen> {
    Background::start(move |stopped| watch(&containers, start, plan, stopped))
}

impl Seen {
    fn new(containers: usize) -> Self {
        Self { peaks: vec![0; containers], limits: vec![Vec::new(); containers], ..Self::default() }
    }

    /// A step of a container: when in the window, its use, and its maximum if it has one.
    fn add(&mut self, container: usize, at: Duration, used: u64, max: Option<u64>) {
        let mebi = |bytes: u64| bytes as f64 / MEBI as f64;
        if let Some(max) = max {
            self.slack.push(mebi(max.saturating_sub(used)));
            self.limits[container].push(Point { at_s: at.as_secs_f64(), value: mebi(max) });
        }
    }
}

fn watch(containers: &[ContainerMemory], start: Instant, plan: Plan, stop: &AtomicBool) -> Result<Seen, GroupError> {
    let mut seen = Seen::new(containers.len());
    let mut waits = vec![Waits::default(); containers.len()];
    let (from, to) = (counts_from(plan), length(plan));
    let mut steps_from = from;
    while !stop.load(Ordering::Relaxed) {
        let at = start.elapsed();
        let counts = at >= from && at <= to;
        let steps = counts && at >= steps_from;
        for (number, container) in containers.iter().enumerate() {
            let (used, max) = (container.used()?, container.limit()?);
            seen.peaks[number] = seen.peaks[number].max(used);
            if counts {
                waits[number].add(start.elapsed(), used, max.unwrap_or(u64::MAX));
            }
            if steps {
                seen.add(number, at - from, used, max);
            }
        }
        if steps {
            steps_from = at + STEP;
        }
        std::thread::sleep((at + EACH).saturating_sub(start.elapsed()));
    }
    for waits in waits {
        seen.raised.extend(waits.raised);
        seen.in_vain += waits.in_vain;
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_what_a_container_may_use_beyond_its_use() {
        let mut seen = Seen::new(2);
        let second = Duration::from_secs(1);
        seen.add(1, second, 3 * MEBI, Some(4 * MEBI));
        seen.add(1, 2 * second, 5 * MEBI, Some(4 * MEBI));
        seen.add(0, second, 5 * MEBI, None);
        assert_eq!((seen.slack, seen.peaks), (vec![1.0, 0.0], vec![0, 0]));
        let point = |at_s| Point { at_s, value: 4.0 };
        assert_eq!(seen.limits, [vec![], vec![point(1.0), point(2.0)]]);
    }
}
