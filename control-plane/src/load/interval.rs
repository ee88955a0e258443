//! How often a proxy that serves something reports its load.

use crate::clock::Clock;
use bloc_daemon::ranges::refused;
use bloc_policy::config::ConfigError;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which the poll of a proxy that serves something is held: `1s` to `60s`,
/// default `5s`.
///
/// Why 5 s: autoscalers look every 15 to 30 s, and 1,000 proxies send only 200 small requests a
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportInterval(Duration);

impl ReportInterval {
    pub fn get(self) -> Duration {
        self.0
    }

    /// The next moment at which the wall clock is a multiple of the interval since 1970: about the
    /// same at every replica.
    pub fn next(self, clock: &Clock, now: Instant) -> Instant {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        now + Duration::from_millis(millis - clock.unix_millis() % millis)
    }
}

impl Default for ReportInterval {
    fn default() -> Self {
        Self(Duration::from_secs(5))
    }
}

impl FromStr for ReportInterval {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let allowed = Duration::from_secs(1)..=Duration::from_secs(60);
        match humantime::parse_duration(text) {
            Ok(interval) if allowed.contains(&interval) => Ok(Self(interval)),
            _ => Err(refused("report interval", format!("{text:?}"), "1s to 60s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn aligns_report_times_to_the_wall_clock() {
        let now = Instant::now();
        let wait = |millis| {
            let clock = Clock::new(move || UNIX_EPOCH + Duration::from_millis(millis));
            ReportInterval::default().next(&clock, now).duration_since(now).as_millis()
        };
        assert_eq!((wait(1_000_001), wait(1_004_999), wait(1_005_000)), (4_999, 1, 5_000));
    }

    #[test]
    fn accepts_only_intervals_from_one_second_to_a_minute() {
        let seconds = |text: &str| text.parse::<ReportInterval>().map(|interval| interval.get().as_secs());
        assert_eq!((seconds("1s"), seconds("5s"), seconds("1m")), (Ok(1), Ok(5), Ok(60)));
        for text in ["999ms", "61s", "0s", "5", "", "-1s", "NaN"] {
            assert_eq!(
                seconds(text).unwrap_err().to_string(),
                format!("report interval: {text:?} is not allowed; allowed: 1s to 60s")
            );
        }
        assert_eq!("5s".parse(), Ok(ReportInterval::default()));
    }
}
