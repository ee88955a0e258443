//! Memory and file descriptors over time, and whether they grow.

use crate::chaos::judge::Promise;
use crate::timeline::Point;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How much more memory the last quarter may have than the second, as a share.
pub const MEMORY: f64 = 0.03;
/// And beyond that, in MiB: what an allocator keeps by chance.
const MEMORY_MIB: f64 = 2.0;
/// How many more file descriptors.
const DESCRIPTORS: f64 = 4.0;

/// A quantity of one kind of process over time, summed over those of the kind.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// What.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The values.
    pub points: Vec<Point>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Resident memory.
    Mib,
    /// Open file descriptors.
    Descriptors,
    /// Linear memory of guests, in pages of 64 KiB; the largest guest.
    Pages,
}

impl Unit {
    /// What a reader calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mib => "MiB",
            Self::Descriptors => "file descriptors",
            Self::Pages => "pages of 64 KiB",
        }
    }

    fn allowed(self, before: f64) -> f64 {
        match self {
            Self::Mib => before * (1.0 + MEMORY) + MEMORY_MIB,
            Self::Descriptors => before + DESCRIPTORS,
            Self::Pages => before,
        }
    }
}

impl Series {
    /// Whether it stayed flat.
    pub fn judge(&self) -> Promise {
        // Not the peaks, which a busy machine makes: a leak lifts the floor.
        let floor = |n: usize| {
            let len = self.points.len();
            let mut values: Vec<f64> =
                self.points[n * len / 4..(n + 1) * len / 4].iter().map(|point| point.value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 10).copied()
        };
        let (before, after) = (floor(1), floor(3));
        let show = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.1}"));
        Promise {
            what: self.name,
            promised: match before {
                Some(before) => format!("at most {:.1} {}", self.unit.allowed(before), self.unit.name()),
                None => "flat".into(),
            },
            measured: format!("{}, then {}", show(before), show(after)),
            // Who was never seen has not stayed flat: there would be nothing to see.
            holds: before.zip(after).is_some_and(|(before, after)| before > 0.0 && after <= self.unit.allowed(before)),
        }
    }
}

/// The value once it has not changed for `calm`; what it is after `limit` if it goes on changing.
pub async fn steady(calm: Duration, limit: Duration, value: impl Fn() -> f64) -> f64 {
    let ends = Instant::now() + limit;
    let (mut last, mut since) = (value(), Instant::now());
    while since.elapsed() < calm && Instant::now() < ends {
        sleep(Duration::from_millis(200)).await;
        let now = value();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// Whether, within `limit` after the last request, there are as many file descriptors as before the first one: whatever is left then is neither a connection in use nor one that
/// a pool keeps.
pub async fn idle_again(before: f64, limit: Duration, descriptors: impl Fn() -> f64) -> Promise {
    let (allowed, ends) = (Unit::Descriptors.allowed(before), Instant::now() + limit);
    let mut now = descriptors();
    while now > allowed && Instant::now() < ends {
        sleep(Duration::from_millis(200)).await;
        now = descriptors();
    }
    Promise {
        what: "file descriptors of all Envoys, idle again",
        promised: format!("at most {allowed:.0}"),
        measured: format!("{before:.0}, then {now:.0}"),
        holds: before > 0.0 && now <= allowed,
    }
}

/// Resident memory of these processes in MiB; one that is gone counts as none.
pub fn resident_mib(processes: &[u32]) -> f64 {
    let kib = |id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    processes.iter().filter_map(kib).sum::<f64>() / 1024.0
}

/// File descriptors that these processes have open.
pub fn descriptors(processes: &[u32]) -> f64 {
    let open = |id: &u32| std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
    processes.iter().map(open).sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(unit: Unit, values: impl Iterator<Item = f64>) -> bool {
        let points = values.enumerate().map(|(n, value)| Point { at_s: n as f64, value }).collect();
        Series { name: "x", unit, points }.judge().holds
    }

    #[test]
    fn growth_is_seen_and_filling_up_is_not() {
        for (unit, leak) in [(Unit::Mib, 0.2), (Unit::Descriptors, 0.2), (Unit::Pages, 0.05)] {
            let line = |slope: f64| (0..100).map(move |n| (100.0 + slope * f64::from(n)).floor());
            assert!(holds(unit, line(0.0)));
            assert!(!holds(unit, line(leak)), "{unit:?}");
        }
        let fills = (0..100).map(|n| if n < 20 { f64::from(n) } else { 100.0 });
        assert!(holds(Unit::Pages, fills));
        assert!(!holds(Unit::Mib, (0..100).map(|_| 0.0)), "nothing was seen");
        assert!(!holds(Unit::Mib, std::iter::empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_may_take_their_time_to_close_and_must_close() {
        let from = Instant::now();
        let closing = || (100.0 - from.elapsed().as_secs_f64() * 10.0).max(20.0);
        assert!(idle_again(20.0, Duration::from_secs(20), closing).await.holds);
        let left = || closing() + 5.0;
        assert!(!idle_again(20.0, Duration::from_secs(20), left).await.holds);
        assert!(!idle_again(0.0, Duration::from_secs(20), || 0.0).await.holds, "nothing was seen");
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_is_waited_for_and_not_for_ever() {
        let (from, calm, limit) = (Instant::now(), Duration::from_secs(3), Duration::from_secs(20));
        let opening = || from.elapsed().as_secs_f64().min(5.0).floor();
        assert_eq!(steady(calm, limit, opening).await, 5.0);
        let from = Instant::now();
        let growing = || from.elapsed().as_secs_f64();
        assert!(steady(calm, limit, growing).await >= 19.0);
        assert!(from.elapsed() < limit + calm);
    }

    #[test]
    fn this_process_has_memory_and_descriptors() {
        let own = [std::process::id()];
        assert!(resident_mib(&own) > 1.0 && descriptors(&own) >= 3.0);
        assert_eq!(resident_mib(&[u32::MAX]), 0.0);
    }
}
