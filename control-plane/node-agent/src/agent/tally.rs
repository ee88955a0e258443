//! What is counted and logged.

use crate::cgroup::GroupError;
use bloc_daemon::throttle::Throttle;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::Instant;

// The kinds of failures; `bloc_node_errors_total` explains them.
pub const READ: &str = "read";
pub const WRITE: &str = "write";
pub const IN_USE: &str = "in_use";
pub const STATE: &str = "state";
pub const BURST: &str = "burst";
pub const LIMIT: &str = "limit";

/// The kind of a failed write.
pub const fn of_write(error: &GroupError) -> &'static str {
    if error.is_in_use() { IN_USE } else { WRITE }
}

/// After this time without a failure the next one is logged like the first.
const FORGET: Duration = Duration::from_secs(600);

/// Counters since the start.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) writes: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// Logs the first failure of a subject, then one each time their number has doubled.
    logged: Throttle,
}

impl Default for Tally {
    fn default() -> Self {
        Self { writes: 0, errors: BTreeMap::new(), logged: Throttle::doubling(FORGET) }
    }
}

impl Tally {
    /// Counts a failure, and logs it unless its subject had too many. The subject is the text up to
    /// the first colon.
    pub(super) fn error(&mut self, kind: &'static str, error: &dyn Display) {
        self.count(kind);
        if let Some(count) = self.logged.due(&subject(kind, &error.to_string()), Instant::now()) {
            tracing::warn!(kind, %error, count, "failed");
        }
    }

    /// Counts a failure that the caller logs.
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
