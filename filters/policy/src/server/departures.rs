//! What a server measures of itself: departure rate, confidence and execution time (Mu, paper
//! section 4.3.1, algorithm 1), over intervals `T`.
//!
//! - Departure rate `R = departed / elapsed` (requests/s), smoothed: `Rs = 0.7 * Rs + 0.3 * R`. The
//!   paper gives no weight; 0.7 averages over some three intervals.
//! - Confidence (ratio): see [`Departures::confidence`]. Execution time (s): see [`Execution`].
//! - `T` (s) starts as 1. When `10 * execution time` is below `T / 2` or above `2 * T`, it becomes
//!   `clamp(10 * execution time, 0.1, 10)`.

use crate::server::execution::Execution;
use crate::units::{Concurrency, Ratio, Timestamp};
use std::time::Duration;

const RATE_MEMORY: f64 = 0.7;
const START_INTERVAL: Duration = Duration::from_secs(1);
const LEAST_INTERVAL: f64 = 0.1;
const MOST_INTERVAL: f64 = 10.0;

/// Requests that have left the server since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All.
    pub departed: u64,
    /// The confident ones.
    pub confident: u64,
}

/// What a request keeps of the queue that it met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flag {
    /// How often the queue had run empty; none if nobody waited.
    emptied: Option<u32>,
    /// If the queue is inside the application:
    /// [`Work::seconds`](crate::server::work::Work::seconds) on arrival.
    pub(crate) work: Option<f64>,
    /// Requests in the server on arrival.
    pub(crate) others: Concurrency,
    pub(crate) bid: bool,
}

/// Algorithm 1, with these deviations:
/// 1. the bounds of `T` are corrected (the paper exchanges `min` and `max`);
/// 2. an interval ends with the first event after its end, so the rate uses the elapsed time;
/// 3. all threads of an Envoy add to the totals, and each thread smooths them for itself. A thread
///    resets the flags of its requests when it sees the queue empty;
/// 4. an idle interval does not forget the execution time (line 19), which the next requests need.
///    The time ages instead, since a server that wrongly seems slow is asked ever more rarely.
#[derive(Clone, Debug)]
pub struct Departures {
    interval: Duration,
    began: Option<Timestamp>,
    counted: Totals,
    /// Requests per second.
    rate: Option<f64>,
    confidence: Ratio,
    execution: Execution,
    /// When a measured request last departed.
    departed: Timestamp,
    emptied: u32,
}

impl Default for Departures {
    fn default() -> Self {
        Self {
            interval: START_INTERVAL,
            began: None,
            counted: Totals::default(),
            rate: None,
            confidence: Ratio::default(),
            execution: Execution::default(),
            departed: Timestamp::ZERO,
            emptied: 0,
        }
    }
}

impl Departures {
    /// A request arrives and meets `queue` waiting requests (lines 1 to 5).
    pub fn arrive(&self, queue: u32) -> Flag {
        Flag { emptied: (queue > 0).then_some(self.emptied), work: None, others: Concurrency::new(0), bid: false }
    }

    /// A request was answered `took` after the hand-over, and `queue` are waiting. It took `work`
    /// seconds of one of the `places`, if known. Returns whether it was confident (lines 6 to 16).
    pub fn depart(
        &mut self,
        flag: Flag,
        took: Duration,
        (work, places): (Option<f64>, Concurrency),
        queue: u32,
        now: Timestamp,
    ) -> bool {
        let confident = flag.emptied == Some(self.emptied);
        if queue == 0 {
            self.emptied = self.emptied.wrapping_add(1);
        }
        if let Some(work) = work {
            self.execution.idle(now.since(self.departed).saturating_sub(took));
            self.departed = now;
            self.execution.observe(work, places);
        }
        let mean = self.execution.mean().unwrap_or_default();
        let (wanted, interval) = (10.0 * mean, self.interval.as_secs_f64());
        if wanted > 2.0 * interval || wanted < interval / 2.0 {
            self.interval = Duration::from_secs_f64(wanted.clamp(LEAST_INTERVAL, MOST_INTERVAL));
        }
        confident
    }

    /// Whether the interval is over, and [`measure`](Self::measure) would end it.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.began.is_none_or(|began| now.since(began) >= self.interval)
    }

    /// Ends the interval if it is over (lines 17 to 32). `executing`: the application has a
    /// request. Call this at each event, and at least a few times a second. An idle interval
    /// forgets the rate and halves a `T` above 1 s.
    pub fn measure(&mut self, totals: Totals, executing: bool, now: Timestamp) {
        let Some(began) = self.began else {
            (self.began, self.counted) = (Some(now), totals);
            return;
        };
        if !self.is_due(now) {
            return;
        }
        let elapsed = now.since(began);
        let departed = totals.departed.saturating_sub(self.counted.departed);
        let confident = totals.confident.saturating_sub(self.counted.confident);
        (self.began, self.counted) = (Some(now), totals);
        if departed == 0 && !executing {
            (self.rate, self.confidence) = (None, Ratio::default());
            self.interval = (self.interval / 2).max(START_INTERVAL).min(self.interval);
            return;
        }
        let rate = departed as f64 / elapsed.as_secs_f64();
        self.rate = Some(self.rate().map_or(rate, |mean| RATE_MEMORY * mean + (1.0 - RATE_MEMORY) * rate));
        self.confidence = Ratio::new(confident as f64 / departed as f64).unwrap_or_default();
    }

    /// The smoothed departure rate in requests per second; none before the first departures.
    pub fn rate(&self) -> Option<f64> {
        self.rate.filter(|rate| *rate > 0.0)
    }

    /// The share of confident departures in the last interval, 0 to 1. A request is confident if
    /// others waited when it arrived, and the queue did not run empty before its answer. The server
    /// was then always busy, so its departure rate was its service rate.
    pub fn confidence(&self) -> Ratio {
        self.confidence
    }

    /// The mean execution time: how long a request takes one of the application's places.
    pub fn execution(&self) -> Option<Duration> {
        self.mean().map(Duration::from_secs_f64)
    }

    /// The same in seconds.
    pub fn mean(&self) -> Option<f64> {
        self.execution.mean()
    }

    /// The execution time in seconds, compared with a fleet's: the own one as far as it surely
    /// differs from `fleet`. Certainty decays with the time since the last measured answer.
    pub fn execution_in(&self, fleet: f64, now: Timestamp) -> Option<f64> {
        let own = Duration::from_secs_f64(self.mean()?);
        self.execution.among(fleet, now.since(self.departed).saturating_sub(own))
    }

    /// Whether the server is surely slower than this fleet, as of its last answer.
    pub fn is_slower_than(&self, fleet: f64) -> bool {
        self.execution.among(fleet, Duration::ZERO) > Some(fleet)
    }

    /// Whether this response time says nothing about the execution time.
    pub fn is_outlier(&self, seconds: f64) -> bool {
        self.execution.is_outlier(seconds)
    }

    /// Whether the last measured request has revealed a change of the execution time.
    pub fn has_changed(&self) -> bool {
        self.execution.has_changed()
    }

    /// The squared coefficient of variation of the execution times; NaN if nothing is known.
    pub fn noise(&self) -> f64 {
        self.execution.noise()
    }

    /// Corrects all execution times so far by this factor.
    pub fn scale(&mut self, by: f64) {
        self.execution.scale(by);
    }

    /// The measuring interval in force.
    pub fn interval(&self) -> Duration {
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    /// A request has been answered after `millis`, without a wait.
    fn depart(departures: &mut Departures, flag: Flag, millis: u64, queue: u32, now: u64) -> bool {
        let took = Duration::from_millis(millis);
        departures.depart(flag, took, (Some(took.as_secs_f64()), Concurrency::new(1)), queue, at(now))
    }

    /// A server that works on one request at a time, `service` ms each, with arrivals every `gap`
    /// ms; what it has measured after `millis`.
    fn run(service: u64, gap: u64, millis: u64) -> Departures {
        let (mut departures, mut totals) = (Departures::default(), Totals::default());
        let mut queue: VecDeque<Flag> = VecDeque::new();
        let mut executing: Option<(Flag, u64)> = None;
        for now in 0..millis {
            if let Some((flag, since)) = executing
                && now - since >= service
            {
                let confident = depart(&mut departures, flag, service, queue.len() as u32, now);
                totals.departed += 1;
                totals.confident += u64::from(confident);
                executing = queue.pop_front().map(|flag| (flag, now));
            }
            if now % gap == 0 {
                let flag = departures.arrive(queue.len() as u32);
                if executing.is_none() {
                    executing = Some((flag, now));
                } else {
                    queue.push_back(flag);
                }
            }
            departures.measure(totals, executing.is_some(), at(now));
        }
        departures
    }

    #[test]
    fn a_busy_server_measures_its_service_rate_with_full_confidence() {
        let busy = run(50, 40, 20_000);
        assert!((busy.rate().unwrap() - 20.0).abs() < 0.5, "{busy:?}");
        assert_eq!(busy.confidence(), Ratio::ONE);
        assert_eq!(busy.execution(), Some(Duration::from_millis(50)));
        assert_eq!(
            busy.interval(),
            Duration::from_secs(1),
            "10 * 50 ms lies within half and double of the first second"
        );
    }

    #[test]
    fn an_underloaded_server_measures_its_arrivals_without_confidence() {
        let idle = run(50, 200, 20_000);
        assert!((idle.rate().unwrap() - 5.0).abs() < 0.2, "{idle:?}");
        assert_eq!(idle.confidence(), Ratio::default());
    }

    #[test]
    fn the_interval_follows_the_execution_time_within_its_bounds() {
        assert_eq!(run(5, 10, 3_000).interval(), Duration::from_millis(100), "10 * 5 ms, but at least 100 ms");
        assert_eq!(run(300, 400, 9_000).interval(), Duration::from_secs(3));
        assert_eq!(run(2_000, 2_500, 60_000).interval(), Duration::from_secs(10), "10 * 2 s, but at most 10 s");
    }

    #[test]
    fn keeps_the_interval_while_ten_executions_take_half_to_twice_as_long() {
        let again = |departures: &mut Departures, millis| {
            let (flag, now) = (departures.arrive(0), departures.departed.as_nanos() / 1_000_000);
            depart(departures, flag, millis, 0, now);
        };
        let mut departures = Departures::default();
        again(&mut departures, 200);
        assert_eq!(departures.interval(), Duration::from_secs(1), "2 s is double, and not more");
        let mut departures = run(300, 400, 9_000);
        (0..200).for_each(|_| again(&mut departures, 400));
        assert!(departures.execution().unwrap() > Duration::from_millis(399));
        assert_eq!(departures.interval(), Duration::from_secs(3));
    }

    #[test]
    fn the_rate_uses_the_elapsed_time_and_is_smoothed() {
        let mut departures = Departures::default();
        let mut measure = |departed, now| {
            departures.measure(Totals { departed, confident: 0 }, true, at(now));
            departures.rate()
        };
        assert_eq!(measure(0, 0), None);
        assert_eq!(measure(20, 2_000), Some(10.0), "the event that ends the interval comes late");
        let smoothed = measure(40, 3_000).unwrap();
        assert!((smoothed - 13.0).abs() < 1e-9, "0.7 * 10 + 0.3 * 20: {smoothed}");
    }

    #[test]
    fn an_idle_interval_forgets_the_rate_and_shortens_the_interval() {
        let mut departures = run(300, 400, 9_000);
        let totals = departures.counted;
        for second in 0..10 {
            departures.measure(totals, false, at(9_000 + 3_000 + second * 3_000));
        }
        assert_eq!((departures.rate(), departures.execution()), (None, Some(Duration::from_millis(300))));
        assert_eq!(departures.interval(), Duration::from_secs(1));
    }

    #[test]
    fn the_rate_is_unknown_before_the_first_interval_ends() {
        let mut departures = Departures::default();
        departures.measure(Totals::default(), false, at(0));
        let flag = departures.arrive(0);
        depart(&mut departures, flag, 100, 0, 100);
        departures.measure(Totals { departed: 1, confident: 0 }, false, at(900));
        assert_eq!(departures.rate(), None);
        departures.measure(Totals { departed: 1, confident: 0 }, false, at(1_000));
        assert_eq!(departures.rate(), Some(1.0));
    }

    #[test]
    fn an_interval_without_departures_restarts_the_average() {
        let mut departures = Departures::default();
        departures.measure(Totals::default(), true, at(0));
        // One request takes its time; then there are four a second.
        departures.measure(Totals::default(), true, at(1_000));
        departures.measure(Totals { departed: 4, confident: 0 }, true, at(2_000));
        assert_eq!(departures.rate(), Some(4.0));
    }

    #[test]
    fn an_old_execution_time_counts_for_less_after_idle_time() {
        let answer = |departures: &mut Departures, millis, now| {
            let flag = departures.arrive(0);
            depart(departures, flag, millis, 0, now);
            departures.execution().unwrap()
        };
        let mut departures = run(50, 100, 20_000);
        let slow = answer(&mut departures, 2_500, 22_450);
        assert_eq!(slow, Duration::from_micros(111_250), "it counts as one of forty");
        let execution = answer(&mut departures, 50, 42_500);
        assert!(execution < Duration::from_millis(60), "{execution:?} after 20 s without a request");
        // At a cold start the first requests count equally.
        let mut cold = Departures::default();
        for (number, millis) in (1..).zip([2_000, 50, 50, 50]) {
            answer(&mut cold, millis, 2_000 + 50 * number);
        }
        assert!(cold.execution().unwrap() < Duration::from_millis(560), "{:?}", cold.execution());
    }

    #[test]
    fn a_slow_server_is_the_less_sure_of_it_the_longer_it_has_not_answered() {
        let departures = run(100, 120, 60_000);
        let after = |fleet, millis| {
            let now = departures.departed.after(Duration::from_millis(millis));
            departures.execution_in(fleet, now)
        };
        let sure = after(0.05, 100).unwrap();
        assert!((0.09..0.1).contains(&sure), "{sure}");
        // Not sure by three standard errors of a tenth of the mean each, where the past counts for
        // less than 0.36 requests. The time of a request is not idle.
        assert_eq!([6_550, 6_750].map(|millis| after(0.05, millis) > Some(0.05)), [true, false]);
        assert_eq!(after(0.1, 0), Some(0.1), "it is like the fleet");
        assert!(after(0.3, 0) < Some(0.11), "it is faster");
        assert_eq!([0.05, 0.1, 0.3].map(|fleet| departures.is_slower_than(fleet)), [true, false, false]);
        assert_eq!(departures.noise(), 0.0);
        assert!(Departures::default().noise().is_nan());
        assert_eq!(Departures::default().execution_in(0.05, at(0)), None);
        assert!(!Departures::default().is_slower_than(0.05));
    }

    #[test]
    fn a_request_that_saw_the_queue_run_empty_is_not_confident() {
        let mut departures = Departures::default();
        let (first, second) = (departures.arrive(1), departures.arrive(2));
        assert!(depart(&mut departures, first, 1, 0, 1), "counted before the flags are reset, lines 7 to 12");
        assert!(!depart(&mut departures, second, 1, 0, 1));
        assert!(!depart(
            &mut departures,
            Flag { emptied: None, work: None, others: Concurrency::new(0), bid: false },
            1,
            5,
            1
        ));
    }
}
