//! A run, and what came out.

use super::allocator::{Allocator, State};
use super::case::Case;
use super::case::MEBI;
use super::load::WARM_UP;
use bloc_figures::stats::quantile;
use bloc_node_agent::memory::Refused;
use serde::Serialize;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Bursts in the measured time.
    pub bursts: u64,
    /// Containers that were killed.
    pub kills: u64,
    /// Median of limit minus use, over containers and steps of 100 ms, in MiB.
    pub slack_p50: f64,
    /// Its 99th percentile.
    pub slack_p99: f64,
    /// Mean sum of the limits, as a part of the limit: MiB-seconds of limits, over those of the
    /// limit.
    pub mean_sum: f64,
    /// Its largest value.
    pub sum: f64,
    /// Largest use of all, as a part of the limit.
    pub used: f64,
    /// Grants.
    pub grants: u64,
    /// Grants that nobody could give.
    pub refused: u64,
    /// Time that growth was held up, in milliseconds a burst.
    pub held_ms: f64,
    /// The longest sleep, in milliseconds.
    pub longest_ms: u64,
}

/// Milliseconds between two samples.
const SAMPLE: u64 = 100;

/// Runs a case.
///
/// # Errors
/// The agent refuses the application.
pub fn run(case: &Case, allocator: Allocator) -> Result<Outcome, Refused> {
    let mut loads = case.loads();
    let limit = case.limit();
    let (mut state, mut groups) = allocator.start(&loads, limit)?;
    let (delay, speed) = (case.delay.as_millis() as u64, case.speed.get());
    let end = WARM_UP + case.measured();
    let part = |bytes: u64| bytes as f64 / limit.get() as f64;
    let mut slack = Vec::with_capacity((case.measured() / SAMPLE) as usize * groups.len());
    let (mut kills, mut limits, mut sum, mut used) = (0, 0.0, 0.0_f64, 0.0_f64);
    // When the agent answers those that ask.
    let mut due: Vec<Option<u64>> = vec![None; groups.len()];
    for at in 0..end {
        if at > 0 {
            state.tick(at, &mut groups);
        }
        for (key, due) in due.iter_mut().enumerate() {
            if *due == Some(at) {
                *due = None;
                state.answer(at, key, &mut groups);
            }
        }
        // What it may take until now, less what it could take before.
        let most = speed * (at + 1) / 1_000 - speed * at / 1_000;
        for (key, load) in loads.iter_mut().enumerate() {
            let step = groups[key].step(at, load.wants(at + 1), most);
            if step.killed {
                kills += u64::from(at >= WARM_UP);
                load.kill(at + 1);
                state.killed(key, &groups);
                groups[key].end();
            } else if step.asks && due[key].is_none() {
                due[key] = Some(at + delay.max(1));
            }
        }
        if at >= WARM_UP && (at + 1).is_multiple_of(SAMPLE) {
            let limit_of = |group: &super::group::Group| group.limit.unwrap_or(group.max);
            slack.extend(groups.iter().map(|group| limit_of(group).saturating_sub(group.used)));
            let all = part(groups.iter().map(limit_of).sum());
            limits += all;
            sum = sum.max(all);
            used = used.max(part(groups.iter().map(|group| group.used).sum()));
        }
    }
    let samples = slack.len() / groups.len().max(1);
    slack.sort_unstable();
    let of_slack = |share| quantile(&slack, share).map_or(f64::NAN, |slack| slack as f64 / MEBI as f64);
    let bursts = case.measured() / case.every();
    let (grants, refused) = match &state {
        State::Agent(running) => (running.grants, running.refused),
        _ => (0, 0),
    };
    Ok(Outcome {
        bursts,
        kills,
        slack_p50: of_slack(0.5),
        slack_p99: of_slack(0.99),
        mean_sum: limits / samples as f64,
        sum,
        used,
        grants,
        refused,
        held_ms: groups.iter().map(|group| group.held).sum::<u64>() as f64 / bursts as f64,
        longest_ms: groups.iter().map(|group| group.longest).max().unwrap_or(0),
    })
}
