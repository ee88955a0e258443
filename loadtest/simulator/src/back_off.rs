//! How long Envoy waits before it retries: a jittered exponential back-off in whole milliseconds.
//!
//! Before retry `n` (the first is 1) it waits a random number of milliseconds below `b_n`, where
//! `b_1 = base` and `b_(n+1) = 2 b_n`, or `max` once `b_n` has reached half of it. With a base of 1
//! ms the first retry is immediate, and with a `max` of 1 ms every one is.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A back-off, written `1ms-10ms`; the default is `0ms-0ms`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    base_ms: u32,
    max_ms: u32,
}

/// The text is not a back-off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a back-off is BASE-MAX in whole milliseconds, such as 1ms-10ms: the base at most the maximum, and that at most 1h"
)]
pub struct NoBackOff;

impl BackOff {
    /// A back-off between these two, in whole milliseconds; none if `base` is above `max`, or `max`
    /// above an hour.
    pub fn new(base: Duration, max: Duration) -> Option<Self> {
        let whole = |time: Duration| u32::try_from(time.as_millis()).ok().filter(|ms| *ms <= 3_600_000);
        let (base_ms, max_ms) = (whole(base)?, whole(max)?);
        (base_ms <= max_ms).then_some(Self { base_ms, max_ms })
    }

    /// The wait before this retry; the first is 1.
    pub fn draw(&self, retry: u32, rng: &mut fastrand::Rng) -> Duration {
        let mut bound = self.base_ms;
        for _ in 1..retry {
            bound = if bound < self.max_ms / 2 { 2 * bound } else { self.max_ms };
        }
        Duration::from_millis(if bound > 1 { u64::from(rng.u32(..bound)) } else { 0 })
    }
}

impl FromStr for BackOff {
    type Err = NoBackOff;

    fn from_str(text: &str) -> Result<Self, NoBackOff> {
        let (base, max) = text.split_once('-').ok_or(NoBackOff)?;
        let time = |text| humantime::parse_duration(text).map_err(|_| NoBackOff);
        Self::new(time(base)?, time(max)?).ok_or(NoBackOff)
    }
}

impl fmt::Display for BackOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms-{}ms", self.base_ms, self.max_ms)
    }
}

impl Serialize for BackOff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_waits_within_envoys_bounds() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut most = |text: &str, retry| {
            let back_off: BackOff = text.parse().unwrap();
            (0..1000).map(|_| back_off.draw(retry, &mut rng).as_millis()).max().unwrap()
        };
        // The bounds are 1, 2, 4, 8, 10, 10.
        assert_eq!([1, 2, 3, 4, 5, 6].map(|retry| most("1ms-10ms", retry)), [0, 1, 3, 7, 9, 9]);
        assert_eq!([1, 2, 5].map(|retry| most("1ms-1ms", retry)), [0; 3]);
        assert_eq!([1, 2, 5].map(|retry| most("0ms-0ms", retry)), [0; 3]);
        assert_eq!([1, 2, 5].map(|retry| most("25ms-250ms", retry)), [24, 49, 249]);
    }

    #[test]
    fn parses_what_it_prints_and_refuses_invalid_input() {
        assert_eq!("1ms-10ms".parse::<BackOff>().unwrap().to_string(), "1ms-10ms");
        for text in ["1ms", "2ms-1ms", "1ms-2h", "x-1ms", ""] {
            assert_eq!(text.parse::<BackOff>(), Err(NoBackOff), "{text}");
        }
    }
}
