//! What one simulation of a cell gives, and the medians over its seeds.

use super::cell::Cell;
use crate::outcome::Outcome;
use crate::policies::PolicyKind;
use bloc_figures::stats::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The policies of a map. The first is the baseline; the last three see everything.
pub const POLICIES: [PolicyKind; 8] = [
    PolicyKind::LeastRequestFull,
    PolicyKind::EnvoyLeastRequest,
    PolicyKind::Bloc,
    PolicyKind::Mu,
    PolicyKind::Bid,
    PolicyKind::Jsq,
    PolicyKind::ShortestResponse,
    PolicyKind::WaitPlusHalf,
];
/// Those that see everything.
const OMNISCIENT: [PolicyKind; 3] = [PolicyKind::Jsq, PolicyKind::ShortestResponse, PolicyKind::WaitPlusHalf];

/// What one simulation gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median response time.
    pub p50_ms: f64,
    /// 99th percentile of the response time.
    pub p99_ms: f64,
    /// Mean response time.
    pub mean_ms: f64,
    /// Attempts for each request.
    pub attempts: f64,
    /// The share of the requests that was shed.
    pub shed: f64,
    /// Answers per second.
    pub goodput: f64,
    /// The first server's share of the attempts, as a multiple of a fair one.
    pub share: f64,
}

impl Figures {
    /// The figures of an outcome; none if nothing was answered.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        Some(Self {
            p50_ms: outcome.p50_ms?,
            p99_ms: outcome.p99_ms?,
            mean_ms: outcome.mean_ms?,
            attempts: outcome.attempts_per_request,
            shed: outcome.shed as f64 / outcome.requests as f64,
            goodput: outcome.throughput_rps,
            share: outcome.attempts_at[0] as f64 * outcome.attempts_at.len() as f64
                / outcome.attempts_at.iter().sum::<u64>() as f64,
        })
    }
}

/// The simulations of one cell, by policy, in the order of the seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The cell.
    pub cell: Cell,
    /// The figures, as many for each policy.
    pub of: BTreeMap<&'static str, Vec<Figures>>,
}

impl Runs {
    /// One number of each simulation of a policy.
    pub fn each(&self, policy: PolicyKind, number: fn(&Figures) -> f64) -> Vec<f64> {
        self.of.get(policy.name()).into_iter().flatten().map(number).collect()
    }

    /// The median of one number of a policy; NaN without simulations.
    pub fn median(&self, policy: PolicyKind, number: fn(&Figures) -> f64) -> f64 {
        median(&self.each(policy, number)).unwrap_or(f64::NAN)
    }

    /// Of the policies that see everything, the one with the lowest p99.
    pub fn omniscient(&self) -> PolicyKind {
        let p99 = |policy: &PolicyKind| self.median(*policy, |figures| figures.p99_ms);
        OMNISCIENT.into_iter().min_by(|a, b| p99(a).total_cmp(&p99(b))).unwrap_or(PolicyKind::Jsq)
    }

    /// One number of a policy as a multiple of the baseline's, with the same seed each.
    pub fn ratios(&self, policy: PolicyKind, number: fn(&Figures) -> f64) -> Vec<f64> {
        let baseline = self.each(POLICIES[0], number);
        self.each(policy, number).into_iter().zip(baseline).map(|(own, baseline)| own / baseline).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_omniscient_policy_has_the_lowest_median_p99() {
        let figures =
            |p99_ms| Figures { p50_ms: 1.0, p99_ms, mean_ms: 1.0, attempts: 1.0, shed: 0.0, goodput: 1.0, share: 1.0 };
        let all = |p99s: [f64; 3]| p99s.map(figures).to_vec();
        let of = BTreeMap::from([
            ("least_request_full", all([10.0, 20.0, 30.0])),
            ("jsq", all([5.0, 5.0, 5.0])),
            ("shortest_response", all([4.0, 4.0, 9.0])),
            ("wait_plus_half", all([6.0, 6.0, 1.0])),
        ]);
        let runs = Runs { cell: super::super::corners()[0], of };
        assert_eq!(runs.omniscient(), PolicyKind::ShortestResponse);
        assert_eq!(runs.ratios(PolicyKind::Jsq, |figures| figures.p99_ms), [0.5, 0.25, 5.0 / 30.0]);
    }
}
