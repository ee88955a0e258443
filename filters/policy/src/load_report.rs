//! The load report: the header in which a server tells a sender how it is.
//!
//! An RFC 9651 dictionary of numbers: `chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3`
//! (requests, requests, requests, requests per second, ratio, milliseconds). Members that are missing are unknown; members that this version
//! does not know are passed over. Values are integers, decimals, booleans or tokens; anything else, or broken syntax, makes the
//! whole header unreadable, as the RFC demands. Reading and writing allocate nothing but the caller's buffer.

use std::fmt::Write;

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
}

impl LoadReport {
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
    }

    /// Reads a header's value; nothing if it is not a dictionary of the kind described above.
    pub fn decode(value: &[u8]) -> Option<Self> {
        if value.len() > MAX_LENGTH {
            return None;
        }
        let mut report = Self::default();
        for member in value.split(|&byte| byte == b',') {
            let (key, number) = member_of(trim(member))?;
            match key {
                b"chip" => report.chip = number.is_some_and(|n| n >= 1.0),
                b"queue" => report.queue = count(number),
                b"capacity" => report.capacity = count(number),
                _ => {}
            }
        }
        Some(report)
    }
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
        [b'0'..=b'9' | b'-', ..] => Some((key, Some(number_of(value)?))),
        [b'a'..=b'z' | b'A'..=b'Z' | b'*', rest @ ..] if rest.iter().all(is_token) => Some((key, None)),
        _ => None,
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte)
}

/// An integer of at most 15 digits, or a decimal of at most 12 and 3.
fn number_of(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
        Some(at) => (digits.get(..at)?, Some(digits.get(at + 1..)?)),
        None => (digits, None),
    };
    let longest = if fraction.is_some() { 12 } else { 15 };
    let sound = |part: &[u8], most: usize| (1..=most).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
    if !sound(whole, longest) || fraction.is_some_and(|part| !sound(part, 3)) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A number of requests: whole, not negative, at most what fits.
fn count(number: Option<f64>) -> Option<u32> {
    number.filter(|n| *n >= 0.0).map(|n| n as u32)
}

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, Dictionary, FieldType, ListEntry, Parser};

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
        fn what_is_written_is_read_back_by_us_and_by_the_oracle(chip: bool, queue: Option<u32>, capacity: Option<u32>) {
            let report = LoadReport { chip, queue, capacity };
            let mut text = String::from("left over");
            report.encode(&mut text);
            prop_assert_eq!(LoadReport::decode(text.as_bytes()), Some(report));
            let oracle: Dictionary = Parser::new(&text).parse().unwrap();
            prop_assert_eq!(sfv_number(&oracle, "queue"), queue.map(f64::from));
            prop_assert_eq!(sfv_number(&oracle, "capacity"), capacity.map(f64::from));
            prop_assert_eq!(oracle.serialize().unwrap(), text);
        }

        /// Whatever we accept the oracle accepts, and both see the same numbers.
        #[test]
        fn nothing_is_read_that_the_oracle_refuses(
            text in "(chip|queue|capacity|Rate|x)(=(-?[0-9]{1,16}(\\.[0-9]{0,4})?|\\?[01]|to/k:en|\"s\"))?(, ?(chip|queue|other)(=[0-9]{1,3})?){0,2}"
        ) {
            if let Some(report) = LoadReport::decode(text.as_bytes()) {
                let oracle: Dictionary = Parser::new(&text).parse().unwrap();
                prop_assert_eq!(report.queue, count(sfv_number(&oracle, "queue")));
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
        assert_eq!(read("queue=-3").map(|r| r.queue), Some(None));
        assert_eq!(read("queue=999999999999999").map(|r| r.queue), Some(Some(u32::MAX)));
        for broken in
            ["", "queue=", "queue=nan;", "queue=1e9", "queue==1", ",chip=1", "queue=7,", "Queue=7", "chip=\u{e9}"]
        {
            assert_eq!(read(broken), None, "{broken:?}");
        }
        assert_eq!(LoadReport::decode(&[b'a'; MAX_LENGTH + 1]), None);
    }
}
