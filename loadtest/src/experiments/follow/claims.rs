//! The claims about a sidecar that follows, each with its bound.

use super::case::{FollowCase, Way};
use super::plan::Estimator;
use crate::experiments::goals::Bound;
use crate::experiments::quota::claim::Claim;
use crate::experiments::quota::figures::Figure;
use crate::experiments::quota::name::Name;

/// All of them: shares of the admitted requests that are answered within the SLO, and delays.
///
/// What a sidecar reaches by itself has to be less, otherwise the comparison says nothing. One that
/// measures may come close to it: with many short requests it has learnt the new rate after a
/// second or two.
pub const CLAIMS: [Claim; 5] = {
    use Bound::{AtLeast, AtMost};
    use Estimator::{PerCore, Slo};
    use Way::{Told, Unaided};
    const fn share(id: &'static str, estimator: Estimator, way: Way, bound: Bound) -> Claim {
        let of = Name::Follow(FollowCase::Answers(estimator, way));
        Claim { id, figure: Figure::InTimeShare, of, over: None, bound, aim: false }
    }
    let delay = Name::Follow(FollowCase::Delay);
    [
        share("follow-slo", Slo, Told, AtLeast(0.9)),
        share("follow-per-core", PerCore, Told, AtLeast(0.9)),
        Claim { aim: true, ..share("unaided-slo", Slo, Unaided, AtMost(0.9)) },
        share("unaided-per-core", PerCore, Unaided, AtMost(0.9)),
        Claim {
            id: "follow-delay",
            figure: Figure::HalvedP90,
            of: delay,
            over: None,
            bound: AtMost(DELAY_MS),
            aim: true,
        },
    ]
};

/// Two answers about CPU to a sidecar are at least 200 ms apart; a fifth of that for all the rest.
/// It depends on what else the machine does, so it is an aim.
const DELAY_MS: f64 = 240.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::goals::Outcome;
    use crate::experiments::quota::claims::{Measured, Verdict, judge, kept};
    use crate::experiments::quota::figures::Turn;

    fn measured(follows: &[f64], unaided: f64, delay: f64) -> Vec<Measured> {
        let of = |case: FollowCase| {
            let turn = |share: &f64| match case {
                FollowCase::Answers(_, Way::Unaided) => Turn::from([(Figure::InTimeShare, unaided)]),
                FollowCase::Answers(_, Way::Told) => Turn::from([(Figure::InTimeShare, *share)]),
                FollowCase::Delay => Turn::from([(Figure::HalvedP90, delay)]),
            };
            Measured { name: Name::Follow(case), turns: follows.iter().map(turn).collect() }
        };
        FollowCase::ALL.map(of).into()
    }

    fn outcomes(verdicts: &[Verdict]) -> Vec<(&'static str, Outcome)> {
        verdicts.iter().map(|one| (one.id, one.outcome)).collect()
    }

    #[test]
    fn the_median_of_the_rounds_is_held_to_each_bound() {
        let all = |outcome| CLAIMS.map(|claim| (claim.id, outcome)).to_vec();
        let verdicts = judge(&measured(&[0.5, 0.9, 1.0], 0.9, DELAY_MS));
        assert_eq!(outcomes(&verdicts), all(Outcome::Kept));
        assert_eq!((verdicts[0].median, verdicts[0].range), (Some(0.9), Some([0.5, 1.0])));
        let verdicts = judge(&measured(&[0.5, 0.89, 1.0], 0.91, DELAY_MS + 1.0));
        assert_eq!(outcomes(&verdicts), all(Outcome::Missed));
        let aims = verdicts.iter().filter(|one| kept(&[(*one).clone()])).map(|one| one.id);
        assert_eq!(aims.collect::<Vec<_>>(), ["unaided-slo", "follow-delay"]);
        assert_eq!(outcomes(&judge(&measured(&[], 0.1, 1.0))), all(Outcome::NotMeasured));
    }
}
