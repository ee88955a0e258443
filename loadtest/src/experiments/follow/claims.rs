//! The claims about a sidecar that follows, each with its bound.

use super::plan::{Estimator, Variant};
use super::turn::Turn;
use crate::experiments::goals::{Bound, Outcome};
use crate::experiments::quota::claims::Verdict;
use crate::rounds::{median, range};
use serde::Serialize;

/// A claim about the share of admitted requests that are answered within the SLO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Its id.
    pub id: &'static str,
    /// Of which variant.
    pub of: Variant,
    /// The bound on the median of the rounds.
    pub bound: Bound,
    /// Whether nothing fails if it is missed.
    pub aim: bool,
}

/// All claims. What a sidecar reaches by itself has to be less, otherwise the comparison says
/// nothing. One that measures may come close to it: with many short requests it has learnt the new
/// rate after a second or two.
pub const CLAIMS: [Claim; 4] = {
    use Estimator::{PerCore, Slo};
    const fn claim(id: &'static str, estimator: Estimator, follows: bool, bound: Bound) -> Claim {
        Claim { id, of: Variant { estimator, follows }, bound, aim: false }
    }
    [
        claim("follow-slo", Slo, true, Bound::AtLeast(0.9)),
        claim("follow-per-core", PerCore, true, Bound::AtLeast(0.9)),
        Claim { aim: true, ..claim("unaided-slo", Slo, false, Bound::AtMost(0.9)) },
        claim("unaided-per-core", PerCore, false, Bound::AtMost(0.9)),
    ]
};

/// The turns of a variant, one per round; none: it has failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Which.
    pub variant: Variant,
    /// Round by round.
    pub turns: Vec<Option<Turn>>,
}

/// The verdicts on all claims.
pub fn judge(measured: &[Measured]) -> Vec<Verdict> {
    CLAIMS.iter().map(|claim| verdict(claim, measured)).collect()
}

fn verdict(claim: &Claim, measured: &[Measured]) -> Verdict {
    let turns = measured.iter().filter(|one| one.variant == claim.of).flat_map(|one| &one.turns);
    let values = turns.map(|turn| turn.as_ref()?.in_time).collect::<Option<Vec<f64>>>().unwrap_or_default();
    let median = median(&values);
    let keeps = |median: f64| match claim.bound {
        Bound::AtMost(most) => median <= most,
        Bound::AtLeast(least) => median >= least,
        Bound::None => median == 0.0,
    };
    let outcome = match median.map(keeps) {
        Some(true) => Outcome::Kept,
        Some(false) => Outcome::Missed,
        None => Outcome::NotMeasured,
    };
    let what = format!("share within the SLO, {}", claim.of.name());
    Verdict { id: claim.id, what, bound: claim.bound, median, range: range(&values), outcome, aim: claim.aim }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(follows: [Option<f64>; 3], unaided: f64) -> Vec<Measured> {
        let turn = |in_time| Turn {
            admitted: 1,
            in_time: Some(in_time),
            first_in_time: None,
            p50_ms: None,
            p99_ms: None,
            rejected: 0,
            capacity: [0, 0],
        };
        let of = |variant: Variant| {
            let values = if variant.follows { follows } else { [Some(unaided); 3] };
            Measured { variant, turns: values.map(|value| value.map(turn)).into() }
        };
        Variant::ALL.map(of).into()
    }

    #[test]
    fn the_median_of_the_rounds_is_held_to_each_bound() {
        use Outcome::{Kept, Missed, NotMeasured};
        let outcomes = |measured: &[Measured]| judge(measured).into_iter().map(|one| one.outcome).collect::<Vec<_>>();
        let kept = measured([Some(0.5), Some(0.9), Some(1.0)], 0.9);
        assert_eq!(outcomes(&kept), [Kept; 4]);
        let verdict = &judge(&kept)[0];
        assert_eq!((verdict.median, verdict.range), (Some(0.9), Some([0.5, 1.0])));
        assert_eq!(outcomes(&measured([Some(0.5), Some(0.89), Some(1.0)], 0.91)), [Missed; 4]);
        let failed = [NotMeasured, NotMeasured, Kept, Kept];
        assert_eq!(outcomes(&measured([Some(1.0), None, Some(1.0)], 0.1)), failed, "a round without a figure");
        assert_eq!(outcomes(&[]), [NotMeasured; 4]);
    }
}
