//! The load report: the header in which a server tells a sender how it is.
//!
//! An RFC 9651 dictionary of numbers: `chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3, service=40`
//! (requests, requests, requests, requests per second, ratio, milliseconds, requests per second). Members that are missing are unknown; members that this version
//! does not know are passed over. Values are integers, decimals, booleans or tokens; anything else, or broken syntax, makes the
//! whole header unreadable, as the RFC demands. Reading and writing allocate nothing but the caller's buffer.

use crate::units::Ratio;
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
        into.push_str(if self.chip { "chip=1" } else { "chip=0" });
        for (key, count) in [(", queue=", self.queue), (", capacity=", self.capacity)] {
            if let Some(count) = count {
                into.push_str(key);
                write_integer(into, u64::from(count));
            }
        }
        let decimals = [
            (", rate=", self.rate.and_then(thousandths)),
            (", confidence=", self.confidence.and_then(|confidence| thousandths(confidence.get()))),
            (", exec=", self.execution.and_then(micros)),
            (", service=", self.service.and_then(thousandths)),
        ];
        for (key, value) in decimals {
            if let Some(value) = value {
                into.push_str(key);
                write_thousandths(into, value);
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
            let (key, value) = member_of(trim(member));
            match key {
                b"chip" => report.chip = number_of(value)?.is_some_and(|n| n >= 1.0),
                b"queue" => report.queue = count(number_of(value)?),
                b"capacity" => report.capacity = count(number_of(value)?),
                b"rate" => report.rate = positive(number_of(value)?),
                b"confidence" => report.confidence = number_of(value)?.and_then(Ratio::new),
                b"exec" => report.execution = positive(number_of(value)?).map(millis),
                b"service" => report.service = positive(number_of(value)?),
                _ if is_key(key) => drop(number_of(value)?),
                _ => return None,
            }
        }
        Some(report)
    }
}

// Each request writes a report and reads one, so these are written for few instructions: formatting by `core::fmt` and reading in several passes took half of the
// instructions of a request.

/// Below this, in thousandths, a decimal is written.
const MOST_THOUSANDTHS: u64 = 1_000_000_000_000_000;

/// A number in thousandths, rounded; none if it is negative, no number or too large for a decimal.
fn thousandths(value: f64) -> Option<u64> {
    let scaled = value * 1e3;
    let rounded = (scaled + 0.5) as u64;
    (scaled >= 0.0 && rounded < MOST_THOUSANDTHS).then_some(rounded)
}

/// A time in microseconds, which are thousandths of a millisecond.
fn micros(time: Duration) -> Option<u64> {
    let micros = time.as_secs().checked_mul(1_000_000)? + (u64::from(time.subsec_nanos()) + 500) / 1000;
    (micros < MOST_THOUSANDTHS).then_some(micros)
}

/// A time from milliseconds, at most fifteen digits of them.
fn millis(millis: f64) -> Duration {
    Duration::from_micros((millis * 1e3 + 0.5) as u64)
}

pub(crate) fn write_integer(into: &mut String, mut number: u64) {
    let (mut digits, mut used) = ([0u8; 20], 0);
    for digit in &mut digits {
        *digit = (number % 10) as u8;
        used += 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    for digit in digits.iter().take(used).rev() {
        into.push(char::from(b'0' + digit));
    }
}

/// A decimal without trailing zeros; integers instead of floating-point formatting, which would be a tenth of the module.
pub(crate) fn write_thousandths(into: &mut String, thousandths: u64) {
    write_integer(into, thousandths / 1000);
    let mut rest = (thousandths % 1000) as u32;
    if rest > 0 {
        into.push('.');
    }
    let mut place = 100;
    while rest > 0 {
        into.push(char::from(b'0' + (rest / place) as u8));
        rest %= place;
        place /= 10;
    }
}

/// Key and value of a member; one without a value is true.
fn member_of(member: &[u8]) -> (&[u8], &[u8]) {
    let split = member.iter().position(|&byte| byte == b'=');
    match split.and_then(|at| member.split_at_checked(at)) {
        Some((key, [_, value @ ..])) => (key, value),
        _ => (member, b"?1"),
    }
}

/// Whether this may be the name of a member that we do not know.
fn is_key(key: &[u8]) -> bool {
    let goes_on = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.' | b'*');
    match key {
        [b'a'..=b'z' | b'*', rest @ ..] => rest.iter().all(goes_on),
        _ => false,
    }
}

/// A value's number; absent for a token. Nothing for what is no value.
fn number_of(value: &[u8]) -> Option<Option<f64>> {
    match value {
        b"?1" => Some(Some(1.0)),
        b"?0" => Some(Some(0.0)),
        [b'0'..=b'9' | b'-', ..] => decimal(value).map(Some),
        [b'a'..=b'z' | b'A'..=b'Z' | b'*', rest @ ..] if rest.iter().all(is_token) => Some(None),
        _ => None,
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte)
}

/// An integer of at most 15 digits, or a decimal of at most 12 and 3.
pub(crate) fn decimal(text: &[u8]) -> Option<f64> {
    let (negative, text) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (mut number, mut digits, mut point) = (0u64, 0, None);
    for byte in text {
        match byte {
            b'0'..=b'9' if digits < 15 => {
                number = number * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            b'.' if point.is_none() => point = Some(digits),
            _ => return None,
        }
    }
    // In thousandths fifteen digits at the most, which are exact; rounded once, by the division.
    let magnitude = match (point, digits) {
        (None, 1..) => number as f64,
        (Some(whole @ 1..=12), _) => match digits - whole {
            1 => (number * 100) as f64 / 1e3,
            2 => (number * 10) as f64 / 1e3,
            3 => number as f64 / 1e3,
            _ => return None,
        },
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
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
