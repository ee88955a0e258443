//! The arrival rate of one server, from the reports of its proxy.
//!
//! **Newer proxies** count arrivals. Each report has the arrivals since the last report that a
//! replica counted, and the time that they took. [`Growth`] adds both up until the time is long
//! enough: half a report interval, or a tenth for the first rate. So the first report can give a
//! rate already, if it states its time.
//!
//! **Older proxies** count from their start and do not count arrivals. What has arrived has either
//! departed or is in flight, so over the time `T` (s) from a baseline report to this one
//!
//! ```text
//! rate = max(0, (departed + inFlight) - (departed + inFlight at the baseline)) / T       requests/s
//! ```
//!
//! - The first report is the baseline, so there is no rate before the second one.
//! - A report less than half an interval after the baseline (a poll that was answered early, a
//!   report sent twice) leaves the baseline in place: a handful of requests over a few milliseconds
//!   is no rate.
//! - A late report gives the mean over its longer time.
//! - A `departed` that has fallen means that the proxy restarted. That report is the new baseline,
//!   and the last rate stands until the next one. A report that overtook another looks the same;
//!   the next rate is then too high by what lay between the two.
//!
//! A rate beyond [`MAX_RATE`] is not believed: the last one stands, and counting starts anew.

use super::growth::{Growth, MAX_RATE};
use super::report::Since;
use bloc_policy::sync::ServiceLoad;
use std::time::Duration;
use tokio::time::Instant;

/// The counters of one server.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// When an older proxy's counters were last taken as the baseline, and its arrivals until then.
    baseline: Option<(Instant, u64)>,
    departed: u64,
    growth: Growth<1>,
    rate: Option<f64>,
}

impl Arrivals {
    /// Adds a report; `least_span` is the shortest time that makes a rate. A fifth of it is enough
    /// for the first rate of a newer proxy.
    pub fn hear(&mut self, load: &ServiceLoad, since: Since, least_span: Duration, now: Instant) {
        match since {
            Since::Start => self.hear_sums(load, least_span, now),
            Since::Counted(span) => {
                self.baseline = None;
                let least = least_span / if self.rate.is_none() { 5 } else { 1 };
                let rate = span.and_then(|span| self.growth.add([load.arrived], span, least));
                self.rate = rate.map(|[rate]| rate).or(self.rate);
            }
        }
    }

    fn hear_sums(&mut self, load: &ServiceLoad, least_span: Duration, now: Instant) {
        let Some((since, before)) = self.baseline else {
            (self.baseline, self.departed) = (Some((now, arrived(load))), load.departed);
            return;
        };
        let restarted = load.departed < self.departed;
        self.departed = load.departed;
        let span = now.saturating_duration_since(since);
        if span < least_span && !restarted {
            return;
        }
        let rate = arrived(load).saturating_sub(before) as f64 / span.as_secs_f64();
        if !restarted && rate <= MAX_RATE {
            self.rate = Some(rate);
        }
        self.baseline = Some((now, arrived(load)));
    }

    /// Requests per second, finite and at least 0; `None` before the first span.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }
}

fn arrived(load: &ServiceLoad) -> u64 {
    load.departed.saturating_add(load.in_flight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(2_500);

    /// The rates after each of `reports`: milliseconds, departed, in flight.
    fn rates(reports: &[(u64, u64, u64)]) -> Vec<Option<f64>> {
        let start = Instant::now();
        let load =
            |&(_, departed, in_flight): &(u64, u64, u64)| ServiceLoad { departed, in_flight, ..Default::default() };
        let mut arrivals = Arrivals::default();
        arrivals.hear(&load(&reports[0]), Since::Start, LEAST, start);
        let hear = |report: &(u64, u64, u64)| {
            arrivals.hear(&load(report), Since::Start, LEAST, start + Duration::from_millis(report.0));
            arrivals.rate()
        };
        reports[1..].iter().map(hear).collect()
    }

    #[test]
    fn counts_departed_and_in_flight_requests_as_arrivals() {
        assert_eq!(rates(&[(0, 1_000, 10), (5_000, 1_100, 60)]), [Some(30.0)]);
        assert_eq!(rates(&[(0, 0, 100), (5_000, 100, 0)]), [Some(0.0)], "the queue drains, nothing arrives");
        assert_eq!(rates(&[(0, 0, 100), (5_000, 20, 50)]), [Some(0.0)], "clients left");
    }

    #[test]
    fn gives_no_new_rate_for_a_duplicate_or_early_report() {
        let expected = [None, None, Some(20.0), Some(20.0)];
        assert_eq!(rates(&[(0, 0, 0), (0, 0, 0), (100, 90, 0), (5_000, 100, 0), (5_001, 100, 0)]), expected);
    }

    #[test]
    fn averages_the_rate_over_the_span_of_a_late_report() {
        assert_eq!(rates(&[(0, 0, 0), (5_000, 50, 0), (17_500, 300, 0)]), [Some(10.0), Some(20.0)]);
    }

    #[test]
    fn takes_a_new_baseline_when_the_proxy_restarts() {
        let reports = [(0, 1_000, 0), (5_000, 1_100, 0), (10_000, 7, 3), (15_000, 60, 0)];
        assert_eq!(rates(&reports), [Some(20.0), Some(20.0), Some(10.0)]);
        // Also if it shows against an early report only, and not against the baseline.
        assert_eq!(rates(&[(0, 100, 0), (1_000, 150, 0), (2_000, 120, 0), (7_000, 170, 0)]), [None, None, Some(10.0)]);
    }

    #[test]
    fn ignores_an_impossible_jump_of_a_counter() {
        let reports = [(0, 0, 0), (5_000, 100, 0), (10_000, 1 << 53, 0), (15_000, (1 << 53) + 50, 0)];
        assert_eq!(rates(&reports), [Some(20.0), Some(20.0), Some(10.0)]);
    }

    #[test]
    fn needs_no_earlier_report_when_the_proxy_states_the_time_span() {
        let (mut arrivals, start) = (Arrivals::default(), Instant::now());
        let mut hear = |arrived, millis: Option<u64>| {
            let load = ServiceLoad { arrived, departed: arrived, in_flight: 1_000, ..Default::default() };
            arrivals.hear(&load, Since::Counted(millis.map(Duration::from_millis)), LEAST, start);
            arrivals.rate()
        };
        assert_eq!(hear(9_000, None), None, "the time span is unknown");
        assert_eq!(hear(4, Some(400)), None, "too short for a first rate");
        assert_eq!(hear(6, Some(600)), Some(10.0));
        assert_eq!(hear(30, Some(1_000)), Some(10.0), "too short for another");
        assert_eq!(hear(45, Some(1_500)), Some(30.0));
        // An older control plane answered meanwhile, so the counters count from their start.
        arrivals.hear(&ServiceLoad { departed: 500, ..Default::default() }, Since::Start, LEAST, start);
        let later = start + Duration::from_secs(10);
        arrivals.hear(&ServiceLoad { departed: 700, ..Default::default() }, Since::Start, LEAST, later);
        assert_eq!(arrivals.rate(), Some(20.0));
    }
}
