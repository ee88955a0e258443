//! CPU time per request of a pod: `c = d(used) / d(departed)`, in microseconds.
//!
//! An agent reports how much CPU time a pod has used, a proxy how many requests it has answered. A
//! replica hears every agent, but only those proxy reports whose polls it answers. It therefore
//! divides over the time spans of those reports; the [`History`] gives the CPU time at their begin
//! and end. Reports accumulate until they have [`LEAST_DEPARTED`] answers. After [`LONGEST`] they
//! are dropped. They are also dropped if the pod used less than [`LEAST_SHARE`] of its quotas
//! meanwhile: CPU was not the limit, and work outside requests would count too much. Otherwise the
//! ratio moves the estimate by `1 - 2^(-t / 10 s)`, where `t` is the time since the previous ratio.
//!
//! The ratio includes all work of the pod. It is too high if background work takes half of the
//! quotas. The pod then gets less load than it could serve, until requests take half.
//!
//! Cold start: no estimate. A restart of the containers drops what is not divided yet, and keeps
//! the estimate. Escra (ICDCS 2022) has no such estimate.

use super::history::{History, Sums};
use std::time::Duration;
use tokio::time::Instant;

/// The fewest answers that make a ratio.
const LEAST_DEPARTED: u64 = 20;
/// The least share of its quotas that the pod must have used.
const LEAST_SHARE: f64 = 0.5;
/// The longest time over which reports with fewer answers accumulate.
const LONGEST: Duration = Duration::from_secs(10);
/// After this time a ratio has half of its weight.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// The largest plausible CPU time of a request: 1,000 s.
const MOST_US: f64 = 1e9;
/// The most reports that wait for the agent's next message.
pub const MOST_WAITING: usize = 16;

/// A report: `departed` requests were answered in this time.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    to: Instant,
    departed: u64,
}

/// What is not divided yet.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    used: f64,
    offered: f64,
    departed: u64,
    time: Duration,
}

/// The estimate for one pod.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Reports whose time the agent's messages do not cover yet.
    waiting: Vec<Span>,
    sum: Sum,
    /// The estimate, and the end of the last report in it.
    estimate: Option<(f64, Instant)>,
}

impl Cost {
    /// CPU time per request, in microseconds; `None`: unknown.
    pub fn micros(&self) -> Option<f64> {
        self.estimate.map(|(micros, _)| micros)
    }

    /// The pod answered `departed` requests in the `time` until `to`.
    pub fn count(&mut self, departed: u64, time: Duration, to: Instant, history: &History) {
        // A proxy sends `time`, and it may exceed the machine's uptime.
        let Some(from) = to.checked_sub(time) else { return };
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.remove(0);
        }
        self.waiting.push(Span { from, to, departed });
        self.divide(history);
    }

    /// The history has a new sample.
    pub fn divide(&mut self, history: &History) {
        let Some(end) = history.end() else { return };
        let known: Vec<Span> = self.waiting.extract_if(.., |span| span.to <= end).collect();
        for span in known {
            if let (Some(before), Some(after)) = (history.at(span.from), history.at(span.to)) {
                self.add(before, after, span);
            }
        }
    }

    /// The containers are new: drops what the old ones have left undivided.
    pub fn restart(&mut self) {
        self.waiting.clear();
        self.sum = Sum::default();
    }

    fn add(&mut self, before: Sums, after: Sums, span: Span) {
        self.sum.used += after.used - before.used;
        self.sum.offered += after.offered - before.offered;
        self.sum.departed = self.sum.departed.saturating_add(span.departed);
        self.sum.time += span.to - span.from;
        if self.sum.departed >= LEAST_DEPARTED {
            if self.sum.used >= LEAST_SHARE * self.sum.offered {
                self.learn(1e6 * self.sum.used / self.sum.departed as f64, span.to);
            }
            self.sum = Sum::default();
        } else if self.sum.time >= LONGEST {
            self.sum = Sum::default();
        }
    }

    fn learn(&mut self, micros: f64, now: Instant) {
        if !(micros > 0.0 && micros <= MOST_US) {
            return;
        }
        let moved = self.estimate.map_or(micros, |(before, at)| {
            let time = now.saturating_duration_since(at).as_secs_f64();
            let weight = 1.0 - (-time / HALF_LIFE.as_secs_f64()).exp2();
            before + weight * (micros - before)
        });
        self.estimate = Some((moved, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that an agent and a proxy report on.
    struct Pod {
        start: Instant,
        cores: Option<f64>,
        history: History,
        cost: Cost,
    }

    impl Pod {
        /// A pod that always uses more than half of its quota.
        fn new() -> Self {
            Self::of(Some(0.01))
        }

        fn of(cores: Option<f64>) -> Self {
            let history = History::new(Duration::from_millis(500));
            Self { start: Instant::now(), cores, history, cost: Cost::default() }
        }

        fn agent(&mut self, second: u64, used: f64) {
            if !self.history.add(used, self.cores, self.start + Duration::from_secs(second)) {
                self.cost.restart();
            }
            self.cost.divide(&self.history);
        }

        /// `departed` answers in the `seconds` until `second`.
        fn proxy(&mut self, second: u64, seconds: u64, departed: u64) {
            let to = self.start + Duration::from_secs(second);
            self.cost.count(departed, Duration::from_secs(seconds), to, &self.history);
        }

        fn micros(&self) -> Option<f64> {
            self.cost.micros()
        }
    }

    #[test]
    fn divides_the_cpu_time_of_a_report_by_its_answers() {
        let mut pod = Pod::new();
        for second in 1..=6 {
            pod.agent(second, 0.5 * second as f64);
        }
        pod.proxy(6, 5, 500);
        assert_eq!(pod.micros(), Some(5_000.0));
    }

    #[test]
    fn waits_for_the_message_about_the_end_of_a_report() {
        let mut pod = Pod::new();
        pod.agent(0, 10.0);
        pod.proxy(5, 5, 100);
        pod.agent(4, 12.0);
        assert_eq!(pod.micros(), None);
        pod.agent(6, 13.0);
        assert_eq!(pod.micros(), Some(25_000.0), "12.5 s at second 5, between the two messages");
    }

    #[test]
    fn counts_only_the_times_of_the_reports_that_it_heard() {
        let mut pod = Pod::new();
        // Another replica hears every other report.
        for second in 1..=20 {
            pod.agent(second, second as f64);
        }
        for second in [7, 17] {
            pod.proxy(second, 5, 1_000);
        }
        assert_eq!(pod.micros(), Some(5_000.0));
    }

    #[test]
    fn adds_reports_up_to_twenty_answers_unless_that_takes_ten_seconds() {
        let mut pod = Pod::new();
        for second in 0..=30 {
            pod.agent(second, second as f64);
        }
        pod.proxy(4, 4, 10);
        pod.proxy(8, 4, 9);
        assert_eq!(pod.micros(), None, "19 answers");
        pod.proxy(9, 1, 1);
        assert_eq!(pod.micros(), Some(450_000.0), "9 s for 20 answers");
        let mut pod = Pod { cost: Cost::default(), ..pod };
        pod.proxy(5, 5, 15);
        pod.proxy(10, 5, 4);
        pod.proxy(11, 1, 4);
        assert_eq!(pod.micros(), None, "the first 10 s are dropped");
        pod.proxy(12, 1, 16);
        assert_eq!(pod.micros(), Some(100_000.0), "2 s for 20 answers");
        let mut pod = Pod { cost: Cost::default(), ..pod };
        pod.proxy(30, 20, 20);
        assert_eq!(pod.micros(), Some(1_000_000.0), "one long report with enough answers");
    }

    #[test]
    fn learns_only_while_half_of_the_quota_is_used() {
        let mut pod = Pod::of(Some(1.0));
        for (second, used) in [(0, 0.0), (5, 2.5), (10, 4.75), (15, 7.25)] {
            pod.agent(second, used);
        }
        pod.proxy(5, 5, 20);
        assert_eq!(pod.micros(), Some(125_000.0), "2.5 s for 20 answers");
        pod.proxy(10, 5, 200);
        assert_eq!(pod.micros(), Some(125_000.0), "2.25 s of 5 s");
        pod.proxy(15, 5, 40);
        assert_eq!(pod.micros(), Some((125_000.0 + 62_500.0) / 2.0), "nothing is left of the report before");
        let mut pod = Pod::of(None);
        pod.agent(0, 0.0);
        pod.agent(5, 100.0);
        pod.proxy(5, 5, 100);
        assert_eq!(pod.micros(), None, "without a limit");
    }

    #[test]
    fn the_share_of_the_quota_is_that_of_all_reports_that_are_added_up() {
        for (used, cost) in [(1.0, Some(200_000.0)), (0.75, None)] {
            let mut pod = Pod::of(Some(1.0));
            pod.agent(0, 0.0);
            pod.agent(4, 3.0);
            pod.agent(8, 3.0 + used);
            pod.proxy(4, 4, 10);
            pod.proxy(8, 4, 10);
            assert_eq!(pod.micros(), cost, "{used}");
        }
    }

    #[test]
    fn a_ratio_has_half_of_its_weight_after_ten_seconds() {
        let mut pod = Pod::new();
        pod.agent(0, 0.0);
        pod.agent(5, 0.1);
        pod.agent(15, 0.1 + 10.0 * 0.03);
        pod.proxy(5, 5, 100);
        assert_eq!(pod.micros(), Some(1_000.0));
        pod.proxy(15, 10, 100);
        assert!((pod.micros().unwrap() - 2_000.0).abs() < 1e-6, "between 1,000 and 3,000: {:?}", pod.micros());
        pod.agent(35, 0.4 + 20.0 * 0.03);
        pod.proxy(35, 20, 200);
        assert!((pod.micros().unwrap() - 2_750.0).abs() < 1e-6, "a quarter of the way is left: {:?}", pod.micros());
    }

    #[test]
    fn a_restart_drops_what_is_not_divided_and_keeps_the_estimate() {
        let mut pod = Pod::new();
        pod.agent(0, 100.0);
        pod.agent(5, 101.0);
        pod.proxy(5, 5, 1_000);
        pod.proxy(5, 5, 19);
        pod.proxy(10, 5, 1_000);
        pod.agent(10, 0.1);
        assert_eq!(pod.micros(), Some(1_000.0));
        assert!(pod.cost.waiting.is_empty() && pod.cost.sum.departed == 0);
        pod.agent(15, 1.1);
        pod.proxy(15, 10, 1_000);
        assert_eq!(pod.micros(), Some(1_000.0), "it began before the restart");
        pod.proxy(15, 5, 500);
        assert!(pod.micros().unwrap() > 1_400.0, "{:?}", pod.micros());
    }

    #[test]
    fn ignores_what_cannot_be() {
        let mut pod = Pod::of(Some(4_000.0));
        pod.agent(0, 0.0);
        pod.agent(5, 0.0);
        pod.proxy(5, 0, 100);
        assert_eq!(pod.micros(), None, "no time at all");
        pod.agent(10, 20_020.0);
        pod.proxy(10, 5, 20);
        assert_eq!(pod.micros(), None, "more than 1,000 s for a request");
        pod.agent(15, 40_020.0);
        pod.proxy(15, 5, 20);
        assert_eq!(pod.micros(), Some(1e9), "1,000 s");
        pod.proxy(15, 1 << 40, 20);
        assert_eq!(pod.micros(), Some(1e9), "longer than the machine runs");
        for _ in 0..2 * MOST_WAITING {
            pod.proxy(20, 5, u64::MAX);
        }
        assert_eq!(pod.cost.waiting.len(), MOST_WAITING);
        pod.agent(20, 60_020.0);
        assert!(pod.micros().unwrap().is_finite());
    }
}
