//! What amounts of CPU and memory have in common.

use serde::Deserialize;
use std::fmt;

/// An amount as written in YAML or JSON.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an amount such as 500m (CPU) or 64Mi (memory)")]
pub(crate) enum Written {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Traits that follow from `Add`, `Sub` and `ZERO`.
macro_rules! arithmetic {
    ($amount:ident) => {
        impl std::ops::AddAssign for $amount {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl std::ops::SubAssign for $amount {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl std::iter::Sum for $amount {
            fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
                amounts.fold(Self::ZERO, |sum, more| sum + more)
            }
        }
    };
}
pub(crate) use arithmetic;
