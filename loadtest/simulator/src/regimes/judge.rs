//! The claims about bids, and whether a cell misses one.
//!
//! A claim is a bound for each seed. It is missed when the median of `value / bound` and four of
//! five exceed 1. Conditions compare medians. LR is least request, full scan; JSQ sees the length
//! of every queue; OMN is the best of three policies that see everything.

use super::cell::{Cell, Times, Told, Trouble};
use super::figures::{Figures, Runs};
use crate::policies::PolicyKind::{self, Bid, Bloc, EnvoyLeastRequest, Jsq, LeastRequestFull, Mu};
use bloc_figures::stats::median;
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
    /// A server was cold or away: each routing gives it at least 0.8 of its share.
    HasItsShare,
    /// A server answers at once, wrongly or not: no routing gives it more than 1.15 of what Envoy's
    /// own least request gives it, and 0.05 of a fair share.
    DoesNotAttract,
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
            Self::HasItsShare => "share at least 0.8",
            Self::DoesNotAttract => "share at most that of Envoy's LR",
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
        median(&self.of_bound).unwrap_or(f64::NAN)
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
    if cell.trouble != Trouble::None {
        verdicts.extend([Bloc, Bid, Mu].map(|policy| share(runs, policy)));
        return verdicts;
    }
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

/// The claim about what a routing gives the first server.
fn share(runs: &Runs, policy: PolicyKind) -> Verdict {
    let own = runs.each(policy, |figures| figures.share).into_iter();
    if matches!(runs.cell.trouble, Trouble::Wrong | Trouble::Fast) {
        let stock = runs.each(EnvoyLeastRequest, |figures| figures.share);
        let of_bound = own.zip(stock).map(|(own, stock)| own / (1.15 * stock + 0.05)).collect();
        return Verdict { claim: Claim::DoesNotAttract, of_bound };
    }
    Verdict { claim: Claim::HasItsShare, of_bound: own.map(|own| 0.8 / own).collect() }
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
#[path = "judge_tests.rs"]
mod tests;
