//! What is counted and logged.

use crate::cgroup::GroupError;
use bloc_daemon::throttle::Throttle;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::Instant;

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

/// After so long without a failure the next one is logged as the first.
const FORGET: Duration = Duration::from_secs(600);

/// Counters since the start.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) writes: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// Of the failures about one thing, the first is logged, and then each with which their number
    /// has doubled.
    logged: Throttle,
}

impl Default for Tally {
    fn default() -> Self {
        Self { writes: 0, errors: BTreeMap::new(), logged: Throttle::doubling(FORGET) }
    }
}

impl Tally {
    /// Counts a failure, and logs it, though not each time. Up to its first colon the text says
    /// what it is about.
    pub(super) fn error(&mut self, kind: &'static str, error: &dyn Display) {
        self.count(kind);
        if let Some(count) = self.logged.due(&subject(kind, &error.to_string()), Instant::now()) {
            tracing::warn!(kind, %error, count, "failed");
        }
    }

    /// Counts a failure that somebody else logs.
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.errors.entry(kind).or_default() += 1;
    }
}

fn subject(kind: &str, error: &str) -> String {
    format!("{kind} {}", error.split(": ").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_by_kind_and_file_or_application() {
        let write = subject(WRITE, "a/cpu.max: 5 cannot be written");
        assert_eq!(write, subject(WRITE, "a/cpu.max: 7 cannot be written"));
        assert_ne!(write, subject(WRITE, "b/cpu.max: 5 cannot be written"));
        assert_ne!(write, subject(READ, "a/cpu.max: no such file"));
    }
}
