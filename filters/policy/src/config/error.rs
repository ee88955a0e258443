//! Reading JSON, and errors about values that cannot be used.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Write};

/// A value that cannot be used: where it is, what it is and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value was read, but lies outside its range.
    #[error("{}: {} is not allowed; allowed: {allowed}", text(path), short(value))]
    OutOfRange {
        /// Where the value is, such as `services.backend.retries`.
        path: String,
        /// The value as it was given.
        value: String,
        /// The allowed range, in words.
        allowed: String,
    },
    /// The text does not fit the schema (a wrong type, an unknown field, broken syntax).
    #[error("{}: {}", text(path), text(reason))]
    Malformed {
        /// Where reading stopped, such as `services.backend.capacity`.
        path: String,
        /// What serde says, the allowed fields or types included.
        reason: String,
    },
}

/// Text of whoever wrote the configuration, as it fits a line of a log. What is longer than `most`
/// characters keeps `end` of them at either end.
pub(super) struct Shown<'a> {
    text: &'a str,
    most: usize,
    end: usize,
}

fn text(text: &str) -> Shown<'_> {
    Shown { text, most: 1_000, end: 200 }
}

/// A value: 60 characters say which one it is.
pub(super) fn short(text: &str) -> Shown<'_> {
    Shown { text, most: 60, end: 29 }
}

impl Display for Shown<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { text, most, end } = *self;
        let length = text.chars().count();
        for (nth, character) in text.chars().enumerate() {
            if length > most && nth == end {
                formatter.write_str("…")?;
            }
            match character {
                _ if length > most && (end..length - end).contains(&nth) => {}
                '\n' => formatter.write_str("\\n")?,
                _ if character.is_control() => formatter.write_char('?')?,
                _ => formatter.write_char(character)?,
            }
        }
        Ok(())
    }
}

impl ConfigError {
    /// A value outside its range.
    pub fn out_of_range(path: String, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { path, value: value.to_string(), allowed: allowed.into() }
    }

    /// What serde says of the value at `path`.
    pub fn malformed(path: impl ToString, reason: impl ToString) -> Self {
        Self::Malformed { path: path.to_string(), reason: reason.to_string() }
    }

    /// The same error with `prefix` (and a dot) before its path.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        let (Self::OutOfRange { path, .. } | Self::Malformed { path, .. }) = &mut self;
        *path = if path.is_empty() || path == "." { prefix.to_owned() } else { format!("{prefix}.{path}") };
        self
    }

    /// Reads `T` out of JSON.
    ///
    /// # Errors
    /// [`ConfigError::Malformed`] with the path of the field that does not fit.
    pub fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Self> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let value =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|e| Self::malformed(e.path(), e.inner()))?;
        deserializer.end().map_err(|e| Self::malformed(".", e))?;
        Ok(value)
    }
}

/// The members of an object, not read yet. One type for all levels, since each would take 3 KiB of
/// the module.
pub(crate) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Reads a member of an answer.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ConfigError> {
    serde_json::from_slice(json).map_err(|error| ConfigError::malformed(".", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_before_the_path_or_in_place_of_an_empty_one() {
        for (path, expected) in [("a.b", "services.a.b"), ("", "services"), (".", "services")] {
            let error = ConfigError::out_of_range(path.to_owned(), 7, "0 to 5").under("services");
            assert_eq!(error.to_string(), format!("{expected}: 7 is not allowed; allowed: 0 to 5"));
        }
    }

    #[test]
    fn text_of_the_configuration_fits_a_line() {
        let of = |path: &str, reason: &str| ConfigError::malformed(path, reason).to_string();
        assert_eq!(of("a\nb\tc", "é `\n`"), "a\\nb?c: é `\\n`");
        assert_eq!(of("", &"é".repeat(1_000)).chars().count(), 1_002);
        let long = "a".repeat(999) + "z" + &"é".repeat(69_000);
        let (a, e) = ("a".repeat(200), "é".repeat(200));
        assert_eq!(of(&long, "r"), format!("{a}…{e}: r"));
        assert_eq!(
            ConfigError::out_of_range(long.clone(), long, "7").to_string(),
            format!("{a}…{e}: {}…{} is not allowed; allowed: 7", "a".repeat(29), "é".repeat(29))
        );
    }
}
