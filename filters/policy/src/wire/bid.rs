//! The bid of an attempt: the longest expected response time that it accepts, in milliseconds.
//!
//! `180.5` accepts up to 180.5 ms, `any` accepts any time. `180.5;exec=52.1` also states the
//! fleet's execution time, for a server that has announced `fleet` in its load report
//! ([`super::offer::offer`]). A caller that sends no such header does not read our answers.

use super::decimal::{decimal, micros, millis, write_thousandths};
use std::time::Duration;

/// The longest bid to write, in microseconds: a decimal has at most twelve digits before the point.
const LONGEST: u64 = 999_999_999_999_999;

/// Separates a bid from the fleet's execution time.
const EXECUTION: &[u8] = b";exec=";

/// An attempt's bid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bid {
    /// The longest expected response time that it accepts.
    pub most: Duration,
    /// The fleet's execution time as the sender knows it; none: the server compares its whole
    /// response time.
    pub fleet: Option<Duration>,
}

impl From<Duration> for Bid {
    /// A bid without the fleet.
    fn from(most: Duration) -> Self {
        Self { most, fleet: None }
    }
}

/// Writes the header's value: milliseconds with up to three decimals, at most 31 years.
pub fn encode(bid: Bid, into: &mut String) {
    into.clear();
    write_time(bid.most, into);
    if let Some(fleet) = bid.fleet {
        into.push_str(";exec=");
        write_time(fleet, into);
    }
}

fn write_time(time: Duration, into: &mut String) {
    write_thousandths(into, micros(time).unwrap_or(LONGEST));
}

/// The header's value for an attempt that accepts any response time. Without the header, the caller
/// does not read our answers.
pub const ANY: &str = "any";

/// Reads the header's value. None, also for an invalid bid, accepts any response time.
pub fn decode(value: &[u8]) -> Option<Bid> {
    let Some(end) = value.iter().position(|byte| *byte == b';') else {
        return Some(Bid { most: time(value)?, fleet: None });
    };
    let (most, parameter) = value.split_at_checked(end)?;
    Some(Bid { most: time(most)?, fleet: Some(time(parameter.strip_prefix(EXECUTION)?)?) })
}

fn time(value: &[u8]) -> Option<Duration> {
    decimal(value).filter(|time| *time >= 0.0).map(millis)
}

/// What the header says about the caller. An invalid value counts as no header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whether the caller has these filters, and so reads our headers.
    pub has_filters: bool,
    /// Its bid; none: any time.
    pub bid: Option<Bid>,
}

impl Caller {
    /// Reads the header's value, if any.
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
            let most = Duration::from_micros(micros);
            for fleet in [None, Some(most), Some(Duration::from_micros(52_100))] {
                encode(Bid { most, fleet }, &mut text);
                assert_eq!(decode(text.as_bytes()), Some(Bid { most, fleet }), "{text}");
            }
        }
        assert_eq!(text, "3600000;exec=52.1");
        for long in [Duration::from_secs(2_000_000_000_000), Duration::MAX] {
            encode(Bid { most: long, fleet: Some(long) }, &mut text);
            let read = decode(text.as_bytes()).unwrap();
            assert!([Some(read.most), read.fleet].iter().all(|time| *time > Some(Duration::from_secs(999_999_999))));
        }
        for nonsense in ["", "-1", "NaN", "inf", "1e3", "12ms", "1.2345", " 5", "9999999999999999"] {
            assert_eq!(decode(nonsense.as_bytes()), None, "{nonsense:?}");
            for bid in [format!("{nonsense};exec=5"), format!("5;exec={nonsense}")] {
                assert_eq!(decode(bid.as_bytes()), None, "{bid:?}");
            }
        }
        for nonsense in ["5;", "5;exec", "5;exce=5", "5; exec=5", "5;exec=5;exec=5", ";exec=5"] {
            assert_eq!(decode(nonsense.as_bytes()), None, "{nonsense:?}");
        }
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn an_invalid_bid_header_counts_as_a_missing_one() {
        let of = |value: &[u8]| Caller::of(Some(value));
        let bid = Some(Bid { most: Duration::from_micros(1500), fleet: None });
        assert_eq!(of(b"1.5"), Caller { has_filters: true, bid });
        assert_eq!(of(b"any"), Caller { has_filters: true, bid: None });
        let long = vec![b'9'; 10 << 10];
        for nonsense in [b"".as_slice(), b"-1", b"NaN", b"inf", b"1e3", b"Any", b"any,5", b"\xff\xfe", &long] {
            assert_eq!(of(nonsense), Caller::of(None), "{}", String::from_utf8_lossy(nonsense));
        }
    }
}
