//! The ticks that root contexts asked for.

use crate::shared::Address;
use std::collections::BTreeMap;
use std::time::Duration;

struct Timer {
    period: Duration,
    due: Duration,
}

/// The timers of a process, at most one for each root context.
#[derive(Default)]
pub(crate) struct Timers(BTreeMap<Address, Timer>);

impl Timers {
    /// Restarts a timer, or stops it if the period is zero.
    pub(crate) fn set(&mut self, address: Address, period: Duration, now: Duration) {
        match period {
            Duration::ZERO => drop(self.0.remove(&address)),
            _ => drop(self.0.insert(address, Timer { period, due: now + period })),
        }
    }

    /// Starts the next period of a timer, if there still is one.
    pub(crate) fn restart(&mut self, address: Address, now: Duration) {
        if let Some(timer) = self.0.get_mut(&address) {
            timer.due = now + timer.period;
        }
    }

    /// When each timer is due, and for which root context.
    pub(crate) fn dues(&self) -> impl Iterator<Item = (Address, Duration)> {
        self.0.iter().map(|(address, timer)| (*address, timer.due))
    }

    /// Stops the timers of these addresses.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Address) -> bool) {
        self.0.retain(|address, _| !gone(address));
    }
}
