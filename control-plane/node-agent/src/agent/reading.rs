//! A container's CPU, step by step.

use super::timing::STEP;
use crate::cgroup::{Counters, Group, GroupError};
use crate::cores::Cores;
use crate::cpu::Interval;
use std::time::Duration;

/// A container is idle after this many consecutive intervals without use and throttling. Throttling
/// is counted at the end of a period, which is over by then unless it exceeds the usual 100 ms.
const IDLE: u32 = 3;

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
    /// Consecutive intervals without use and throttling.
    idle: u32,
    /// The steps in which it was observed before admission, and the sum of its use in them.
    pub(super) observed: (u32, Cores),
}

impl Readings {
    /// Reads the counters. Returns the interval since the last reading.
    pub(super) fn read(&mut self, group: &Group, now: Duration) -> Result<Option<Interval>, GroupError> {
        let counters = match self.last {
            Some(last) if self.idle >= IDLE => group.counters_after_idling(last.counters)?,
            _ => group.counters()?,
        };
        let reading = Reading { at: now, counters };
        self.first.get_or_insert(reading);
        self.shown.get_or_insert(reading);
        let last = *self.last.get_or_insert(reading);
        // In a shorter time the kernel may not have updated its counters.
        let interval = reading.since(last).filter(|_| now.saturating_sub(last.at) >= STEP / 2);
        if let Some(interval) = interval {
            self.last = Some(reading);
            let is_idle = interval.used == Cores::ZERO && interval.throttled == 0.0;
            self.idle = if is_idle { self.idle.saturating_add(1) } else { 0 };
        }
        Ok(interval)
    }

    pub(super) fn observe(&mut self, interval: Interval) {
        let (steps, used) = self.observed;
        self.observed = (steps + 1, used + interval.used);
    }

    /// Its mean use, if it was observed for at least this many steps.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Tree;
    use std::fs;

    #[test]
    fn an_idle_container_of_version_1_is_read_again_as_soon_as_it_uses_cpu() {
        let directory = tempfile::tempdir().unwrap();
        let [cpu, cpuacct] = ["cpu", "cpuacct"].map(|name| directory.path().join(name));
        for (folder, file, text) in [(&cpu, "cpu.cfs_quota_us", "-1\n"), (&cpuacct, "cpuacct.usage", "0\n")] {
            fs::create_dir_all(folder.join("c0")).unwrap();
            fs::write(folder.join(file), text).unwrap();
        }
        let group = Tree::open(&cpu, Some(&cpuacct)).unwrap().group("c0");
        let write = |micros: u64, stat: &str| {
            fs::write(cpuacct.join("c0/cpuacct.usage"), format!("{}\n", micros * 1_000)).unwrap();
            fs::write(cpu.join("c0/cpu.stat"), stat).unwrap();
        };
        let stat = |periods: u32, throttled: u32| format!("nr_periods {periods}\nnr_throttled {throttled}\n");
        let (mut readings, mut now) = (Readings::default(), Duration::ZERO);
        let mut read = || {
            now += STEP;
            readings.read(&group, now)
        };
        write(50_000, &stat(5, 5));
        assert!(read().unwrap().is_none());
        // Throttling that is counted after the last use is seen.
        write(60_000, &stat(5, 5));
        let milli = |interval: Interval| (interval.used.get() * 1e3).round();
        assert_eq!(milli(read().unwrap().unwrap()), 100.0);
        write(60_000, &stat(6, 6));
        assert_eq!(read().unwrap().unwrap().throttled, 1.0);
        for _ in 0..IDLE {
            assert_eq!(read().unwrap().unwrap().throttled, 0.0);
        }
        // The container is idle: this file is not read.
        write(60_000, &stat(10, 10));
        assert_eq!(read().unwrap().unwrap().throttled, 0.0);
        write(70_000, &stat(10, 8));
        let interval = read().unwrap().unwrap();
        assert_eq!((milli(interval), interval.throttled), (100.0, 0.5));
    }
}
