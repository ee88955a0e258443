//! Who gets how many requests, and when.

use super::super::plan::{CONTAINERS, Plan};
use bloc_mesh::load::Outcome;
use bloc_mesh::load::Sample;
use std::time::Duration;

/// Mean CPU time of a request.
pub const WORK: Duration = Duration::from_millis(5);
/// Requests that wait in a backend: more than come before their clients give up.
pub const QUEUE: usize = 1_000;
/// CPU that each backend needs, in cores; and while it is hot.
const NEEDS: [f64; 2] = [0.05, 0.3];
/// What each backend requests, in cores.
pub const REQUESTS: f64 = 0.1;
/// What their neighbour requests.
pub const NEIGHBOUR: f64 = 0.2;
/// The mean response time to be kept.
pub const TARGET: Duration = Duration::from_millis(100);
/// From this part of the target on, an answer is late.
pub const THRESHOLD: f64 = 1.2;
/// A backend is hot for so many times `--every`: the rule moves some shares in a second.
const HOLDS: u32 = 2;

/// One backend after the other is hot, without a pause.
pub fn plan(plan: Plan) -> Plan {
    let hot = plan.every * HOLDS;
    Plan { burst: hot, every: hot }
}

/// When requests arrive at each backend.
pub fn arrivals(plan: Plan, seed: u64) -> Vec<Vec<Duration>> {
    let rates = NEEDS.map(|cores| cores / WORK.as_secs_f64());
    (0..CONTAINERS).map(|container| plan.arrivals_at(container, rates, seed)).collect()
}

/// Whether a request was answered later than its target allows, or not at all.
pub fn is_late(sample: &Sample) -> bool {
    sample.outcome != Outcome::Ok || sample.latency > TARGET.mul_f64(THRESHOLD)
}

/// What the kubelet makes of a request of CPU.
pub fn shares(cores: f64) -> u64 {
    (cores * 1_024.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::ErrorKind;

    #[test]
    fn one_backend_after_the_other_is_hot_without_a_pause() {
        let plan = plan(Plan { burst: Duration::from_secs(3), every: Duration::from_secs(10) });
        assert_eq!(plan, Plan { burst: Duration::from_secs(20), every: Duration::from_secs(20) });
        let arrivals = arrivals(plan, 1);
        assert_eq!(arrivals.len(), CONTAINERS);
        for (container, arrivals) in arrivals.iter().enumerate() {
            let from = plan.warm_up() + plan.every * container as u32;
            let hot = arrivals.iter().filter(|at| (from..from + plan.every).contains(*at)).count() as f64;
            let rest = arrivals.len() as f64 - hot;
            // 20 s with 60 in each, 70 s with 10 in each. Four standard deviations.
            assert!((hot - 1_200.0).abs() < 4.0 * 1_200f64.sqrt(), "{hot}");
            assert!((rest - 700.0).abs() < 4.0 * 700f64.sqrt(), "{rest}");
        }
    }

    #[test]
    fn an_answer_is_late_above_the_threshold_and_what_was_not_answered_too() {
        let sample = |ms, outcome| Sample { latency: Duration::from_millis(ms), outcome, ended: Duration::ZERO };
        let late = [120, 121].map(|ms| is_late(&sample(ms, Outcome::Ok)));
        assert_eq!(late, [false, true]);
        assert!(is_late(&sample(1, Outcome::Error(ErrorKind::Status(503)))) && is_late(&sample(1, Outcome::Shed)));
    }

    #[test]
    fn shares_are_what_the_kubelet_gives() {
        assert_eq!([REQUESTS, NEIGHBOUR, 1.0].map(shares), [102, 204, 1_024]);
    }

    #[test]
    fn a_hot_backend_wants_more_than_its_own_part_and_there_is_room_for_it() {
        let all = REQUESTS * CONTAINERS as f64 + NEIGHBOUR;
        let [others, hot] = NEEDS;
        assert!(hot > REQUESTS / (REQUESTS + NEIGHBOUR) * 0.8 && others < REQUESTS / all);
        let needs = hot + others * (CONTAINERS - 1) as f64;
        assert!(needs < 0.75 * (all - NEIGHBOUR) / all, "{needs}");
    }
}
