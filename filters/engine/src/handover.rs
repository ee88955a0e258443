//! When counters are handed to the host: on a tick, or by a request when it is due, so that a
//! thread with traffic need not be woken for it.

use crate::names::TICK;
use bloc_policy::units::Timestamp;
use std::cell::Cell;

/// When a thread last handed its counters over.
pub struct Handover {
    last: Cell<Timestamp>,
    by_request: Cell<bool>,
}

impl Handover {
    /// As if they had been handed over now.
    pub fn new(now: Timestamp) -> Self {
        Self { last: Cell::new(now), by_request: Cell::new(false) }
    }

    /// Whether a request must hand them over now.
    pub fn take_due(&self, now: Timestamp) -> bool {
        let due = now.since(self.last.get()) >= TICK;
        if due {
            self.last.set(now);
            self.by_request.set(true);
        }
        due
    }

    /// Whether a request has done so since the last call.
    pub fn take_by_request(&self) -> bool {
        self.by_request.take()
    }
}
