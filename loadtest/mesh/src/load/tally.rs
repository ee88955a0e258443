//! Counts results while a load runs.

use super::outcome::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a running load; cheap to read from other tasks.
#[derive(Debug, Default)]
pub struct Tally {
    ok: AtomicU64,
    shed: AtomicU64,
    errors: AtomicU64,
}

impl Tally {
    /// Answers, sheds and errors up to now, warm-up included.
    pub fn counts(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.ok), read(&self.shed), read(&self.errors))
    }

    pub(super) fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Ok => &self.ok,
            Outcome::Shed => &self.shed,
            Outcome::Error(_) => &self.errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
