//! CPU quota and use of a pod at moments of the last few report intervals. Both sums only grow.
//!
//! A new container of the same name or a jumping counter spoils samples. The history restarts if
//! CPU time falls or grows faster than [`MOST_GROWTH`] times the quota.

use bloc_daemon::cpu::MOST_CORES;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// The most samples. A tenth of a report interval apart, they cover three intervals: the one that a
/// report covers, and the one for which its poll is held.
pub const MOST_SAMPLES: usize = 32;
/// The shortest time for a use: over less, the delay of a message counts too much.
const LEAST_SPAN: Duration = Duration::from_secs(1);
/// Growth by more than this times the quota (at least one core) means other containers. A quota
/// bounds the use, but a message may be late.
const MOST_GROWTH: f64 = 2.0;

/// CPU in core seconds since a fixed moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    pub used: f64,
    /// What the quotas allowed.
    pub offered: f64,
}

/// The samples, the oldest first.
#[derive(Clone, Debug)]
pub struct History {
    /// Samples closer than this replace each other, except the last one.
    gap: Duration,
    samples: VecDeque<(Instant, Sums)>,
    /// The quota since the last sample.
    cores: f64,
}

impl History {
    /// Has no samples yet. Samples are kept for at least `MOST_SAMPLES * gap`.
    pub fn new(gap: Duration) -> Self {
        Self { gap, samples: VecDeque::new(), cores: 0.0 }
    }

    /// Adds a sample: CPU time in seconds, and the quota in cores (`None`: no limit). False if the
    /// containers must be others: the history restarts.
    pub fn add(&mut self, seconds: f64, cores: Option<f64>, now: Instant) -> bool {
        let cores = cores.unwrap_or(MOST_CORES);
        let (grows, offered) = self.samples.back().map_or((true, 0.0), |(at, last)| {
            let time = now.saturating_duration_since(*at).as_secs_f64();
            let most = MOST_GROWTH * self.cores.max(cores).max(1.0) * time;
            ((0.0..=most).contains(&(seconds - last.used)), last.offered + self.cores * time)
        });
        self.cores = cores;
        if !grows {
            self.samples.clear();
        }
        let mut last = self.samples.iter().rev().map(|(at, _)| *at);
        if let (Some(last), Some(before)) = (last.next(), last.next())
            && last.saturating_duration_since(before) < self.gap
        {
            self.samples.pop_back();
        }
        if self.samples.len() == MOST_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, Sums { used: seconds, offered }));
        grows
    }

    /// When the last sample was taken.
    pub fn end(&self) -> Option<Instant> {
        self.samples.back().map(|(at, _)| *at)
    }

    /// The sums at a moment, interpolated between samples; `None` outside of them.
    pub fn at(&self, moment: Instant) -> Option<Sums> {
        let next = self.samples.partition_point(|(at, _)| *at < moment);
        let (after, most) = *self.samples.get(next)?;
        let Some((before, least)) = next.checked_sub(1).and_then(|i| self.samples.get(i)) else {
            return (after == moment).then_some(most);
        };
        let share = (moment - *before).as_secs_f64() / (after - *before).as_secs_f64();
        let between = |least: f64, most: f64| least + (most - least) * share;
        Some(Sums { used: between(least.used, most.used), offered: between(least.offered, most.offered) })
    }

    /// The recent use in cores: over the last samples at least a second apart.
    pub fn cores(&self) -> Option<f64> {
        let (last, most) = *self.samples.back()?;
        let span = |at: &Instant| last.saturating_duration_since(*at);
        let (before, least) = self.samples.iter().rev().find(|(at, _)| span(at) >= LEAST_SPAN)?;
        Some((most.used - least.used) / span(before).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_millis(500);

    /// A history of `(milliseconds, CPU seconds)`, without a limit.
    fn history(start: Instant, samples: &[(u64, f64)]) -> History {
        let mut history = History::new(GAP);
        for (millis, seconds) in samples {
            history.add(*seconds, None, start + Duration::from_millis(*millis));
        }
        history
    }

    #[test]
    fn the_time_between_samples_is_in_proportion_and_outside_unknown() {
        let start = Instant::now();
        let history = history(start, &[(1_000, 10.0), (2_000, 12.0), (4_000, 13.0)]);
        let at = |millis| history.at(start + Duration::from_millis(millis)).map(|sums| sums.used);
        assert_eq!([at(999), at(1_000), at(1_250), at(2_000)], [None, Some(10.0), Some(10.5), Some(12.0)]);
        assert_eq!([at(3_000), at(4_000), at(4_001)], [Some(12.5), Some(13.0), None]);
        assert_eq!(history.end(), Some(start + Duration::from_secs(4)));
        assert_eq!((History::new(GAP).at(start), History::new(GAP).end()), (None, None));
    }

    #[test]
    fn a_quota_is_offered_until_the_next_message() {
        let start = Instant::now();
        let mut history = History::new(GAP);
        // The second message replaces none, the third replaces the second: they are too close.
        for (millis, cores) in [(0, Some(2.0)), (250, Some(4.0)), (500, Some(1.0)), (4_500, None), (6_500, Some(1.0))] {
            assert!(history.add(0.0, cores, start + Duration::from_millis(millis)));
        }
        let offered = |millis| history.at(start + Duration::from_millis(millis)).map(|sums| sums.offered);
        assert_eq!([offered(0), offered(500), offered(2_500)], [Some(0.0), Some(1.5), Some(3.5)]);
        assert_eq!([offered(4_500), offered(5_500)], [Some(5.5), Some(10_005.5)], "no limit: as many as there may be");
    }

    #[test]
    fn begins_anew_when_more_is_used_than_twice_the_quota() {
        let start = Instant::now();
        let grows = |before, after, seconds| {
            let mut history = History::new(GAP);
            history.add(7.0, before, start);
            let grows = history.add(7.0 + seconds, after, start + Duration::from_secs(2));
            assert_eq!(history.samples.len(), if grows { 2 } else { 1 });
            grows
        };
        for (before, after, most) in [(4.0, 2.0, 16.0), (2.0, 3.0, 12.0), (0.5, 0.25, 4.0)] {
            assert!(grows(Some(before), Some(after), most), "{before} {after}");
            assert!(!grows(Some(before), Some(after), most + 0.001), "{before} {after}");
        }
        assert!(grows(None, Some(1.0), 40_000.0) && grows(Some(1.0), None, 40_000.0), "there was no limit");
        assert!(!grows(None, None, 40_000.001));
        let mut history = History::new(GAP);
        assert!(history.add(1.0, Some(1.0), start) && history.add(1.0, Some(1.0), start), "twice the same");
        assert!(!history.add(1.001, Some(1.0), start), "in no time");
    }

    #[test]
    fn the_use_is_that_of_the_last_second_or_more() {
        let start = Instant::now();
        let cores = |samples: &[(u64, f64)]| history(start, samples).cores();
        assert_eq!(cores(&[]), None);
        assert_eq!(cores(&[(0, 5.0), (999, 6.0)]), None);
        assert_eq!(cores(&[(0, 5.0), (1_000, 5.5)]), Some(0.5));
        assert_eq!(cores(&[(0, 0.0), (5_000, 10.0), (5_500, 10.5), (6_500, 12.5)]), Some(2.0));
        assert_eq!(cores(&[(0, 5.0), (5_000, 15.0), (5_100, 15.2)]), Some(2.0));
    }

    #[test]
    fn keeps_samples_that_are_apart_and_the_last_one() {
        let start = Instant::now();
        let mut history = History::new(GAP);
        for tenth in 0..40_u32 {
            assert!(history.add(f64::from(tenth), None, start + Duration::from_millis(100) * tenth));
            assert_eq!(history.end(), Some(start + Duration::from_millis(100) * tenth));
        }
        let tenths: Vec<f64> = history.samples.iter().map(|(_, sums)| sums.used).collect();
        assert_eq!(tenths, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 39.0]);
        for second in 0..40_u32 {
            history.add(100.0, None, start + Duration::from_secs(10) + Duration::from_secs(1) * second);
        }
        assert_eq!(history.samples.len(), MOST_SAMPLES);
        assert_eq!(history.samples.front().unwrap().0, start + Duration::from_secs(18));
    }

    #[test]
    fn begins_anew_when_the_time_falls() {
        let start = Instant::now();
        let mut history = history(start, &[(0, 5.0), (1_000, 6.0)]);
        assert!(history.add(6.0, None, start + Duration::from_secs(2)), "idle");
        assert!(!history.add(0.5, None, start + Duration::from_secs(3)));
        assert_eq!((history.cores(), history.samples.len()), (None, 1));
    }
}
