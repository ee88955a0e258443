//! Content of the CPU files.

use crate::cores::Cores;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The version of the kernel's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The number after a name that starts a line.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// CPU time that a group may use in each period. Both are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// None: unlimited.
    pub quota: Option<u64>,
    pub period: u64,
}

/// The smallest quota that the kernel accepts, in microseconds.
const LEAST_QUOTA: u64 = 1_000;

impl Bandwidth {
    /// This many cores in periods of this length, rounded down, but not below what the kernel
    /// accepts.
    pub fn of(cores: Cores, period: u64) -> Self {
        let micros = (cores.get() * period as f64) as u64;
        Self { quota: Some(micros.max(LEAST_QUOTA)), period }
    }

    /// The fewest cores that the kernel accepts in periods of this length.
    pub fn least(period: u64) -> Option<Cores> {
        Self { quota: Some(LEAST_QUOTA), period }.cores()
    }

    pub fn cores(self) -> Option<Cores> {
        self.quota.map(|quota| Cores::new(quota as f64 / self.period.max(1) as f64))
    }

    /// The quota in a period of another length, rounded up.
    pub fn quota_in(self, period: u64) -> Option<u64> {
        let quota = u128::from(self.quota?) * u128::from(period);
        Some(u64::try_from(quota.div_ceil(u128::from(self.period.max(1)))).unwrap_or(u64::MAX))
    }

    /// From `cpu.max` of version 2.
    pub fn from_max(text: &str) -> Option<Self> {
        let (quota, period) = text.trim().split_once(' ')?;
        Self::parse(quota, "max", period)
    }

    /// From the two files of version 1.
    pub fn from_v1(quota: &str, period: &str) -> Option<Self> {
        Self::parse(quota.trim(), "-1", period.trim())
    }

    fn parse(quota: &str, unlimited: &str, period: &str) -> Option<Self> {
        let quota = if quota == unlimited { None } else { Some(quota.parse().ok()?) };
        Some(Self { quota, period: period.parse().ok().filter(|period| *period > 0)? })
    }

    /// For `cpu.max`.
    pub fn to_max(self) -> String {
        let quota = self.quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
        format!("{quota} {}", self.period)
    }

    /// For `cpu.cfs_quota_us`.
    pub fn to_v1(self) -> String {
        self.quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string())
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cores() {
            Some(cores) => cores.fmt(f),
            None => f.write_str("max"),
        }
    }
}

/// What the kernel has counted since the group started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub used: Duration,
    /// Periods in which the group ran or was ready to run.
    pub periods: u64,
    /// Periods in which the group was throttled.
    pub throttled: u64,
}

impl Counters {
    /// Whether the text of `cpuacct.usage` shows the same use.
    pub(super) fn is_usage(self, text: &str) -> bool {
        text.trim().parse().is_ok_and(|nanos: u64| Duration::from_nanos(nanos) == self.used)
    }

    /// From `cpu.stat`, and for version 1 the text of `cpuacct.usage`.
    pub fn from_stat(stat: &str, usage: Option<&str>) -> Option<Self> {
        let field = |name| field(stat, name);
        let used = match usage {
            Some(nanos) => Duration::from_nanos(nanos.trim().parse().ok()?),
            None => Duration::from_micros(field("usage_usec")?),
        };
        // Without the CPU controller, version 2 has only the use.
        Some(Self { used, periods: field("nr_periods").unwrap_or(0), throttled: field("nr_throttled").unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_quotas_of_both_versions() {
        for (text, quota, period) in [("max 100000\n", None, 100_000), ("50000 100000\n", Some(50_000), 100_000)] {
            let bandwidth = Bandwidth::from_max(text).unwrap();
            assert_eq!(bandwidth, Bandwidth { quota, period });
            assert_eq!(bandwidth.to_max(), text.trim());
        }
        for (text, quota) in [("-1\n", None), ("25000\n", Some(25_000))] {
            let bandwidth = Bandwidth::from_v1(text, "50000\n").unwrap();
            assert_eq!(bandwidth, Bandwidth { quota, period: 50_000 });
            assert_eq!(bandwidth.to_v1(), text.trim());
        }
        for text in ["", "max", "50000", "x 100000", "50000 0", "-1 100000", "50000 x"] {
            assert_eq!(Bandwidth::from_max(text), None, "{text:?}");
        }
        for (quota, period) in [("", "100000"), ("max", "100000"), ("-2", "100000"), ("1", ""), ("1", "0")] {
            assert_eq!(Bandwidth::from_v1(quota, period), None, "{quota:?}, {period:?}");
        }
    }

    #[test]
    fn cores_are_rounded_down_to_microseconds_and_at_least_a_millisecond() {
        let micros = |cores, period| Bandwidth::of(Cores::new(cores), period).quota;
        assert_eq!(micros(0.5, 100_000), Some(50_000));
        assert_eq!(micros(0.123_456_7, 100_000), Some(12_345));
        assert_eq!(micros(0.005, 100_000), Some(1_000));
        assert_eq!(Bandwidth::of(Cores::new(1.5), 50_000).cores(), Some(Cores::new(1.5)));
        assert_eq!(Bandwidth { quota: None, period: 100_000 }.cores(), None);
    }

    #[test]
    fn quotas_of_different_periods_are_converted() {
        let of = |quota, period| Bandwidth { quota, period };
        assert_eq!(of(Some(50_000), 100_000).quota_in(50_000), Some(25_000));
        assert_eq!(of(Some(1), 3).quota_in(2), Some(1), "rounded up");
        assert_eq!(of(Some(u64::MAX), 1).quota_in(2), Some(u64::MAX));
        assert_eq!(of(None, 100_000).quota_in(50_000), None);
        assert_eq!(of(Some(50_000), 100_000).to_string(), "500m");
        assert_eq!(of(None, 100_000).to_string(), "max");
    }

    #[test]
    fn reads_the_statistics_of_both_versions() {
        let stat = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 7\nnr_throttled 3\nthrottled_usec 9\n";
        let counters = Counters { used: Duration::from_micros(1_500), periods: 7, throttled: 3 };
        assert_eq!(Counters::from_stat(stat, None), Some(counters));
        let v1 = "nr_periods 7\nnr_throttled 3\nthrottled_time 9000\n";
        assert_eq!(Counters::from_stat(v1, Some("1500000\n")), Some(counters));
        assert_eq!(Counters::from_stat(v1, None), None);
        assert_eq!(Counters::from_stat(v1, Some("x")), None);
        let without = Counters { used: Duration::from_micros(5), ..Counters::default() };
        assert_eq!(Counters::from_stat("usage_usec 5\n", None), Some(without));
    }
}
