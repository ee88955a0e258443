//! How often the thread that serves requests ticks.
//!
//! The ticks of one inbound root context count, the one that was configured last: it looks after
//! the services.

use crate::host::Host;
use std::cell::Cell;
use std::time::Duration;

/// The ticks of a thread that serves.
pub struct Pace<H> {
    host: H,
    root: Cell<u32>,
    period: Cell<Duration>,
}

impl<H: Host> Pace<H> {
    /// Nobody ticks yet.
    pub fn new(host: &H) -> Self {
        Self { host: host.clone(), root: Cell::new(0), period: Cell::new(Duration::ZERO) }
    }

    /// From now on the ticks of this root context count, and come every `period`.
    pub fn carried_by(&self, root: u32, period: Duration) {
        self.root.set(root);
        self.period.set(period);
    }

    /// Whether the ticks of this root context are those that count.
    pub fn is_carried_by(&self, root: u32) -> bool {
        self.root.get() == root
    }

    /// It ticks every `period` from now on; to be called in that context or one of its requests.
    pub fn set(&self, period: Duration) {
        if self.period.replace(period) != period {
            self.host.set_tick_period(period);
        }
    }

    /// It ticks at least every `period` from now on; to be called as [`Self::set`].
    pub fn hurry(&self, period: Duration) {
        if self.period.get() > period {
            self.set(period);
        }
    }

    /// The same, from wherever. The last call of a callback, or followed by calls that name their
    /// context.
    pub fn hurry_from_anywhere(&self, period: Duration) {
        if self.period.get() > period {
            self.period.set(period);
            self.host.set_tick_period_of(self.root.get(), period);
        }
    }
}
