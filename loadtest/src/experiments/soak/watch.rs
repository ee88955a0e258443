//! Memory and file descriptors over time, and whether they grow.

use super::bursts::EVERY;
use super::slope::{floors, theil_sen};
use crate::experiments::chaos::judge::Promise;
use crate::timeline::Point;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The share of the run that is not judged. Caches, buffers and compiled code fill in it, once.
const FILLS: f64 = 0.25;
/// The first four bursts are not judged either: pools and buffers grow with them. In seconds.
const FILLS_LEAST_S: f64 = 90.0;
/// How many more pages the last quarter of a run may have than the second.
const PAGES: f64 = 1.0;
/// How many more file descriptors there may be after the last request than before the first.
const LEFT_OPEN: f64 = 4.0;

/// How fast a quantity may grow, per minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// In a run that is long enough.
    pub per_minute: f64,
    /// Changes by chance within a run of any length. Over a short time they alone are a steeper
    /// slope, which is then the bound.
    pub noise: f64,
}

/// In KiB, all processes of a kind together. One object of 64 bytes kept for each of 300 requests
/// per second is 1,125 KiB per minute. One of 16 bytes, the smallest that an allocator gives out,
/// is 281.
pub const MEMORY: Growth = Growth { per_minute: 128.0, noise: 2_048.0 };
/// The control plane's. One descriptor kept for each change is 60 per minute.
pub const DESCRIPTORS: Growth = Growth { per_minute: 1.0, noise: 8.0 };

impl Growth {
    /// The bound for this judged time, in minutes.
    pub fn bound(self, minutes: f64) -> f64 {
        self.per_minute.max(self.noise / minutes)
    }

    /// The length of a run from which on `per_minute` is the bound, in minutes.
    pub fn settled_minutes(self) -> f64 {
        self.noise / self.per_minute / (1.0 - FILLS)
    }
}

/// A quantity of one kind of process over time, summed over the processes of the kind.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The quantity.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The values.
    pub points: Vec<Point>,
}

/// A unit, and how the quantity is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Memory in use: what an Envoy has allocated and not freed, or the resident memory of a
    /// process that sees no bursts.
    Mib,
    /// Resident memory of a process that sees bursts. The allocator keeps what the largest one
    /// needed, and a leak fills that first.
    ResidentMib,
    /// Open file descriptors.
    Descriptors,
    /// Open file descriptors that are mostly connections. Their number follows the load: a pool
    /// keeps the connections that a burst opened while each is used now and then. See
    /// [`idle_again`].
    Connections,
    /// Linear memory of the largest guest, in pages of 64 KiB.
    Pages,
}

impl Series {
    /// Whether it stayed flat; `None`: it follows the bursts, and another quantity shows a leak.
    pub fn judge(&self) -> Option<Promise> {
        match self.unit {
            Unit::Mib => Some(self.judge_slope(MEMORY, "KiB", 1024.0)),
            Unit::Descriptors => Some(self.judge_slope(DESCRIPTORS, "file descriptors", 1.0)),
            Unit::ResidentMib | Unit::Connections => None,
            Unit::Pages => Some(self.judge_pages()),
        }
    }

    /// Judges the slope after the first quarter. `factor` converts the unit of the values to
    /// `unit`, that of `growth`.
    fn judge_slope(&self, growth: Growth, unit: &str, factor: f64) -> Promise {
        let end_s = self.points.last().map_or(0.0, |point| point.at_s);
        let from_s = (FILLS * end_s).max(FILLS_LEAST_S);
        let bound = growth.bound((end_s - from_s).max(1.0) / 60.0);
        let floors = floors(&self.points, from_s, EVERY.as_secs_f64());
        let slope = theil_sen(&floors).map(|slope| slope * 60.0 * factor);
        // The promise names a bound that was widened.
        let settled = match growth.per_minute {
            settled if settled < bound => format!(" ({settled:.0} from {:.0} min on)", growth.settled_minutes().ceil()),
            _ => String::new(),
        };
        let ends = floors.first().zip(floors.last());
        Promise {
            what: self.name,
            promised: format!("at most {bound:.1} {unit} more per minute{settled}"),
            measured: match (slope, ends) {
                (Some(slope), Some((first, last))) => format!("{slope:+.1} ({:.1} to {:.1})", first.value, last.value),
                _ => "?".into(),
            },
            // A process that was never seen proves nothing, so it fails.
            holds: slope.is_some_and(|slope| slope <= bound) && floors.iter().all(|floor| floor.value > 0.0),
        }
    }

    /// Linear memory never shrinks, and grows by whole pages, so the number itself is bounded.
    fn judge_pages(&self) -> Promise {
        let len = self.points.len();
        let least = |points: &[Point]| points.iter().map(|point| point.value).reduce(f64::min);
        let (before, after) = (least(&self.points[len / 4..len / 2]), least(&self.points[3 * len / 4..]));
        let show = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.0}"));
        Promise {
            what: self.name,
            promised: format!("at most {PAGES} page of 64 KiB more"),
            measured: format!("{}, then {}", show(before), show(after)),
            holds: before.zip(after).is_some_and(|(before, after)| before > 0.0 && after <= before + PAGES),
        }
    }
}

/// The value once it has not changed for `calm`, or the value after `limit` if it keeps changing.
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

/// Whether the number of file descriptors falls to what it was before the first request, within
/// `limit` after the last one. Descriptors left then are neither connections in use nor kept by a
/// pool.
pub async fn idle_again(before: f64, limit: Duration, descriptors: impl Fn() -> f64) -> Promise {
    let (allowed, ends) = (before + LEFT_OPEN, Instant::now() + limit);
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

/// Resident memory of these processes in MiB; a process that has ended counts as zero.
pub fn resident_mib(processes: &[u32]) -> f64 {
    let kib = |id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    processes.iter().filter_map(kib).sum::<f64>() / 1024.0
}

/// Open file descriptors of these processes.
pub fn descriptors(processes: &[u32]) -> f64 {
    let open = |id: &u32| std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
    processes.iter().map(open).sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: f64 = 30.0;

    /// A reading every three seconds for this many minutes; `value` gets the minute.
    fn series(unit: Unit, minutes: f64, value: impl Fn(f64) -> f64) -> Series {
        let looks = (1..=(minutes * 20.0) as u32).map(|look| f64::from(look) * 3.0);
        let points = looks.map(|at_s| Point { at_s, value: value(at_s / 60.0) }).collect();
        Series { name: "x", unit, points }
    }

    fn holds(unit: Unit, value: impl Fn(f64) -> f64) -> bool {
        series(unit, MINUTES, value).judge().unwrap().holds
    }

    #[test]
    fn detects_slow_steady_growth() {
        // 64 bytes for each of 300 requests per second.
        let leak_mib = 64.0 * 300.0 * 60.0 / f64::from(1 << 20);
        assert!(!holds(Unit::Mib, |minute| 600.0 + leak_mib * minute));
        // A fifth of that: 3.3 of 600 MiB from the second quarter to the last, less than 1%.
        assert!(!holds(Unit::Mib, |minute| 600.0 + leak_mib * minute / 5.0));
        assert!(!holds(Unit::Descriptors, |minute| (500.0 + 3.0 * minute).floor()), "one in twenty seconds");
        assert!(!holds(Unit::Pages, |minute| (18.0 + minute / 5.0).floor()));
    }

    #[test]
    fn ignores_growth_at_the_start_of_a_run() {
        let filled = |minute: f64| (minute / 7.0).min(1.0);
        assert!(holds(Unit::Mib, |minute| 300.0 + 300.0 * filled(minute)));
        assert!(holds(Unit::Descriptors, |minute| 100.0 + 400.0 * filled(minute)));
        assert!(holds(Unit::Pages, |minute| (10.0 + 8.0 * filled(minute)).floor()));
        assert!(!holds(Unit::Mib, |minute| 300.0 + 10.0 * minute), "growth that never ends is a leak");
        let first_bursts = |minute: f64| 538.0 + 15.0 * (minute * 3.0 + 0.5).floor().min(3.0);
        assert!(
            series(Unit::Mib, 3.0, first_bursts).judge().unwrap().holds,
            "the first quarter of 3 minutes is too short"
        );
    }

    #[test]
    fn noise_is_no_growth() {
        // Bursts for a third of the time, and a block that an allocator takes once and keeps.
        let burst = |minute: f64| if (minute * 3.0).fract() < 0.34 { 1.0 } else { 0.0 };
        let late = |minute: f64| if minute > 20.0 { 1.0 } else { 0.0 };
        assert!(holds(Unit::Mib, |minute| 600.0 + 30.0 * burst(minute) + 3.0 * late(minute)));
        assert!(holds(Unit::Descriptors, |minute| 500.0 + 200.0 * burst(minute) + 6.0 * late(minute)));
        assert!(holds(Unit::Pages, |minute| 18.0 + late(minute)));
        let drift = |minute: f64| 600.0 + 0.1 * minute + (minute * 7.0).sin();
        assert!(holds(Unit::Mib, drift), "102 KiB per minute are within the bound");
    }

    #[test]
    fn a_short_run_has_a_wider_bound_and_says_so() {
        let judge = |minutes, slope| series(Unit::Mib, minutes, |minute| 600.0 + slope * minute).judge().unwrap();
        assert!(judge(3.0, 1.2).holds && !judge(3.0, 1.5).holds);
        assert_eq!(judge(3.0, 0.0).promised, "at most 1365.3 KiB more per minute (128 from 22 min on)");
        assert_eq!(judge(30.0, 0.0).promised, "at most 128.0 KiB more per minute");
        assert_eq!(judge(30.0, 0.5).measured, "+512.0 (603.8 to 614.8)");
    }

    #[test]
    fn a_quantity_that_was_never_seen_fails() {
        for unit in [Unit::Mib, Unit::Descriptors, Unit::Pages] {
            assert!(holds(unit, |_| 5.0));
            assert!(!holds(unit, |_| 0.0), "{unit:?}");
            assert!(!Series { name: "x", unit, points: vec![] }.judge().unwrap().holds, "{unit:?}");
            assert!(!series(unit, 0.1, |_| 0.0).judge().unwrap().holds, "{unit:?}");
        }
        assert!(!holds(Unit::Mib, |minute| if minute > 20.0 { 0.0 } else { 5.0 }), "it ended");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_connections_to_close_and_fails_if_some_stay_open() {
        let from = Instant::now();
        let closing = || (100.0 - from.elapsed().as_secs_f64() * 10.0).max(20.0);
        assert!(idle_again(20.0, Duration::from_secs(20), closing).await.holds);
        let left = || closing() + 5.0;
        assert!(!idle_again(20.0, Duration::from_secs(20), left).await.holds);
        assert!(!idle_again(0.0, Duration::from_secs(20), || 0.0).await.holds, "nothing was seen");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_a_steady_value_up_to_a_limit() {
        let (from, calm, limit) = (Instant::now(), Duration::from_secs(3), Duration::from_secs(20));
        let opening = || from.elapsed().as_secs_f64().min(5.0).floor();
        assert_eq!(steady(calm, limit, opening).await, 5.0);
        let from = Instant::now();
        let growing = || from.elapsed().as_secs_f64();
        assert!(steady(calm, limit, growing).await >= 19.0);
        assert!(from.elapsed() < limit + calm);
    }

    #[test]
    fn reads_memory_and_descriptors_of_this_process() {
        let own = [std::process::id()];
        assert!(resident_mib(&own) > 1.0 && descriptors(&own) >= 3.0);
        assert_eq!(resident_mib(&[u32::MAX]), 0.0);
    }
}
