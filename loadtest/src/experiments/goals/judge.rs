//! Whether the claims are kept: ratios paired by round, their medians and ranges, and the bounds.

use super::claims::{Bound, Claim, Figure, Name};
use crate::rounds::Runs;
use bloc_figures::stats::{Spread, median};
use bloc_mesh::seeds;
use serde::Serialize;

/// The measurements of a candidate.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of its kind.
    pub kind: &'static str,
    /// The candidate.
    pub candidate: Name,
    /// One record per round, in order; fewer if its mesh failed.
    pub runs: Runs,
}

/// Whether a claim is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its values are within the bound.
    Kept,
    /// Its values are outside the bound.
    Missed,
    /// A round has no value.
    NotMeasured,
    /// It has no bound.
    Beside,
}

/// One round of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The seed of its cases.
    pub seed: u64,
    /// The figure of the candidate that the claim is about.
    pub of: Option<f64>,
    /// The figure of the candidate that it is compared with.
    pub over: Option<f64>,
    /// Their ratio, or the figure itself.
    pub value: Option<f64>,
}

/// A claim and its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's id.
    pub id: &'static str,
    /// The name of its kind.
    pub kind: &'static str,
    /// The comparison in words.
    pub what: String,
    /// The bound.
    pub bound: Option<Bound>,
    /// The medians over the rounds of the figures of the two candidates, in milliseconds, requests
    /// or shares.
    pub figures: [Option<f64>; 2],
    /// The median of the rounds' values; none if a round has no value.
    pub median: Option<f64>,
    /// The least and the greatest of the rounds' values.
    pub range: Option<[f64; 2]>,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// The rounds.
    pub rounds: Vec<Round>,
}

/// The verdicts on the `claims` about one of the `kinds`, after this number of rounds. The first
/// round had this `seed`.
pub fn judge(claims: &[Claim], kinds: &[&str], measured: &[Measured], rounds: usize, seed: u64) -> Vec<Verdict> {
    let asked = claims.iter().filter(|claim| kinds.contains(&claim.kind()));
    asked.map(|claim| verdict(claim, measured, rounds, seed)).collect()
}

/// Whether all claims are kept, and there is at least one.
pub fn kept(verdicts: &[Verdict]) -> bool {
    let bad = |outcome| matches!(outcome, Outcome::Missed | Outcome::NotMeasured);
    verdicts.iter().any(|one| one.outcome == Outcome::Kept) && !verdicts.iter().any(|one| bad(one.outcome))
}

fn verdict(claim: &Claim, measured: &[Measured], rounds: usize, seed: u64) -> Verdict {
    let find = |name: Name| measured.iter().find(|one| one.kind == claim.kind() && one.candidate == name);
    let figure = |name: Name, round: usize| {
        let Runs { case, records } = &find(name)?.runs;
        claim.figure.of(case, records.get(round)?)
    };
    let round = |round: usize| {
        let (of, over) = (figure(claim.of, round), claim.over.and_then(|name| figure(name, round)));
        let value = match claim.over {
            None => of,
            Some(_) => of.zip(over).map(|(of, over)| of / over).filter(|ratio| ratio.is_finite()),
        };
        Round { seed: seeds::round(seed, round), of, over, value }
    };
    let rounds: Vec<Round> = (0..rounds).map(round).collect();
    let all = |value: fn(&Round) -> Option<f64>| rounds.iter().map(value).collect::<Option<Vec<f64>>>();
    let values = all(|round| round.value).unwrap_or_default();
    let spread = Spread::of(&values);
    let outcome = match (claim.bound, spread) {
        (None, _) => Outcome::Beside,
        (Some(bound), Some(Spread { median, range: [_, greatest] })) => {
            let kept = match bound {
                Bound::AtMost(most) => median <= most,
                Bound::AtLeast(least) => median >= least,
                Bound::None => greatest == 0.0,
            };
            if kept { Outcome::Kept } else { Outcome::Missed }
        }
        _ => Outcome::NotMeasured,
    };
    let figures = [all(|round| round.of), all(|round| round.over)].map(|values| median(&values?));
    Verdict {
        id: claim.id,
        kind: claim.kind(),
        what: claim.what(),
        bound: claim.bound,
        figures,
        median: spread.map(|spread| spread.median),
        range: spread.map(|spread| spread.range),
        outcome,
        rounds,
    }
}

impl Verdict {
    /// The median and the range of the rounds' values; none if a round has no value.
    pub fn spread(&self) -> Option<Spread> {
        self.median.zip(self.range).map(|(median, range)| Spread { median, range })
    }
}

impl Measured {
    /// The median and the range of a figure over the rounds; none if a round has no value.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        self.runs.spread(|record| figure.of(&self.runs.case, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::goals::{CLAIMS, KINDS, kinds};
    use crate::record::Record;
    use crate::report::example::record;
    use std::time::Duration;

    /// A record in which each time is `value` and nothing was lost. The throughput of two choices
    /// is low, as under overload.
    fn one(candidate: Name, value: f64) -> Record {
        let throughput = if candidate == Name::TwoChoices { 80.0 } else { 200.0 };
        let mut record = record(bloc_mesh::policy::Policy::Bid, 40, [value; 4], throughput);
        record.row.envoy_cpu_ms_per_request = Some(value);
        record
    }

    /// All candidates, in one round for each value.
    fn all(value: impl Fn(Name, usize) -> f64, rounds: usize) -> Vec<Measured> {
        let kinds = kinds(Duration::from_secs(1), 1);
        let measure = |kind: &'static str, candidate: Name, case| {
            let records = (0..rounds).map(|round| one(candidate, value(candidate, round))).collect();
            Measured { kind, candidate, runs: Runs { case, records } }
        };
        let candidates = |kind: crate::experiments::goals::Kind| {
            kind.candidates.into_iter().map(move |candidate| (kind.name, candidate.name, candidate.case))
        };
        kinds.into_iter().flat_map(candidates).map(|(kind, name, case)| measure(kind, name, case)).collect()
    }

    /// Each figure of ours is `ours`, except that of Mu, which some claims compare with bids.
    fn value(name: Name, ours: f64) -> f64 {
        match name {
            Name::Bids | Name::BidsTen | Name::Bloc => ours,
            Name::MuOne | Name::MuTen => ours + 20.0,
            _ => 1_000.0,
        }
    }

    #[test]
    fn every_claim_is_judged_and_each_bound_counts() {
        // Goodput is a share of the servers' 200 requests per second, and more is better.
        let good = judge(CLAIMS, &KINDS, &all(|name, _| value(name, 190.0), 3), 3, 1);
        assert_eq!(good.len(), CLAIMS.len());
        assert!(kept(&good), "{good:?}");
        let mut bad = all(|name, _| value(name, 9_000.0), 3);
        for one in &mut bad {
            one.runs.records[2].row.shed = 1;
            for record in &mut one.runs.records {
                (record.row.throughput_rps, record.row.attempts_per_request) = (179.0, 2.6);
            }
        }
        let bad = judge(CLAIMS, &KINDS, &bad, 3, 1);
        let expected = |one: &Verdict| if one.bound.is_some() { Outcome::Missed } else { Outcome::Beside };
        assert!(bad.iter().all(|one| one.outcome == expected(one)), "{bad:?}");
    }

    #[test]
    fn one_missed_or_unmeasured_claim_fails_the_verdict() {
        let value = |name, _| value(name, 190.0);
        let mut missed = all(value, 1);
        let lost = missed.iter_mut().find(|one| one.kind == "few-places" && one.candidate == Name::Bids).unwrap();
        lost.runs.records[0].row.errors = 1;
        let verdicts = judge(CLAIMS, &KINDS, &missed, 1, 1);
        let ids = |outcome| verdicts.iter().filter(|one| one.outcome == outcome).map(|one| one.id).collect::<Vec<_>>();
        assert_eq!((ids(Outcome::Missed), kept(&verdicts)), (vec!["few-places/lost"], false));

        let mut lacking = all(value, 2);
        lacking.iter_mut().find(|one| one.kind == "cheap" && one.candidate == Name::Noop).unwrap().runs.records.pop();
        assert!(kept(&judge(CLAIMS, &KINDS, &lacking, 2, 1)), "a value without a bound is no claim");
        lacking.iter_mut().find(|one| one.kind == "cheap" && one.candidate == Name::Bids).unwrap().runs.records.pop();
        let verdicts = judge(CLAIMS, &KINDS, &lacking, 2, 1);
        let ids: Vec<_> = verdicts.iter().filter(|one| one.outcome == Outcome::NotMeasured).map(|one| one.id).collect();
        assert_eq!(ids, ["cheap/p50-two-choices", "cheap/cpu-two-choices", "cheap/lost"]);
        assert!(!kept(&verdicts) && kept(&judge(CLAIMS, &["one-place"], &lacking, 2, 1)));
        assert!(!kept(&judge(CLAIMS, &["one-place"], &[], 2, 1)) && !kept(&[]));
    }

    #[test]
    fn ratios_are_paired_by_round() {
        // The medians of both are 200 and 500; the median of the ratios is not 0.4.
        let (bids, least) = ([100.0, 200.0, 300.0], [500.0, 1_000.0, 400.0]);
        let value = |name, round: usize| if name == Name::Bids { bids[round] } else { least[round] };
        let verdicts = judge(CLAIMS, &["one-place"], &all(value, 3), 3, 7);
        let one = verdicts.iter().find(|one| one.id == "one-place/p99-two-choices").unwrap();
        assert_eq!((one.median, one.range, one.figures), (Some(0.2), Some([0.2, 0.75]), [Some(200.0), Some(500.0)]));
        let seeds: Vec<u64> = one.rounds.iter().map(|round| round.seed).collect();
        assert_eq!(seeds, [7, seeds::round(7, 1), seeds::round(7, 2)]);
        let measured = &all(value, 3)[0];
        assert_eq!((measured.kind, measured.candidate), ("one-place", Name::TwoChoices));
        assert_eq!(measured.spread(Figure::P99), Some(Spread { median: 500.0, range: [400.0, 1_000.0] }));
    }

    #[test]
    fn keeps_no_claim_when_no_request_was_answered() {
        let mut silent = all(|_, _| 100.0, 1);
        for one in &mut silent {
            let row = &mut one.runs.records[0].row;
            (row.p50_ms, row.p99_ms, row.mean_ms, row.envoy_cpu_ms_per_request) = (None, None, None, None);
            (row.requests, row.throughput_rps) = (0, 0.0);
        }
        let verdicts = judge(CLAIMS, &KINDS, &silent, 1, 1);
        let kept: Vec<_> = verdicts.iter().filter(|one| one.outcome == Outcome::Kept).collect();
        assert!(kept.is_empty(), "{kept:?}");
    }
}
