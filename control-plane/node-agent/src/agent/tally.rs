//! What is counted and logged.

use crate::cgroup::GroupError;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A group cannot be read.
pub const READ: &str = "read";
/// A quota cannot be written.
pub const WRITE: &str = "write";
/// A limit of memory was not lowered because of what is in use.
pub const IN_USE: &str = "in_use";
/// The file of the originals cannot be written.
pub const STATE: &str = "state";
/// A container or its pod may use CPU later that it has not used, which a new quota would change.
pub const BURST: &str = "burst";
/// The limit leaves no room.
pub const LIMIT: &str = "limit";

/// The kind of an error at a write.
pub const fn of_write(error: &GroupError) -> &'static str {
    if error.is_in_use() { IN_USE } else { WRITE }
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) writes: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(super) fn error(&mut self, kind: &'static str, error: &dyn Display) {
        let count = self.errors.entry(kind).or_default();
        *count += 1;
        // The first ones, then each time their number has doubled.
        if count.is_power_of_two() {
            tracing::warn!(kind, %error, count, "failed");
        }
    }
}
