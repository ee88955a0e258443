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
pub const CLAIMS: [Claim; 9] = {
    use Bound::{AtLeast, AtMost};
    use Estimator::{PerCore, Slo};
    use Way::{Both, Socket, Told, Unaided};
    const fn share(id: &'static str, estimator: Estimator, way: Way, bound: Bound) -> Claim {
        let of = Name::Follow(FollowCase::Answers(estimator, way));
        Claim { id, figure: Figure::InTimeShare, of, over: None, bound, aim: false }
    }
    const fn delay(id: &'static str, way: Way, figure: Figure, over: Option<Name>, most: f64) -> Claim {
        let of = Name::Follow(FollowCase::Delay(way));
        Claim { id, figure, of, over, bound: AtMost(most), aim: true }
    }
    let told = Some(Name::Follow(FollowCase::Delay(Told)));
    [
        share("follow-slo", Slo, Told, AtLeast(0.9)),
        share("follow-per-core", PerCore, Told, AtLeast(0.9)),
        share("follow-slo-socket", Slo, Both, AtLeast(0.9)),
        share("follow-per-core-socket", PerCore, Socket, AtLeast(0.9)),
        Claim { aim: true, ..share("unaided-slo", Slo, Unaided, AtMost(0.9)) },
        share("unaided-per-core", PerCore, Unaided, AtMost(0.9)),
        delay("follow-delay", Told, Figure::HalvedP90, None, DELAY_MS),
        delay("follow-delay-socket", Socket, Figure::HalvedP90, None, DELAY_MS),
        // Otherwise it has no use.
        delay("socket-gain", Socket, Figure::HalvedP50, told, 1.0),
    ]
};

/// Two answers about CPU to a sidecar are at least 200 ms apart, on both ways; a fifth of that for
/// all the rest. It depends on what else the machine does, so it is an aim.
const DELAY_MS: f64 = 240.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::goals::Outcome;
    use crate::experiments::quota::claims::{Measured, Verdict, judge, kept};
    use crate::experiments::quota::figures::Turn;

    fn measured(follows: &[f64], unaided: f64, delay: f64, [told, socket]: [f64; 2]) -> Vec<Measured> {
        let of = |case: FollowCase| {
            let turn = |share: &f64| match case {
                FollowCase::Answers(_, Way::Unaided) => Turn::from([(Figure::InTimeShare, unaided)]),
                FollowCase::Answers(..) => Turn::from([(Figure::InTimeShare, *share)]),
                FollowCase::Delay(way) => {
                    let p50 = if way.asks() { socket } else { told };
                    Turn::from([(Figure::HalvedP50, p50), (Figure::HalvedP90, delay)])
                }
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
        let verdicts = judge(&measured(&[0.5, 0.9, 1.0], 0.9, DELAY_MS, [3.0, 3.0]));
        assert_eq!(outcomes(&verdicts), all(Outcome::Kept));
        assert_eq!((verdicts[0].median, verdicts[0].range), (Some(0.9), Some([0.5, 1.0])));
        let verdicts = judge(&measured(&[0.5, 0.89, 1.0], 0.91, DELAY_MS + 1.0, [3.0, 3.1]));
        assert_eq!(outcomes(&verdicts), all(Outcome::Missed));
        let aims = verdicts.iter().filter(|one| kept(&[(*one).clone()])).map(|one| one.id);
        assert_eq!(aims.collect::<Vec<_>>(), ["unaided-slo", "follow-delay", "follow-delay-socket", "socket-gain"]);
        assert_eq!(outcomes(&judge(&measured(&[], 0.1, 1.0, [1.0; 2]))), all(Outcome::NotMeasured));
    }
}
