//! The claim of a row, and the figures: each is measured in every column and has a bound.

use serde::Serialize;

/// What a row claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// A promise of ours: our column is within the bounds, stock Envoy, tuned or not, is not.
    Ours,
    /// Our column is within the bounds, stock Envoy with its defaults is not. Tuned stock Envoy may
    /// be, so this is no promise of ours.
    Untuned,
    /// Our column is no worse than stock Envoy.
    NoHarm,
}

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// At most this. Stock Envoy can be measured by it too.
    AtMost(f64),
    /// At least this. Stock Envoy can be measured by it too.
    AtLeast(f64),
    /// At most stock Envoy's value times `times`, plus `plus`.
    NoWorse {
        /// The factor.
        times: f64,
        /// The addition, in the figure's unit.
        plus: f64,
    },
    /// At most stock Envoy's count, plus a few, plus chance: three times the square root of stock's
    /// count. Two counts of the same mean differ by the square root of twice that mean.
    Chance,
    /// At least stock Envoy's value times `times`.
    NoLess {
        /// The factor.
        times: f64,
    },
}

/// This many more than stock Envoy are no harm where stock Envoy has none.
const FEW: f64 = 3.0;
/// See [`Bound::Chance`].
const DEVIATIONS: f64 = 3.0;

/// A figure of one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is, the same in each column.
    pub what: &'static str,
    /// Its value; none: the event never happened.
    pub value: Option<f64>,
    /// The value as a reader sees it.
    pub shown: String,
    /// Its bound.
    pub bound: Bound,
}

impl Bound {
    /// Whether it is independent of stock Envoy, so that stock Envoy can be measured by it.
    pub fn is_absolute(self) -> bool {
        matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }

    /// Whether `value` is within the bound; `stock` is stock Envoy's value.
    pub fn holds(self, value: Option<f64>, stock: Option<f64>) -> bool {
        match self {
            Self::AtMost(most) => value.is_some_and(|value| value <= most),
            Self::AtLeast(least) => value.is_some_and(|value| value >= least),
            // If the event never happened in stock Envoy either, that is no harm.
            Self::NoWorse { times, plus } => {
                stock.is_none_or(|stock| value.is_some_and(|value| value <= stock * times + plus))
            }
            Self::Chance => {
                stock.is_none_or(|stock| value.is_some_and(|value| value <= stock + FEW + DEVIATIONS * stock.sqrt()))
            }
            Self::NoLess { times } => stock.is_none_or(|stock| value.is_some_and(|value| value >= stock * times)),
        }
    }

    /// Whether `value` is no worse than that of `other`, except by chance: within this bound, with
    /// `other` in the place of stock Envoy; where the bound is absolute, within it or within a
    /// tenth of `other`.
    pub fn is_no_worse(self, value: Option<f64>, other: Option<f64>) -> bool {
        let as_good = value.zip(other).is_some_and(|(value, other)| match self {
            Self::AtMost(_) => value <= 1.1 * other,
            Self::AtLeast(_) => value >= 0.9 * other,
            _ => false,
        });
        as_good || self.holds(value, other)
    }

    /// The bound as a reader sees it.
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

/// A number without trailing zeros.
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
    fn an_absolute_bound_that_another_misses_too_is_no_worse() {
        let (most, least) = (Bound::AtMost(5.0), Bound::AtLeast(5.0));
        for (bound, good, other, bad) in [(most, 7.7, 7.0, 7.8), (least, 2.7, 3.0, 2.6), (most, 5.0, 1.0, 5.1)] {
            assert!(bound.is_no_worse(Some(good), Some(other)), "{bound:?}");
            assert!(!bound.is_no_worse(Some(bad), Some(other)), "{bound:?}");
        }
        assert!(Bound::Chance.is_no_worse(Some(3.0), Some(0.0)) && !Bound::Chance.is_no_worse(Some(4.0), Some(0.0)));
        assert!(!Bound::AtMost(5.0).is_no_worse(None, Some(9.0)));
    }

    #[test]
    fn shows_bounds_with_short_numbers() {
        assert_eq!(Bound::AtMost(3.0).shown(), "at most 3");
        assert_eq!(Bound::NoWorse { times: 1.0, plus: 0.25 }.shown(), "at most stock's + 0.25");
        assert_eq!(Bound::NoLess { times: 0.8 }.shown(), "at least 0.8 x stock's");
    }
}
