//! What the files of groups say.

use std::time::Duration;

/// The kernel's default.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// More than this is no limit of memory.
const UNLIMITED: u64 = 1 << 62;

/// What the kernel has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// CPU time.
    pub used: Duration,
    /// Periods in which something ran or wanted to.
    pub periods: u64,
    /// Those in which it was throttled.
    pub throttled: u64,
}

pub(super) fn microseconds(cores: f64) -> u128 {
    PERIOD.mul_f64(cores.max(0.0)).as_micros()
}

/// `cpu.cfs_quota_us`, for the default period.
pub(super) fn quota_of_first(text: &str) -> Option<Option<f64>> {
    let quota: f64 = text.trim().parse().ok()?;
    Some((quota >= 0.0).then(|| quota / PERIOD.as_micros() as f64))
}

/// `cpu.max`.
pub(super) fn quota_of_second(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.trim().split_once(' ')?;
    let period: f64 = period.parse().ok()?;
    match quota {
        "max" => Some(None),
        quota => Some(Some(quota.parse::<f64>().ok()? / period)),
    }
}

/// `cpu.stat`; only that of v2 has the CPU time.
pub(super) fn counted(text: &str) -> Option<CpuCounters> {
    let value = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    };
    let used = Duration::from_micros(value("usage_usec").unwrap_or(0));
    Some(CpuCounters { used, periods: value("nr_periods")?, throttled: value("nr_throttled")? })
}

/// `memory.limit_in_bytes` or `memory.max`.
pub(super) fn memory_limit(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        "max" => Some(None),
        text => text.parse().ok().map(|limit| Some(limit).filter(|limit| *limit < UNLIMITED)),
    }
}

/// The number of a line, such as `oom_kill 3`.
pub(super) fn number_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quotas_and_counters_of_both_versions() {
        assert_eq!(quota_of_first("25000\n"), Some(Some(0.25)));
        assert_eq!((quota_of_first("-1\n"), quota_of_first("x")), (Some(None), None));
        assert_eq!(quota_of_second("25000 50000\n"), Some(Some(0.5)));
        assert_eq!((quota_of_second("max 100000\n"), quota_of_second("25000")), (Some(None), None));
        let first = "nr_periods 7\nnr_throttled 3\nthrottled_time 5\nnr_bursts 0\n";
        let read = CpuCounters { used: Duration::ZERO, periods: 7, throttled: 3 };
        assert_eq!((counted(first), counted("nr_periods 7\n")), (Some(read), None));
        let read = CpuCounters { used: Duration::from_micros(1_500), ..read };
        assert_eq!(counted(&format!("usage_usec 1500\nuser_usec 9\n{first}")), Some(read));
    }

    #[test]
    fn reads_limits_and_counters_of_memory() {
        assert_eq!(
            (memory_limit("max\n"), memory_limit("4096\n"), memory_limit("x")),
            (Some(None), Some(Some(4_096)), None)
        );
        assert_eq!(memory_limit("9223372036854771712\n"), Some(None));
        assert_eq!(memory_limit(&(UNLIMITED - 1).to_string()), Some(Some(UNLIMITED - 1)));
        assert_eq!(memory_limit(&UNLIMITED.to_string()), Some(None));
        let text = "under_oom 0\noom_kill 3\n";
        assert_eq!((number_of(text, "oom_kill"), number_of(text, "oom")), (Some(3), None));
    }
}
