//! What a row claims, a figure that is measured in each column alike, and what it has to be.

use serde::Serialize;

/// What a row claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Ours is within the bounds; stock Envoy, tuned or not, is not. A promise of ours.
    Ours,
    /// Ours is within the bounds, and stock Envoy as it comes is not. Tuned, it may be: no promise
    /// of ours.
    Untuned,
    /// Ours is no worse than stock Envoy.
    NoHarm,
}

/// What a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// At most this. Stock Envoy can be held to it, too.
    AtMost(f64),
    /// At least this. The same.
    AtLeast(f64),
    /// At most what stock Envoy has, times `times` and `plus` more.
    NoWorse {
        /// The factor.
        times: f64,
        /// The addition, in the figure's unit.
        plus: f64,
    },
    /// At most as many as in stock Envoy, a few more, and what chance may add: three times the root
    /// of stock's. Two counts of the same mean differ by the root of twice that mean.
    Chance,
    /// At least what stock Envoy has, times `times`.
    NoLess {
        /// The factor.
        times: f64,
    },
}

/// So many more than in stock Envoy are no harm where stock Envoy has none.
const FEW: f64 = 3.0;
/// See [`Bound::Chance`].
const DEVIATIONS: f64 = 3.0;

/// A figure of one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, the same in each column.
    pub what: &'static str,
    /// Its value; none: it never came.
    pub value: Option<f64>,
    /// The value as a reader sees it.
    pub shown: String,
    /// What it has to be.
    pub bound: Bound,
}

impl Bound {
    /// Whether it stands by itself, so that stock Envoy can be held to it.
    pub fn is_absolute(self) -> bool {
        matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }

    /// Whether `value` is as it has to be; `stock` is what stock Envoy has.
    pub fn holds(self, value: Option<f64>, stock: Option<f64>) -> bool {
        match self {
            Self::AtMost(most) => value.is_some_and(|value| value <= most),
            Self::AtLeast(least) => value.is_some_and(|value| value >= least),
            // What never came in stock Envoy either is no harm.
            Self::NoWorse { times, plus } => {
                stock.is_none_or(|stock| value.is_some_and(|value| value <= stock * times + plus))
            }
            Self::Chance => {
                stock.is_none_or(|stock| value.is_some_and(|value| value <= stock + FEW + DEVIATIONS * stock.sqrt()))
            }
            Self::NoLess { times } => stock.is_none_or(|stock| value.is_some_and(|value| value >= stock * times)),
        }
    }

    /// As a reader sees it.
    pub fn shown(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}", number(most)),
            Self::AtLeast(least) => format!("at least {}", number(least)),
            Self::NoWorse { times: 1.0, plus: 0.0 } => "at most stock's".to_owned(),
            Self::NoWorse { times: 1.0, plus } => format!("at most stock's + {}", number(plus)),
            Self::NoWorse { times, plus } => {
                format!("at most {} x stock's + {}", number(times), number(plus))
            }
            Self::Chance => format!("at most stock's + {} + {} x its root", number(FEW), number(DEVIATIONS)),
            Self::NoLess { times } => format!("at least {} x stock's", number(times)),
        }
    }
}

/// Without decimals that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_holds_up_to_its_limit_and_not_beyond() {
        let worse = Bound::NoWorse { times: 1.5, plus: 10.0 };
        for (bound, good, bad) in [
            (Bound::AtMost(5.0), 5.0, 5.1),
            (Bound::AtLeast(5.0), 5.0, 4.9),
            (worse, 160.0, 160.1),
            (Bound::Chance, 133.0, 133.1),
            (Bound::NoLess { times: 0.8 }, 80.0, 79.9),
        ] {
            assert!(bound.holds(Some(good), Some(100.0)), "{bound:?}");
            assert!(!bound.holds(Some(bad), Some(100.0)), "{bound:?}");
            assert!(!bound.holds(None, Some(100.0)), "{bound:?}: it never came");
        }
        assert!(Bound::Chance.holds(Some(3.0), Some(0.0)) && !Bound::Chance.holds(Some(4.0), Some(0.0)));
        assert!(worse.holds(None, None), "it never came in stock Envoy either");
        assert!(!Bound::AtMost(5.0).holds(None, None));
    }

    #[test]
    fn shows_bounds_with_short_numbers() {
        assert_eq!(Bound::AtMost(3.0).shown(), "at most 3");
        assert_eq!(Bound::NoWorse { times: 1.0, plus: 0.25 }.shown(), "at most stock's + 0.25");
        assert_eq!(Bound::NoLess { times: 0.8 }.shown(), "at least 0.8 x stock's");
    }
}
