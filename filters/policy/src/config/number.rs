//! Whole numbers within a range.

use super::error::ConfigError;

/// Numbers are read wider than allowed, so that the error for a negative or a huge one can name the
/// range.
pub(super) fn integer(path: &str, value: Option<i64>, default: u32, least: u32, most: u32) -> Result<u32, ConfigError> {
    let Some(value) = value else { return Ok(default) };
    u32::try_from(value)
        .ok()
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| ConfigError::out_of_range(path.into(), value, format!("{least} to {most}")))
}
