//! A container's CPU, step by step.

use super::timing::STEP;
use crate::cgroup::{Counters, Group, GroupError};
use crate::cores::Cores;
use crate::cpu::Interval;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Duration,
    counters: Counters,
}

impl Reading {
    /// The interval since `before`; none if no time has passed.
    fn since(self, before: Self) -> Option<Interval> {
        let time = self.at.checked_sub(before.at).filter(|time| !time.is_zero())?;
        let used = self.counters.used.saturating_sub(before.counters.used);
        let periods = self.counters.periods.saturating_sub(before.counters.periods);
        let throttled = self.counters.throttled.saturating_sub(before.counters.throttled);
        let throttled = if periods == 0 { 0.0 } else { (throttled as f64 / periods as f64).min(1.0) };
        Some(Interval { used: Cores::new(used.as_secs_f64() / time.as_secs_f64()), throttled })
    }
}

#[derive(Debug, Default)]
pub(super) struct Readings {
    first: Option<Reading>,
    last: Option<Reading>,
    shown: Option<Reading>,
    /// Steps in which it was observed before it comes under the limit, and the sum of its use in
    /// them.
    pub(super) observed: (u32, Cores),
}

impl Readings {
    /// Reads the counters. Returns the interval since the last reading.
    pub(super) fn read(&mut self, group: &Group, now: Duration) -> Result<Option<Interval>, GroupError> {
        let reading = Reading { at: now, counters: group.counters()? };
        self.first.get_or_insert(reading);
        self.shown.get_or_insert(reading);
        let last = *self.last.get_or_insert(reading);
        // In a shorter time the kernel may not have updated its counters.
        let interval = reading.since(last).filter(|_| now.saturating_sub(last.at) >= STEP / 2);
        if interval.is_some() {
            self.last = Some(reading);
        }
        Ok(interval)
    }

    pub(super) fn observe(&mut self, interval: Interval) {
        let (steps, used) = self.observed;
        self.observed = (steps + 1, used + interval.used);
    }

    /// Its mean use, if it was observed for at least so many steps.
    pub(super) fn mean_after(&self, least: u32) -> Option<Cores> {
        let (steps, used) = self.observed;
        (steps >= least).then(|| used * (1.0 / f64::from(steps)))
    }

    /// The CPU time since the first reading. Earlier use is left out: a container that joins must
    /// not look like a burst of its pod.
    pub(super) fn used(&self) -> Duration {
        let used = |(last, first): (Reading, Reading)| last.counters.used.saturating_sub(first.counters.used);
        self.last.zip(self.first).map_or(Duration::ZERO, used)
    }

    pub(super) fn show(&mut self) -> Interval {
        let interval = self.last.zip(self.shown).and_then(|(last, shown)| last.since(shown));
        self.shown = self.last;
        interval.unwrap_or(Interval { used: Cores::ZERO, throttled: 0.0 })
    }
}
