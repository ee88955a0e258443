//! Whole numbers and durations within a range.

use super::error::ConfigError;
use std::time::Duration;

/// Numbers are read wider than allowed, so that the error for a negative or a huge one can name the
/// range.
pub(super) fn integer(path: &str, value: Option<i64>, default: u32, least: u32, most: u32) -> Result<u32, ConfigError> {
    let Some(value) = value else { return Ok(default) };
    u32::try_from(value)
        .ok()
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| ConfigError::out_of_range(path.into(), value, format!("{least} to {most}")))
}

/// The pattern of a duration in the schema for editors; the ranges are in the descriptions.
#[cfg(feature = "schema")]
pub(super) const DURATION: &str = r"^(\s*\d+\s*(ns|us|ms|s|sec|secs|m|min|mins|h|hr|hour|hours))+\s*$";

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// A duration within a range; `default` if there is none.
pub(super) fn duration(
    path: &str,
    text: Option<&str>,
    default: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    match humantime::parse_duration(text) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => {
            let (least, most) = (humantime::format_duration(least), humantime::format_duration(most));
            let allowed = format!("a duration with its unit (such as 250ms), {least} to {most}");
            Err(ConfigError::out_of_range(path.into(), format!("{text:?}"), allowed))
        }
    }
}
