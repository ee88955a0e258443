//! Units as types, so that numbers cannot be confused.
//!
//! Time is monotonic and passed in by the caller; nothing in this crate reads a clock.

pub mod inserted;
pub mod rng;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an arbitrary origin of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// A timestamp from nanoseconds since the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds since `earlier`; zero if `earlier` is in the future. For loops over all servers:
    /// a [`Duration`] has 128-bit nanoseconds, which are slow to convert to floating point.
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment minus `duration`; the origin at the earliest.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// This moment plus `duration`; the end of the clock (584 years) at the latest.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        let nanos = duration.as_nanos();
        if nanos >= u64::MAX as u128 {
            return Self(u64::MAX);
        }
        Self(self.0.saturating_add(nanos as u64))
    }
}

/// A number of requests: in flight, or allowed to be in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concurrency(u32);

impl Concurrency {
    /// `requests` requests.
    pub const fn new(requests: u32) -> Self {
        Self(requests)
    }

    /// The number of requests.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share from 0 to 1, inclusive. Never a percentage, never NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// The whole: 1.
    pub const ONE: Self = Self(1.0);

    /// A ratio; none if `value` is NaN or not within 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The nearest ratio; of NaN, 0.
    pub fn within(value: f64) -> Self {
        Self::new(value.clamp(0.0, 1.0)).unwrap_or_default()
    }

    /// The value, 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_differences_stop_at_zero_and_sums_at_the_maximum() {
        let early = Timestamp::from_nanos(5);
        let late = early.after(Duration::from_nanos(7));
        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!((late.nanos_since(early), early.nanos_since(late)), (7, 0));
        assert_eq!((late.before(Duration::from_nanos(7)), early.before(Duration::MAX)), (early, Timestamp::ZERO));
        for long in [Duration::MAX, Duration::from_secs(1 << 40)] {
            assert_eq!(late.after(long), Timestamp::from_nanos(u64::MAX));
        }
    }

    #[test]
    fn a_number_of_requests_is_written_as_a_number() {
        assert_eq!(Concurrency::new(30).to_string(), "30");
    }

    #[test]
    fn a_ratio_rejects_nan_and_values_outside_zero_to_one() {
        assert_eq!(Ratio::new(f64::NAN), None);
        assert_eq!(Ratio::new(-0.1), None);
        assert_eq!(Ratio::new(1.1), None);
        assert_eq!(Ratio::new(0.8).map(Ratio::get), Some(0.8));
        let near = [f64::NAN, -0.1, 0.8, 1.1].map(|value| Ratio::within(value).get());
        assert_eq!(near, [0.0, 0.0, 0.8, 1.0]);
    }
}
