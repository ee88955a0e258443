//! Command line values with their ranges. Clap puts the option's name and the value before the text
//! of these errors.

use std::str::FromStr;
use std::time::Duration;

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allowed is only {0}")]
pub struct NotAllowed(pub String);

/// Reads a duration such as `250ms`, from `least` to `most`.
///
/// # Errors
/// Not a duration, or outside the range.
pub fn duration(text: &str, least: Duration, most: Duration) -> Result<Duration, NotAllowed> {
    let value = humantime::parse_duration(text).ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| {
        let (least, most) = (humantime::format_duration(least), humantime::format_duration(most));
        NotAllowed(format!("a duration with its unit (such as 250ms), {least} to {most}"))
    })
}

/// Reads a number from `least` to `most`.
///
/// # Errors
/// Not a number, or outside the range.
pub fn number<T: FromStr + PartialOrd + std::fmt::Display>(text: &str, least: T, most: T) -> Result<T, NotAllowed> {
    let value = text.parse().ok().filter(|value| (&least..=&most).contains(&value));
    value.ok_or_else(|| NotAllowed(format!("a number, {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_nothing_beyond() {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(3600));
        assert_eq!(duration("1ms", least, most), Ok(least));
        assert_eq!(duration("1h", least, most), Ok(most));
        let refusal = duration("3601s", least, most).unwrap_err().to_string();
        assert_eq!(refusal, "allowed is only a duration with its unit (such as 250ms), 1ms to 1h");
        assert_eq!(number("3", 1, 3), Ok(3));
        assert_eq!(number("4", 1, 3).unwrap_err().to_string(), "allowed is only a number, 1 to 3");
        assert_eq!(number("NaN", 0.0, 3.0).unwrap_err().to_string(), "allowed is only a number, 0 to 3");
    }
}
