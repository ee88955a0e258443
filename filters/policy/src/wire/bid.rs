//! The bid of an attempt: the longest expected response time that it accepts, in milliseconds.
//!
//! `180.5` accepts an expected response time of at most 180.5 ms, `any` accepts every one.
//! A request without the header comes from a caller that does not read our answers.

use super::decimal::{decimal, write_thousandths};
use std::time::Duration;

/// The longest bid that is written, in microseconds: a decimal has twelve digits before its point.
const LONGEST: u64 = 999_999_999_999_999;

/// Writes the header's value: milliseconds with at most three decimals, at most 31 years of them.
pub fn encode(bid: Duration, into: &mut String) {
    into.clear();
    write_thousandths(into, u64::try_from(bid.as_micros()).unwrap_or(LONGEST).min(LONGEST));
}

/// The header's value of an attempt that accepts any response time. A request without the header
/// comes from a caller that does not read our answers.
pub const ANY: &str = "any";

/// Reads the header's value. What is not a bid is none, which accepts any response time.
pub fn decode(value: &[u8]) -> Option<Duration> {
    let millis = decimal(value).filter(|millis| *millis >= 0.0)?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

/// What a request's header says about its caller. An invalid value counts as no header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whether the caller has these filters, which read our headers.
    pub has_filters: bool,
    /// The longest wait that it accepts; none: any.
    pub bid: Option<Duration>,
}

impl Caller {
    /// Reads the header's value, if there is one.
    pub fn of(header: Option<&[u8]>) -> Self {
        let bid = header.and_then(decode);
        Self { has_filters: bid.is_some() || header == Some(ANY.as_bytes()), bid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_encoded_bids_and_rejects_invalid_input() {
        let mut text = String::new();
        for micros in [0, 1, 1_500, 120_000, 3_600_000_000] {
            encode(Duration::from_micros(micros), &mut text);
            assert_eq!(decode(text.as_bytes()).map(|bid| bid.as_micros()), Some(u128::from(micros)), "{text}");
        }
        for long in [Duration::from_secs(2_000_000_000_000), Duration::MAX] {
            encode(long, &mut text);
            assert!(decode(text.as_bytes()).is_some_and(|bid| bid > Duration::from_secs(999_999_999)), "{text}");
        }
        for nonsense in ["", "-1", "NaN", "inf", "1e3", "12ms", "1.2345", " 5", "9999999999999999"] {
            assert_eq!(decode(nonsense.as_bytes()), None, "{nonsense:?}");
        }
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn an_invalid_bid_header_counts_as_a_missing_one() {
        let of = |value: &[u8]| Caller::of(Some(value));
        assert_eq!(of(b"1.5"), Caller { has_filters: true, bid: Some(Duration::from_micros(1500)) });
        assert_eq!(of(b"any"), Caller { has_filters: true, bid: None });
        let long = vec![b'9'; 10 << 10];
        for nonsense in [b"".as_slice(), b"-1", b"NaN", b"inf", b"1e3", b"Any", b"any,5", b"\xff\xfe", &long] {
            assert_eq!(of(nonsense), Caller::of(None), "{}", String::from_utf8_lossy(nonsense));
        }
    }
}
