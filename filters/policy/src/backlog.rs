//! How long a server is likely to keep a request waiting, as far as a sender that is
//! [alone](crate::company) can know.
//!
//! `n`: this sender's requests there. `S` (s): the execution time that the server reports; `mu`
//! (requests/s): the service rate that it reports, or less if its answers come much slower
//! ([`crate::estimate`]). So it works on `C = mu * S` requests at once, rounded to a whole
//! number. `L`: how many executions
//! are left of the `n`. While nothing ends, `L` falls by `min(n, C) / S` a second. It is never
//! below `n - C`, since so many have not begun, nor above `n`.
//!
//! `line = max(n - C + 0.625 + (L - (n - C / 2)) / 2, 0)` if `n >= C`, else 0
//!
//! `cost = (line + 0.075 * (C + n)) / mu`
//!
//! The first part is the wait. On average, half of an execution is left of a request that is
//! worked on. `L` says more where execution times hardly vary, and nothing where they are
//! exponential, so half of what it says counts. Each answer moves it by `1 / 2C` of the way to the
//! mean, because a small error of `S` adds up.
//!
//! The second part is 7.5% of the execution time, up to 15% where the places are taken. It decides
//! where nothing waits: a fast server first, and of equal servers the one that has less to do. The
//! divisor `mu` is rounded to steps of 3 to 6%, as with Mu. Otherwise equal servers would differ by
//! what each measures of itself.
//!
//! A server that was not heard of for 10 s, and has no request of this sender, has no cost. So
//! it is tried anew, and may have become faster.
//!
//! What was tried is in `filters/adr/0023-a-caller-that-is-alone.md`. Cost: some ten
//! multiplications for each server that is looked at.

use crate::estimate::rounded;
use crate::units::Timestamp;
use std::time::Duration;

/// What a request that is worked on adds to the cost, as a share of one that waits.
const AT_WORK: f64 = 0.075;
/// How much of a request the next one waits for where all places are taken and nothing waits.
const FIRST: f64 = 0.625;
/// What is left of a request that is worked on, on average, and how far the own count is believed.
const HALF: f64 = 0.5;
/// How far each answer moves the count of what is left towards its mean, times the places.
const PULL: f64 = 0.5;
/// After this time without an answer the speed of a server is not known any more.
pub const FORGOTTEN: Duration = Duration::from_secs(10);

/// How fast a server is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// The execution time, in seconds.
    pub execution: f64,
    /// The service rate, in requests per second.
    pub rate: f64,
}

impl Speed {
    /// How many requests the server works on at once. A whole number: with 1.00001 places, from a
    /// report's rounded numbers, a server with one request would seem to have room.
    fn places(self) -> f64 {
        (self.execution * self.rate).round().max(1.0)
    }

    /// How many executions are left on average of `n` requests.
    fn usual(self, n: f64) -> f64 {
        (n - HALF * self.places()).max(HALF * n)
    }
}

/// What is left to do of a sender's requests at a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Backlog {
    /// Executions at `then`.
    left: f64,
    then: Timestamp,
}

impl Backlog {
    /// A request is sent there, where `pending` are already.
    pub fn add(&mut self, pending: u32, speed: Option<Speed>, now: Timestamp) {
        *self = Self { left: self.left(pending, speed, now) + 1.0, then: now };
    }

    /// One of the `pending` requests there has been answered.
    pub fn answered(&mut self, pending: u32, speed: Option<Speed>, now: Timestamp) {
        let left = self.left(pending, speed, now);
        let pull = speed.map_or(0.0, |speed| {
            let still = f64::from(pending.saturating_sub(1));
            PULL / speed.places() * (speed.usual(still) - left)
        });
        *self = Self { left: left + pull, then: now };
    }

    /// How many executions are left of `pending` requests; all where the speed is not known.
    fn left(&self, pending: u32, speed: Option<Speed>, now: Timestamp) -> f64 {
        let n = f64::from(pending);
        let Some(speed) = speed else { return n };
        let passed = now.nanos_since(self.then) as f64 * 1e-9;
        let left = self.left - passed * n.min(speed.places()) / speed.execution;
        left.min(n).max(n - speed.places()).max(0.0)
    }

    /// What says against sending a request there, where `pending` are, in seconds.
    pub fn cost(&self, pending: u32, speed: Speed, now: Timestamp) -> f64 {
        let (n, places) = (f64::from(pending), speed.places());
        let line = if n < places {
            0.0
        } else {
            let more = self.left(pending, Some(speed), now) - speed.usual(n);
            (n - places + FIRST + HALF * more).max(0.0)
        };
        (line + AT_WORK * (places + n)) / rounded(speed.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four places, 200 ms: one request is finished each 50 ms.
    const FOUR: Speed = Speed { execution: 0.2, rate: 20.0 };

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    /// A server to which so many requests were sent at once, at 0.
    fn filled(requests: u32) -> Backlog {
        let mut backlog = Backlog::default();
        (0..requests).for_each(|pending| backlog.add(pending, Some(FOUR), at(0)));
        backlog
    }

    #[track_caller]
    fn is(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} instead of {expected}");
    }

    #[test]
    fn a_free_place_costs_a_share_of_the_execution_time_that_grows_with_what_is_there() {
        for (pending, cost) in [(0, 0.015), (1, 0.01875), (3, 0.02625)] {
            is(filled(pending).cost(pending, FOUR, at(0)), cost);
        }
        let fast = Speed { execution: 0.1, rate: 40.0 };
        is(filled(3).cost(3, fast, at(0)), 0.013125);
        let one = |rate| Backlog::default().cost(0, Speed { execution: 1.0 / rate, rate }, at(0));
        is(one(4.0), 0.01875);
        is(one(4.1), one(4.0));
        is(one(3.95), one(4.0));
        assert!(one(4.2) < one(4.0));
    }

    #[test]
    fn a_report_whose_numbers_are_rounded_makes_no_place() {
        let cost = |pending, rate| filled(pending).cost(pending, Speed { execution: 0.050_123, rate }, at(0));
        for rate in [19.950, 19.951, 14.0] {
            assert!(cost(1, rate) > 0.035, "{rate}: {}", cost(1, rate));
        }
        is(cost(0, 19.950), cost(0, 19.951));
        is(cost(0, 5.0), 0.015);
    }

    #[test]
    fn beyond_the_places_the_wait_counts_by_what_is_left() {
        // All is left: 2 executions more than usual. Half of that counts.
        is(filled(4).cost(4, FOUR, at(0)), (0.625 + 1.0 + 0.6) / 20.0);
        is(filled(6).cost(6, FOUR, at(0)), (2.625 + 1.0 + 0.75) / 20.0);
        // After 100 ms half of the four that are worked on is left, as usual.
        is(filled(6).cost(6, FOUR, at(100)), (2.625 + 0.75) / 20.0);
        // After 150 ms 1 execution is left of them, and after 200 ms none should be.
        is(filled(6).cost(6, FOUR, at(150)), (2.625 - 0.5 + 0.75) / 20.0);
        for millis in [200, 300, 1_000_000] {
            is(filled(6).cost(6, FOUR, at(millis)), (2.625 - 1.0 + 0.75) / 20.0);
            is(filled(4).cost(4, FOUR, at(millis)), 0.6 / 20.0);
        }
        // Two are over, and no more is left than the other four.
        is(filled(6).cost(4, FOUR, at(0)), (0.625 + 1.0 + 0.6) / 20.0);
    }

    #[test]
    fn a_request_adds_one_to_what_is_left_by_then() {
        let mut backlog = filled(6);
        backlog.add(6, Some(FOUR), at(100));
        is(backlog.left, 5.0);
        // Of two requests, two are worked on.
        let mut backlog = filled(2);
        backlog.add(2, Some(FOUR), at(100));
        is(backlog.left, 2.0);
        is(backlog.left(3, Some(FOUR), at(150)), 1.25);
        assert_eq!(backlog.then, at(100));
    }

    #[test]
    fn an_answer_moves_what_is_left_towards_the_mean_by_half_of_a_place() {
        let mut backlog = filled(6);
        backlog.answered(6, Some(FOUR), at(50));
        // 5 were left. Of the 5 that remain it is usually 3.
        is(backlog.left, 5.0 - 2.0 / 8.0);
        assert_eq!(backlog.then, at(50));
        let mut backlog = filled(2);
        backlog.answered(2, Some(FOUR), at(0));
        is(backlog.left, 2.0 - 1.5 / 8.0);
        let one = Speed { execution: 0.2, rate: 5.0 };
        let mut backlog = filled(2);
        backlog.answered(2, Some(one), at(0));
        is(backlog.left, 1.25);
        let mut none = Backlog::default();
        none.answered(0, Some(FOUR), at(0));
        is(none.left, 0.0);
    }

    #[test]
    fn where_the_speed_is_not_known_all_is_left() {
        let mut backlog = Backlog::default();
        backlog.add(3, None, at(100));
        is(backlog.left, 4.0);
        backlog.answered(5, None, at(200));
        is(backlog.left, 5.0);
    }

    #[test]
    fn no_number_of_a_server_makes_the_cost_anything_but_a_number() {
        for execution in [1e-6, 0.2, 1e15] {
            for rate in [1e-6, 20.0, 1e15] {
                let speed = Speed { execution, rate };
                let mut backlog = Backlog::default();
                for pending in [0, 1, 5, u32::MAX] {
                    backlog.add(pending, Some(speed), at(5));
                    backlog.answered(pending, Some(speed), Timestamp::from_nanos(u64::MAX));
                    let cost = backlog.cost(pending, speed, Timestamp::ZERO);
                    assert!(cost.is_finite() && cost >= 0.0, "{execution}, {rate}, {pending}: {cost}");
                }
            }
        }
    }
}
