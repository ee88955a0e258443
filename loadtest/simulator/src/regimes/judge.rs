//! The claims about bids, and whether a cell misses one.
//!
//! A claim is a bound for each seed. It is missed when the median of `value / bound` and four of
//! five exceed 1. Conditions compare medians. LR is least request, full scan; JSQ sees the length
//! of every queue; OMN is the best of three policies that see everything.

use super::cell::{Cell, Times, Told};
use super::figures::{Figures, Runs, median};
use crate::policies::PolicyKind::{self, Bid, Bloc, Jsq, LeastRequestFull};
use std::fmt;

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// Up to 95% load: p99 at most 1.03 of LR's.
    HarmlessTail,
    /// Up to 95% load, equal speeds: p50 at most 1.05 of LR's and one bounce.
    HarmlessMedian,
    /// Up to 95% load, other speeds: mean at most 1.03 of LR's.
    HarmlessMean,
    /// Overload: goodput at least 0.98 of BLOC's.
    Goodput,
    /// Overload: at most 0.4 attempts more than BLOC.
    OverloadAttempts,
    /// Where LR's p99 is more than 10% above OMN's: p99 at most OMN's + 0.2 of the gap + 2 bounces
    /// + 0.4 execution times.
    TakesTheGap,
    /// One or two places, lognormal, hold, 70% load: p99 at most 1.05 of JSQ's.
    BeatsShortestQueue,
    /// Where mean and p99 of LR are within 5% of OMN's: attempts at most 1.05, or 1.25 where speeds
    /// differ.
    FreeWithoutGain,
    /// 20 places: attempts at most 1.4.
    FewAttemptsAtTwenty,
    /// One place, 50 to 70% load: attempts at most 1.6 with fixed times, 2.2 with lognormal and
    /// mixed ones.
    FewAttemptsAtOne,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HarmlessTail => "p99 at most 1.03 LR",
            Self::HarmlessMedian => "p50 at most 1.05 LR + bounce",
            Self::HarmlessMean => "mean at most 1.03 LR",
            Self::Goodput => "goodput at least 0.98 BLOC",
            Self::OverloadAttempts => "attempts at most BLOC + 0.4",
            Self::TakesTheGap => "p99 takes 0.8 of the gap",
            Self::BeatsShortestQueue => "p99 at most 1.05 JSQ",
            Self::FreeWithoutGain => "no gain: attempts at most 1.05 (1.25)",
            Self::FewAttemptsAtTwenty => "20 places: attempts at most 1.4",
            Self::FewAttemptsAtOne => "1 place: attempts at most 1.6 (2.2)",
        })
    }
}

/// How a cell stands to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The claim.
    pub claim: Claim,
    /// For each seed the value as a multiple of its bound.
    pub of_bound: Vec<f64>,
}

impl Verdict {
    /// The median multiple.
    pub fn median(&self) -> f64 {
        median(self.of_bound.clone())
    }

    /// Whether the claim is missed.
    pub fn is_missed(&self) -> bool {
        let beyond = self.of_bound.iter().filter(|&&multiple| multiple > 1.0).count();
        self.median() > 1.0 && beyond * 5 >= self.of_bound.len() * 4
    }
}

/// The time of a bounce in the simulator, in milliseconds.
const BOUNCE_MS: f64 = 1.5;

fn p50(figures: &Figures) -> f64 {
    figures.p50_ms
}

fn p99(figures: &Figures) -> f64 {
    figures.p99_ms
}

fn mean(figures: &Figures) -> f64 {
    figures.mean_ms
}

fn attempts(figures: &Figures) -> f64 {
    figures.attempts
}

/// All claims that apply to a cell.
pub fn judge(runs: &Runs) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut claim = |claim, of_bound: Vec<f64>| verdicts.push(Verdict { claim, of_bound });
    let cell = &runs.cell;
    if cell.is_overloaded() {
        claim(Claim::Goodput, against(runs, Bloc, |figures| figures.goodput, |own, bloc| 0.98 * bloc / own));
        claim(Claim::OverloadAttempts, against(runs, Bloc, attempts, |own, bloc| own / (bloc + 0.4)));
        return verdicts;
    }
    claim(Claim::HarmlessTail, against(runs, LeastRequestFull, p99, |own, lr| own / (1.03 * lr)));
    if cell.has_equal_speeds() {
        let bound = |own, lr| own / (1.05 * lr + BOUNCE_MS);
        claim(Claim::HarmlessMedian, against(runs, LeastRequestFull, p50, bound));
    } else {
        claim(Claim::HarmlessMean, against(runs, LeastRequestFull, mean, |own, lr| own / (1.03 * lr)));
    }
    let best = runs.omniscient();
    let (lr, omniscient) = (runs.median(LeastRequestFull, p99), runs.median(best, p99));
    if lr > 1.1 * omniscient {
        let execution = cell.mean().as_secs_f64() * 1e3;
        let bound =
            |(lr, omniscient): (f64, f64)| omniscient + 0.2 * (lr - omniscient) + 2.0 * BOUNCE_MS + 0.4 * execution;
        let bounds = runs.each(LeastRequestFull, p99).into_iter().zip(runs.each(best, p99)).map(bound);
        claim(
            Claim::TakesTheGap,
            runs.each(Bid, p99).into_iter().zip(bounds).map(|(own, bound)| own / bound).collect(),
        );
    }
    if is_lognormal_held(cell) {
        claim(Claim::BeatsShortestQueue, against(runs, Jsq, p99, |own, jsq| own / (1.05 * jsq)));
    }
    let most = |bound: f64| runs.each(Bid, attempts).into_iter().map(|own| own / bound).collect();
    let near = |number| runs.median(LeastRequestFull, number) <= 1.05 * runs.median(best, number);
    if near(p99) && near(mean) {
        claim(Claim::FreeWithoutGain, most(if cell.has_equal_speeds() { 1.05 } else { 1.25 }));
    }
    if cell.concurrency == 20 {
        claim(Claim::FewAttemptsAtTwenty, most(1.4));
    }
    if cell.concurrency == 1 && (50..=70).contains(&cell.load) {
        match cell.times {
            Times::Fixed => claim(Claim::FewAttemptsAtOne, most(1.6)),
            Times::Lognormal | Times::Mixed => claim(Claim::FewAttemptsAtOne, most(2.2)),
            Times::Exponential => {}
        }
    }
    verdicts
}

fn is_lognormal_held(cell: &Cell) -> bool {
    cell.concurrency <= 2 && cell.times == Times::Lognormal && cell.told == Told::Hold && cell.load == 70
}

/// A number of bids and of another policy, with the same seed each.
fn against(
    runs: &Runs,
    other: PolicyKind,
    number: fn(&Figures) -> f64,
    of_bound: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    runs.each(Bid, number).into_iter().zip(runs.each(other, number)).map(|(own, other)| of_bound(own, other)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::POLICIES;
    use super::*;
    use crate::regimes::Speeds;
    use std::collections::BTreeMap;

    const CELL: Cell = Cell {
        servers: 10,
        concurrency: 1,
        times: Times::Fixed,
        mean_ms: 50,
        speeds: Speeds::Equal,
        load: 90,
        senders: 40,
        told: Told::Truth,
    };

    fn figures(p50_ms: f64, p99_ms: f64, attempts: f64) -> Figures {
        Figures { p50_ms, p99_ms, mean_ms: p50_ms, attempts, shed: 0.0, goodput: 100.0 }
    }

    /// Five equal runs: LR 100 and 500 ms, everything that sees all 50 and 100, the rest as LR.
    fn runs(cell: Cell, bid: Figures) -> Runs {
        let of = POLICIES.map(|policy| {
            let figures = match policy {
                Bid => bid,
                LeastRequestFull | Bloc | PolicyKind::Mu => figures(100.0, 500.0, 1.0),
                _ => figures(50.0, 100.0, 1.0),
            };
            (policy.name(), vec![figures; 5])
        });
        Runs { cell, of: BTreeMap::from(of) }
    }

    fn missed(cell: Cell, bid: Figures) -> Vec<Claim> {
        judge(&runs(cell, bid)).into_iter().filter(Verdict::is_missed).map(|verdict| verdict.claim).collect()
    }

    #[test]
    fn a_claim_is_missed_when_the_median_and_four_of_five_exceed_the_bound() {
        let of = |of_bound: &[f64]| Verdict { claim: Claim::Goodput, of_bound: of_bound.to_vec() }.is_missed();
        assert!(of(&[0.9, 1.1, 1.1, 1.1, 1.1]));
        assert!(!of(&[0.9, 0.9, 1.1, 1.1, 1.1]));
        assert!(!of(&[1.0, 1.0, 1.0, 1.0, 1.0]));
        assert!(of(&[1.01]) && of(&[1.1, 1.1, 1.1]) && !of(&[0.9, 1.1, 1.1]));
    }

    #[test]
    fn every_bound_holds_at_its_value_and_is_missed_beyond() {
        // OMN 100 + 0.2 * 400 + 3 + 20 = 203.
        assert_eq!(missed(CELL, figures(106.5, 203.0, 3.0)), []);
        assert_eq!(missed(CELL, figures(106.6, 203.1, 3.0)), [Claim::HarmlessMedian, Claim::TakesTheGap]);
        assert_eq!(missed(CELL, figures(1.0, 515.1, 1.0)), [Claim::HarmlessTail, Claim::TakesTheGap]);
        let slow = Cell { speeds: Speeds::OneAtHalf, ..CELL };
        assert_eq!(missed(slow, figures(103.0, 1.0, 1.0)), []);
        assert_eq!(missed(slow, figures(103.1, 1.0, 1.0)), [Claim::HarmlessMean]);
        let twenty = Cell { concurrency: 20, ..CELL };
        assert_eq!(missed(twenty, figures(1.0, 1.0, 1.4)), []);
        assert_eq!(missed(twenty, figures(1.0, 1.0, 1.41)), [Claim::FewAttemptsAtTwenty]);
        for (times, most) in [(Times::Fixed, 1.6), (Times::Lognormal, 2.2), (Times::Mixed, 2.2)] {
            for load in [50, 70] {
                let cell = Cell { times, load, ..CELL };
                assert_eq!(missed(cell, figures(1.0, 1.0, most)), []);
                assert_eq!(missed(cell, figures(1.0, 1.0, most + 0.01)), [Claim::FewAttemptsAtOne]);
            }
        }
        let held = Cell { times: Times::Lognormal, load: 70, told: Told::Hold, concurrency: 2, ..CELL };
        assert_eq!(missed(held, figures(1.0, 105.0, 1.0)), []);
        assert_eq!(missed(held, figures(1.0, 105.1, 1.0)), [Claim::BeatsShortestQueue]);
    }

    #[test]
    fn under_overload_bids_are_compared_with_bloc_alone() {
        let cell = Cell { load: 200, ..CELL };
        let bid = |goodput, attempts| Figures { goodput, ..figures(1e6, 1e6, attempts) };
        assert_eq!(missed(cell, bid(98.0, 1.4)), []);
        assert_eq!(missed(cell, bid(97.9, 1.41)), [Claim::Goodput, Claim::OverloadAttempts]);
    }

    #[test]
    fn where_nothing_is_to_be_gained_bids_may_not_try_further() {
        let mut without_gain = runs(CELL, figures(1.0, 1.0, 1.06));
        for policy in ["jsq", "shortest_response", "wait_plus_half"] {
            without_gain.of.insert(policy, vec![figures(96.0, 480.0, 1.0); 5]);
        }
        let attempts = |runs: &Runs| {
            let verdict = judge(runs).into_iter().find(|verdict| verdict.claim == Claim::FreeWithoutGain);
            verdict.map(|verdict| verdict.is_missed())
        };
        assert_eq!(attempts(&without_gain), Some(true));
        without_gain.cell.speeds = Speeds::Two;
        assert_eq!(attempts(&without_gain), Some(false));
        without_gain.of.insert("jsq", vec![figures(90.0, 400.0, 1.0); 5]);
        assert_eq!(attempts(&without_gain), None, "LR's p99 is more than 5% above");
    }
}
