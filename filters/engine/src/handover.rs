//! When counters are handed to the host: a tick does it, and a request on its way if it is time, so
//! that a thread that has traffic need not be woken for it.

use crate::names::TICK;
use bloc_policy::units::Timestamp;
use std::cell::Cell;

/// When a thread last handed its counters over.
pub struct Handover {
    last: Cell<Timestamp>,
    by_request: Cell<bool>,
}

impl Handover {
    /// As if it had been now.
    pub fn new(now: Timestamp) -> Self {
        Self { last: Cell::new(now), by_request: Cell::new(false) }
    }

    /// Whether a request is to do it now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let due = now.since(self.last.get()) >= TICK;
        if due {
            self.last.set(now);
            self.by_request.set(true);
        }
        due
    }

    /// Whether a request has done it since this was last asked.
    pub fn was_by_request(&self) -> bool {
        self.by_request.take()
    }
}
