//! The load report: the header in which a server tells a sender how it is.
//!
//! An RFC 9651 dictionary of numbers: `chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3, service=40`
//! (requests, requests, requests, requests per second, ratio, milliseconds, requests per second). Members that are missing are unknown; members that this version
//! does not know are passed over. Values are integers, decimals, booleans or tokens; anything else, or broken syntax, makes the
//! whole header unreadable, as the RFC demands. Reading and writing allocate nothing but the caller's buffer.

use crate::units::Ratio;
use std::fmt::Write;
use std::time::Duration;

/// The header's name, in lower case.
pub const LOAD_HEADER: &str = "x-bloc-load";

/// No report is longer; a longer header is not read.
pub const MAX_LENGTH: usize = 512;

/// What a server says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Whether the sender may send one more request.
    pub chip: bool,
    /// Requests in the server besides the one answered.
    pub queue: Option<u32>,
    /// The capacity in force, in requests.
    pub capacity: Option<u32>,
    /// The smoothed departure rate, in requests per second.
    pub rate: Option<f64>,
    /// The share of departures that left a server that was busy all the time.
    pub confidence: Option<Ratio>,
    /// The mean time that the application takes for a request.
    pub execution: Option<Duration>,
    /// The service rate by the server's own estimate, in requests per second: what it finishes when it is busy.
    pub service: Option<f64>,
}

impl LoadReport {
    /// When a request that came now might expect its answer: `max((queue + 1) / service rate, execution time)`.
    pub fn expected(&self) -> Option<Duration> {
        let line = Duration::try_from_secs_f64((f64::from(self.queue?) + 1.0) / self.service?).ok()?;
        Some(line.max(self.execution.unwrap_or_default()))
    }

    /// Writes the header's value into `into`, which is emptied first.
    pub fn encode(&self, into: &mut String) {
        into.clear();
        let _ = write!(into, "chip={}", u8::from(self.chip));
        if let Some(queue) = self.queue {
            let _ = write!(into, ", queue={queue}");
        }
        if let Some(capacity) = self.capacity {
            let _ = write!(into, ", capacity={capacity}");
        }
        let decimals = [
            ("rate", self.rate),
            ("confidence", self.confidence.map(Ratio::get)),
            ("exec", self.execution.map(|time| time.as_secs_f64() * 1e3)),
            ("service", self.service),
        ];
        for (key, value) in decimals {
            let thousandths = value.map(|value| (value * 1e3).round()).filter(|n| (0.0..1e15).contains(n));
            if let Some(thousandths) = thousandths {
                write_decimal(into, key, thousandths as u64);
            }
        }
    }

    /// Reads a header's value; nothing if it is not a dictionary of the kind described above.
    pub fn decode(value: &[u8]) -> Option<Self> {
        if value.len() > MAX_LENGTH {
            return None;
        }
        // Tabs may stand between members, but not before the first one.
        if value.iter().find(|&&byte| byte != b' ') == Some(&b'\t') {
            return None;
        }
        let mut report = Self::default();
        for member in value.split(|&byte| byte == b',') {
            let (key, number) = member_of(trim(member))?;
            match key {
                b"chip" => report.chip = number.is_some_and(|n| n >= 1.0),
                b"queue" => report.queue = count(number),
                b"capacity" => report.capacity = count(number),
                b"rate" => report.rate = positive(number),
                b"confidence" => report.confidence = number.and_then(Ratio::new),
                b"exec" => report.execution = positive(number).map(|ms| Duration::from_secs_f64(ms / 1e3)),
                b"service" => report.service = positive(number),
                _ => {}
            }
        }
        Some(report)
    }
}

/// A member with a decimal.
fn write_decimal(into: &mut String, key: &str, thousandths: u64) {
    let _ = write!(into, ", {key}=");
    write_thousandths(into, thousandths);
}

/// A decimal without trailing zeros; integers instead of floating-point formatting, which would be a tenth of the module.
pub(crate) fn write_thousandths(into: &mut String, thousandths: u64) {
    let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
    let _ = write!(into, "{whole}");
    let _ = match fraction {
        0 => Ok(()),
        n if n % 100 == 0 => write!(into, ".{}", n / 100),
        n if n % 10 == 0 => write!(into, ".{:02}", n / 10),
        n => write!(into, ".{n:03}"),
    };
}

/// Key and number of a member; the number is absent for a token.
fn member_of(member: &[u8]) -> Option<(&[u8], Option<f64>)> {
    let split = member.iter().position(|&byte| byte == b'=');
    let (key, value) = match split {
        Some(at) => (member.get(..at)?, member.get(at + 1..)?),
        None => (member, b"?1".as_slice()),
    };
    let (first, rest) = key.split_first()?;
    let starts = first.is_ascii_lowercase() || *first == b'*';
    let goes_on = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.' | b'*');
    if !(starts && rest.iter().all(goes_on)) {
        return None;
    }
    match value {
        b"?1" => Some((key, Some(1.0))),
        b"?0" => Some((key, Some(0.0))),
        [b'0'..=b'9' | b'-', ..] => Some((key, Some(decimal(value)?))),
        [b'a'..=b'z' | b'A'..=b'Z' | b'*', rest @ ..] if rest.iter().all(is_token) => Some((key, None)),
        _ => None,
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte)
}

/// An integer of at most 15 digits, or a decimal of at most 12 and 3.
pub(crate) fn decimal(text: &[u8]) -> Option<f64> {
    let (sign, digits) = text.strip_prefix(b"-").map_or((1.0, text), |digits| (-1.0, digits));
    let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(at) => (digits.get(..at)?, Some(digits.get(at + 1..)?)),
        None => (digits, None),
    };
    let whole = integer_of(whole, if fraction.is_some() { 12 } else { 15 })?;
    let magnitude = match fraction {
        // In thousandths fifteen digits at the most, which are exact; rounded once, by the division.
        Some(part) => {
            let thousandths = integer_of(part, 3)? * [0, 100, 10, 1].get(part.len())?;
            (whole * 1000 + thousandths) as f64 / 1e3
        }
        None => whole as f64,
    };
    Some(sign * magnitude)
}

fn integer_of(digits: &[u8], longest: usize) -> Option<u64> {
    if !(1..=longest).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// A number of requests: whole, not negative, at most what fits.
fn count(number: Option<f64>) -> Option<u32> {
    number.filter(|n| *n >= 0.0).map(|n| n as u32)
}

/// A number above zero.
fn positive(number: Option<f64>) -> Option<f64> {
    number.filter(|n| *n > 0.0)
}

/// Without the spaces and tabs around it. Not `trim_ascii`: other white space is not allowed.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, Dictionary, ListEntry, Parser};

    fn sfv_number(dictionary: &Dictionary, key: &str) -> Option<f64> {
        match dictionary.get(key) {
            Some(ListEntry::Item(item)) => match &item.bare_item {
                BareItem::Integer(n) => Some(i64::from(*n) as f64),
                BareItem::Decimal(n) => Some(f64::from(*n)),
                BareItem::Boolean(b) => Some(f64::from(u8::from(*b))),
                _ => None,
            },
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_by_us_and_by_the_oracle(
            chip: bool,
            queue: Option<u32>,
            capacity: Option<u32>,
            rate in prop::option::of(1u64..1_000_000_000),
            confidence in prop::option::of(0u64..=1000),
            exec in prop::option::of(1u64..1_000_000_000),
            service in prop::option::of(1u64..1_000_000_000),
        ) {
            let decimal = |thousandths: Option<u64>| thousandths.map(|n| n as f64 / 1e3);
            let report = LoadReport {
                chip,
                queue,
                capacity,
                rate: decimal(rate),
                confidence: decimal(confidence).and_then(Ratio::new),
                execution: decimal(exec).map(|ms| Duration::from_secs_f64(ms / 1e3)),
                service: decimal(service),
            };
            let mut text = String::from("left over");
            report.encode(&mut text);
            prop_assert_eq!(LoadReport::decode(text.as_bytes()), Some(report));
            let oracle: Dictionary = Parser::new(&text).parse().unwrap();
            prop_assert_eq!(sfv_number(&oracle, "queue"), queue.map(f64::from));
            prop_assert_eq!(sfv_number(&oracle, "capacity"), capacity.map(f64::from));
            prop_assert_eq!(sfv_number(&oracle, "rate"), decimal(rate));
            prop_assert_eq!(sfv_number(&oracle, "confidence"), decimal(confidence));
            prop_assert_eq!(sfv_number(&oracle, "exec"), decimal(exec));
            prop_assert_eq!(sfv_number(&oracle, "service"), decimal(service));
            prop_assert!(text.len() < MAX_LENGTH / 2);
        }

        /// Whatever we accept the oracle accepts, and both see the same numbers.
        #[test]
        fn nothing_is_read_that_the_oracle_refuses(
            text in "(chip|queue|capacity|rate|Rate|x)(=(-?[0-9]{1,16}(\\.[0-9]{0,4})?|\\?[01]|to/k:en|\"s\"))?(, ?(chip|queue|other)(=[0-9]{1,3})?){0,2}"
        ) {
            if let Some(report) = LoadReport::decode(text.as_bytes()) {
                let oracle: Dictionary = Parser::new(&text).parse().unwrap();
                prop_assert_eq!(report.queue, count(sfv_number(&oracle, "queue")));
                prop_assert_eq!(report.rate, positive(sfv_number(&oracle, "rate")));
                prop_assert_eq!(report.chip, sfv_number(&oracle, "chip").is_some_and(|n| n >= 1.0));
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = LoadReport::decode(&bytes);
        }
    }

    #[test]
    fn unknown_members_are_passed_over_and_bad_numbers_are_no_numbers() {
        let read = |text: &str| LoadReport::decode(text.as_bytes());
        assert_eq!(read("chip=1, why=bid, rate=38.2, queue=7").and_then(|r| r.queue), Some(7));
        assert_eq!(read("  chip ,\tqueue=7\t").and_then(|r| r.queue), Some(7), "white space as it is allowed");
        assert_eq!(read("queue=-3").map(|r| r.queue), Some(None));
        assert_eq!(read("queue=999999999999999").map(|r| r.queue), Some(Some(u32::MAX)));
        for broken in [
            "",
            "queue=",
            "queue=nan;",
            "queue=1e9",
            "queue==1",
            ",chip=1",
            "queue=7,",
            "Queue=7",
            "chip=\u{e9}",
            "\tqueue=7",
            "queue=7\u{c}",
            "queue=7,\u{b}chip",
        ] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
        assert_eq!(read("rate=0").map(|r| r.rate), Some(None));
        assert_eq!(
            read("rate=72100000000001").and_then(|r| r.rate),
            Some(72_100_000_000_001.0),
            "all fifteen digits count"
        );
        assert_eq!(read("rate=999999999999.999").and_then(|r| r.rate), Some(999_999_999_999.999));
        assert_eq!(read("confidence=1.001").map(|r| r.confidence), Some(None));
        assert_eq!(LoadReport::decode(&[b'a'; MAX_LENGTH + 1]), None);
    }
}
