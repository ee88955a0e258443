//! Limits repeated log messages.

use crate::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The largest number of subjects. While there are this many, messages about others are not due.
const MOST_SUBJECTS: usize = 1_000;

/// Says when a message about a subject is due.
#[derive(Debug)]
pub struct Throttle {
    forget: Duration,
    doubles: bool,
    subjects: Mutex<HashMap<String, Seen>>,
}

#[derive(Debug)]
struct Seen {
    count: u64,
    at: Instant,
}

impl Throttle {
    /// The first message about each subject is due, then one per `every`.
    pub fn once(every: Duration) -> Self {
        Self { forget: every, doubles: false, subjects: Mutex::default() }
    }

    /// The first message about each subject is due, then one each time the number has doubled.
    /// After `quiet` without a message, the count starts again.
    pub fn doubling(quiet: Duration) -> Self {
        Self { forget: quiet, doubles: true, subjects: Mutex::default() }
    }

    /// Counts a message. Returns the number of messages if it is due.
    pub fn due(&self, subject: &str, now: Instant) -> Option<u64> {
        let mut subjects = lock(&self.subjects);
        let is_old = |seen: &Seen| now.saturating_duration_since(seen.at) >= self.forget;
        if subjects.len() >= MOST_SUBJECTS && !subjects.contains_key(subject) {
            subjects.retain(|_, seen| !is_old(seen));
            if subjects.len() >= MOST_SUBJECTS {
                return None;
            }
        }
        let seen = subjects.entry(subject.to_owned()).or_insert(Seen { count: 0, at: now });
        if is_old(seen) {
            seen.count = 0;
        }
        seen.count += 1;
        if self.doubles || seen.count == 1 {
            seen.at = now;
        }
        let is_due = if self.doubles { seen.count.is_power_of_two() } else { seen.count == 1 };
        is_due.then_some(seen.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORGET: Duration = Duration::from_secs(60);

    #[test]
    fn each_subject_is_due_once_within_the_time() {
        let (throttle, start) = (Throttle::once(FORGET), Instant::now());
        let due = |subject, seconds| throttle.due(subject, start + Duration::from_secs(seconds)).is_some();
        assert_eq!([due("a", 0), due("a", 59), due("b", 59), due("a", 60)], [true, false, true, true]);
        assert_eq!([due("a", 119), due("a", 120)], [false, true]);
    }

    #[test]
    fn each_subject_is_due_first_and_when_its_messages_have_doubled() {
        let (throttle, start) = (Throttle::doubling(FORGET), Instant::now());
        let due = |subject, seconds| throttle.due(subject, start + Duration::from_secs(seconds));
        let first: Vec<_> = (0..5).map(|second| due("a", second)).collect();
        assert_eq!(first, [Some(1), Some(2), None, Some(4), None]);
        assert_eq!(due("b", 5), Some(1), "another subject");
        assert_eq!([due("a", 63), due("a", 122), due("a", 182)], [None, None, Some(1)]);
    }

    #[test]
    fn so_many_subjects_at_most_are_told_apart() {
        for throttle in [Throttle::once(FORGET), Throttle::doubling(FORGET)] {
            let start = Instant::now();
            let due = (0..2 * MOST_SUBJECTS).filter(|n| throttle.due(&n.to_string(), start).is_some()).count();
            assert_eq!(due, MOST_SUBJECTS);
            assert_eq!(throttle.due("more", start + FORGET), Some(1));
            assert_eq!(throttle.subjects.lock().unwrap().len(), 1);
        }
    }
}
