//! The load report: the header in which a server tells a sender its load.
//!
//! An RFC 9651 dictionary: `chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3,
//! service=40, cpu=0.25, fleet, held` (requests, requests, requests, requests per second, ratio,
//! milliseconds, requests per second, ratio, flag, flag). Missing members are unknown, and unknown
//! members are ignored. Values other than integers, decimals, booleans and tokens, or broken
//! syntax, invalidate the whole header, as the RFC requires. Only the caller's buffer is allocated.

use super::decimal::{MOST_THOUSANDTHS, decimal, micros, millis, write_integer, write_thousandths};
use super::offer::offer;
use crate::units::Ratio;
use std::time::Duration;

/// The longest report, in bytes; a longer header is not read.
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
    /// The mean execution time of a request.
    pub execution: Option<Duration>,
    /// The service rate by the server's own estimate, in requests per second: its throughput when
    /// busy.
    pub service: Option<f64>,
    /// The share of its CPU that is idle.
    pub cpu: Option<Ratio>,
    /// Whether the server reads the fleet's execution time in a [bid](super::bid::Bid).
    pub fleet: bool,
    /// Whether the server held the request before it bounced it. Trusted only if the attempt took
    /// at least as long as its bid.
    pub held: bool,
}

impl LoadReport {
    /// The expected response time of a request that arrives now:
    /// `max((queue + 1) / service rate, execution time)`.
    pub fn expected(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.expected_seconds()?).ok()
    }

    fn expected_seconds(&self) -> Option<f64> {
        let line = (f64::from(self.queue?) + 1.0) / self.service?;
        Some(line.max(self.execution.unwrap_or_default().as_secs_f64()))
    }

    /// What the server compares with a bid that states this execution time of the `fleet`; both in
    /// seconds.
    pub fn offer(&self, fleet: Option<f64>) -> Option<f64> {
        let expected = self.expected_seconds()?;
        let own = self.execution.filter(|_| self.fleet);
        let Some((own, fleet)) = own.zip(fleet) else { return Some(expected) };
        Some(offer(expected, own.as_secs_f64(), fleet))
    }

    /// The highest value that it may have compared, in seconds: a server unsure that it is faster
    /// than the fleet uses the fleet's execution time.
    pub fn highest_offer(&self, fleet: Option<f64>) -> Option<f64> {
        let (expected, own) = (self.expected_seconds()?, self.execution.filter(|_| self.fleet));
        let alike = own.zip(fleet).map(|(own, fleet)| expected * fleet / own.as_secs_f64());
        Some(self.offer(fleet)?.max(alike.unwrap_or_default()))
    }

    /// Writes the header's value into `into`, after clearing it.
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
            (", confidence=", share(self.confidence)),
            (", exec=", self.execution.and_then(micros)),
            (", service=", self.service.and_then(thousandths)),
            (", cpu=", share(self.cpu)),
        ];
        for (key, value) in decimals {
            if let Some(value) = value {
                into.push_str(key);
                write_thousandths(into, value);
            }
        }
        for (is, member) in [(self.fleet, ", fleet"), (self.held, ", held")] {
            if is {
                into.push_str(member);
            }
        }
    }

    /// Reads a header's value; none if it is not a valid dictionary.
    pub fn decode(value: &[u8]) -> Option<Self> {
        if value.len() > MAX_LENGTH {
            return None;
        }
        // Tabs are allowed between members, but not before the first one.
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
                b"cpu" => report.cpu = number_of(value)?.and_then(Ratio::new),
                b"fleet" => report.fleet = number_of(value)?.is_some_and(|n| n >= 1.0),
                b"held" => report.held = number_of(value)?.is_some_and(|n| n >= 1.0),
                _ if is_key(key) => drop(number_of(value)?),
                _ => return None,
            }
        }
        Some(report)
    }
}

fn share(ratio: Option<Ratio>) -> Option<u64> {
    ratio.and_then(|ratio| thousandths(ratio.get()))
}

/// A number in thousandths, rounded; none if it is negative, NaN or too large for a decimal.
fn thousandths(value: f64) -> Option<u64> {
    let scaled = value * 1e3;
    let rounded = (scaled + 0.5) as u64;
    (scaled >= 0.0 && rounded < MOST_THOUSANDTHS).then_some(rounded)
}

/// Key and value of a member; without a value it is true.
fn member_of(member: &[u8]) -> (&[u8], &[u8]) {
    let split = member.iter().position(|&byte| byte == b'=');
    match split.and_then(|at| member.split_at_checked(at)) {
        Some((key, [_, value @ ..])) => (key, value),
        _ => (member, b"?1"),
    }
}

/// Whether this is a valid name of an unknown member.
fn is_key(key: &[u8]) -> bool {
    let goes_on = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.' | b'*');
    match key {
        [b'a'..=b'z' | b'*', rest @ ..] => rest.iter().all(goes_on),
        _ => false,
    }
}

/// The number in a value: `Some(None)` for a token, `None` if it is invalid.
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

/// A number of requests, at least 0, rounded down to an integer.
fn count(number: Option<f64>) -> Option<u32> {
    number.filter(|n| *n >= 0.0).map(|n| n as u32)
}

fn positive(number: Option<f64>) -> Option<f64> {
    number.filter(|n| *n > 0.0)
}

/// Removes spaces and tabs at both ends. `trim_ascii` would also remove white space that is not
/// allowed.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
#[path = "load_report_tests.rs"]
mod tests;
