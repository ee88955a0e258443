//! Parts of a limit.

use serde::{Deserialize, Serialize};
use std::iter::Sum;

/// A part of a limit, in millionths of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Part(u32);

impl Part {
    pub const ZERO: Self = Self(0);
    pub const WHOLE: Self = Self(1_000_000);

    pub const fn millionths(millionths: u32) -> Self {
        Self(millionths)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    /// The part of a limit that an amount takes, rounded up so that it holds the amount. Saturates.
    pub fn of(amount: f64, limit: f64) -> Self {
        Self((amount / limit * f64::from(Self::WHOLE.0)).ceil() as u32)
    }

    pub fn times(self, limit: f64) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE.0) * limit
    }

    pub const fn scaled(self, by: f64) -> Self {
        Self((self.0 as f64 * by) as u32)
    }

    /// Saturates.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Saturates.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Part {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_holds_the_amount_that_it_is_made_of() {
        for amount in [0.0, 0.1, 1.0 / 3.0, 0.35, 2.999_999_9] {
            assert!(Part::of(amount, 3.0).times(3.0) >= amount - 1e-9, "{amount}");
        }
        assert_eq!((Part::of(3.0, 3.0), Part::millionths(500_000).times(3.0)), (Part::WHOLE, 1.5));
        assert_eq!((Part::of(-1.0, 3.0), Part::of(f64::NAN, 3.0)), (Part::ZERO, Part::ZERO));
        assert_eq!(Part::of(1e12, 0.01).get(), u32::MAX);
    }
}
