//! The numbers in headers: integers, and decimals with up to three digits after the point.
//!
//! Each request writes and reads a report, so this code is optimized for few instructions:
//! `core::fmt` and reading in several passes took half of a request's instructions.

use std::time::Duration;

/// Writes a whole number.
pub fn write_integer(into: &mut String, mut number: u64) {
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

/// Writes a decimal given in thousandths, without trailing zeros. Uses integers only:
/// floating-point formatting would be a tenth of the module.
pub fn write_thousandths(into: &mut String, thousandths: u64) {
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

/// Decimals must be below this, in thousandths.
pub const MOST_THOUSANDTHS: u64 = 1_000_000_000_000_000;

/// A time in microseconds, rounded; none if it is too long for a decimal of milliseconds.
pub fn micros(time: Duration) -> Option<u64> {
    let micros = time.as_secs().checked_mul(1_000_000)? + (u64::from(time.subsec_nanos()) + 500) / 1000;
    (micros < MOST_THOUSANDTHS).then_some(micros)
}

/// A time from milliseconds, with at most fifteen digits.
pub fn millis(millis: f64) -> Duration {
    Duration::from_micros((millis * 1e3 + 0.5) as u64)
}

/// Reads an integer of at most 15 digits, or a decimal of at most 12 and 3 (RFC 9651, section 3.3).
pub fn decimal(text: &[u8]) -> Option<f64> {
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
    // Up to fifteen digits are exact in thousandths; the division rounds once.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_integers_and_decimals_and_nothing_else() {
        for (text, number) in [
            ("0", 0.0),
            ("-12", -12.0),
            ("1.5", 1.5),
            ("-0.25", -0.25),
            ("999999999999.999", 999_999_999_999.999),
            ("999999999999999", 999_999_999_999_999.0),
        ] {
            assert_eq!(decimal(text.as_bytes()), Some(number), "{text}");
        }
        for text in ["", "-", ".5", "1.", "1.2345", "1.2.3", "+1", "1e3", "9999999999999.9", "1000000000000000"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }
}
