//! What is measured in a turn.

use super::super::figures::{self, Figure, Turn};
use super::super::plan::Plan;
use super::case::QosCase;
use super::plan::is_late;
use super::testbed::{Programs, Stand};
use crate::timeline::Point;
use bloc_mesh::load::Sample;
use std::path::Path;
use std::time::Instant;

/// Over time, for each container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charts {
    /// Its shares.
    pub shares: Vec<Vec<Point>>,
    /// Requests of each second that were answered late.
    pub late: Vec<Vec<Point>>,
}

/// The turn of a case, with the load of [`super::plan::plan`].
///
/// # Errors
/// A part does not start, or ends early.
pub async fn turn(
    programs: Programs<'_>,
    directory: &Path,
    plan: Plan,
    seed: u64,
    case: QosCase,
) -> anyhow::Result<(Turn, Charts)> {
    let mut stand = Stand::start(programs, directory, seed).await?;
    if case == QosCase::Agent {
        stand.start_agent().await?;
    }
    let (before, began) = (stand.agent_cpu()?, Instant::now());
    let (samples, seen) = stand.load(plan, seed).await?;
    let (after, lasted) = (stand.agent_cpu()?, began.elapsed());
    let not_own = stand.end_agent().await?;
    stand.end().await;
    let late = samples.iter().map(|samples| late_per_second(samples, plan)).collect();
    let mut turn = figures::of_qos(&samples, plan, &seen, not_own);
    if let Some((before, after)) = before.zip(after) {
        turn.insert(Figure::AgentCpu, (after - before).as_secs_f64() / lasted.as_secs_f64());
    }
    Ok((turn, Charts { shares: seen.shares, late }))
}

/// Of the requests that begin in each second of the window, those that were answered late.
fn late_per_second(samples: &[Sample], plan: Plan) -> Vec<Point> {
    let seconds = plan.window().as_secs() as usize;
    let mut late = vec![0_u32; seconds];
    for sample in samples.iter().filter(|sample| is_late(sample)) {
        let second = (sample.ended - sample.latency).saturating_sub(plan.warm_up()).as_secs() as usize;
        if let Some(late) = late.get_mut(second) {
            *late += 1;
        }
    }
    late.into_iter().enumerate().map(|(at, late)| Point { at_s: at as f64 + 1.0, value: f64::from(late) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::Outcome;
    use std::time::Duration;

    const PLAN: Plan = Plan { burst: Duration::from_secs(1), every: Duration::from_secs(1) };

    fn sample(began_ms: u64, took_ms: u64) -> Sample {
        let [began, latency] = [began_ms, took_ms].map(Duration::from_millis);
        Sample { latency, outcome: Outcome::Ok, ended: began + latency }
    }

    #[test]
    fn late_answers_count_in_the_second_in_which_their_requests_begin() {
        let samples = [sample(1_000, 121), sample(1_999, 1_500), sample(2_000, 119), sample(4_999, 200)];
        let late: Vec<(f64, f64)> = late_per_second(&samples, PLAN).iter().map(|at| (at.at_s, at.value)).collect();
        assert_eq!(late, [(1.0, 2.0), (2.0, 0.0), (3.0, 0.0), (4.0, 1.0)]);
    }
}
