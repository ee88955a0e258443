//! JSON that is read member by member.

use crate::config::ConfigError;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The members of an object, not read yet. One type for all levels, since each would take 3 KiB of
/// the module.
pub(crate) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Reads a member of an answer.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ConfigError> {
    serde_json::from_slice(json).map_err(|error| ConfigError::malformed(".", error))
}
