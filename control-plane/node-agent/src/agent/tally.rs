//! What is counted and logged.

use crate::cgroup::GroupError;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

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
/// The most subjects that are told apart.
const MOST_SUBJECTS: usize = 1_000;

/// Failures of one kind of a file or an application.
#[derive(Debug)]
struct Failures {
    count: u64,
    last: Instant,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) writes: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
    subjects: BTreeMap<(&'static str, String), Failures>,
}

impl Tally {
    /// Counts a failure, and logs it, though not each time. Up to its first colon the text says
    /// what it is about.
    pub(super) fn error(&mut self, kind: &'static str, error: &dyn Display) {
        self.count(kind);
        if let Some(count) = self.is_logged(kind, &error.to_string(), Instant::now()) {
            tracing::warn!(kind, %error, count, "failed");
        }
    }

    /// Counts a failure that somebody else logs.
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Of the failures about one thing, the first is logged, and then each with which their number
    /// has doubled. Returns that number.
    fn is_logged(&mut self, kind: &'static str, error: &str, now: Instant) -> Option<u64> {
        let subject = error.split(": ").next().unwrap_or_default().to_owned();
        if self.subjects.len() >= MOST_SUBJECTS && !self.subjects.contains_key(&(kind, subject.clone())) {
            self.subjects.retain(|_, failures| now.saturating_duration_since(failures.last) < FORGET);
            if self.subjects.len() >= MOST_SUBJECTS {
                return None;
            }
        }
        let failures = self.subjects.entry((kind, subject)).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(failures.last) >= FORGET {
            failures.count = 0;
        }
        failures.count += 1;
        failures.last = now;
        failures.count.is_power_of_two().then_some(failures.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_and_application_is_logged_first_and_when_its_failures_have_doubled() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        let mut logged =
            |kind, error: &str, seconds| tally.is_logged(kind, error, now + Duration::from_secs(seconds)).is_some();
        let first: Vec<bool> = (0..5).map(|second| logged(WRITE, "a/cpu.max: 5 cannot be written", second)).collect();
        assert_eq!(first, [true, true, false, true, false]);
        assert!(logged(WRITE, "b/cpu.max: 5 cannot be written", 5), "another file");
        assert!(logged(READ, "a/cpu.max: no such file", 5), "another kind");
        assert!(!logged(WRITE, "a/cpu.max: 7 cannot be written", 603), "the same file");
        assert!(logged(WRITE, "a/cpu.max: 5 cannot be written", 1_203), "after a pause");
    }

    #[test]
    fn so_many_subjects_at_most_are_told_apart() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        for n in 0..MOST_SUBJECTS {
            assert_eq!(tally.is_logged(READ, &format!("{n}: x"), now), Some(1));
        }
        assert_eq!(tally.is_logged(READ, "more: x", now), None);
        assert_eq!(tally.is_logged(READ, "0: x", now), Some(2));
        assert_eq!(tally.is_logged(READ, "more: x", now + FORGET), Some(1));
        assert_eq!(tally.subjects.len(), 1);
    }
}
