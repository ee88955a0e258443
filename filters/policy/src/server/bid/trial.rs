//! How a server that is surely slower than the fleet finds out that it is not slow any more.
//!
//! It bounces bids although it has a free place, and is less sure with each second in which it
//! answers nothing that counts. Then it takes one request, a *trial*, and no other on a free place
//! until one has been answered, or the trial has left unanswered: many at once would be many slow
//! answers. A trial that has not ended after [`LONGEST`] is given up.
//!
//! While it bounces, only requests that made a bid count for the execution time: where the others
//! are heavier, such as uploads, the server would measure them alone, and stay slow for good.

use crate::units::Timestamp;
use std::time::Duration;

/// After so long a trial is given up, and a server that bounced nobody is not avoided any more.
const LONGEST: Duration = Duration::from_secs(10);

/// The trials of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trials {
    began: Option<Timestamp>,
    bounced: Option<Timestamp>,
}

/// Whether this was less than [`LONGEST`] ago.
fn is_recent(then: Option<Timestamp>, now: Timestamp) -> bool {
    then.is_some_and(|then| now.since(then) < LONGEST)
}

impl Trials {
    /// A request could begin a trial. Returns whether it does.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let begins = !is_recent(self.began, now);
        if begins {
            self.began = Some(now);
        }
        begins
    }

    /// A request has been answered.
    pub fn end(&mut self) {
        self.began = None;
    }

    /// The request that came at `arrived` has left without an answer. Others say nothing.
    pub fn leave(&mut self, arrived: Timestamp) {
        self.began = self.began.filter(|began| *began != arrived);
    }

    /// A request was bounced from a free place.
    pub fn bounced(&mut self, now: Timestamp) {
        self.bounced = Some(now);
    }

    /// Whether the server bounces requests from free places now.
    pub fn bounces(&self, now: Timestamp) -> bool {
        is_recent(self.bounced, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn one_trial_at_a_time_for_ten_seconds_at_most() {
        let mut trials = Trials::default();
        assert_eq!([5, 6, 10_004].map(|now| trials.begin(at(now))), [true, false, false]);
        assert_eq!([10_005, 10_006].map(|now| trials.begin(at(now))), [true, false]);
        trials.end();
        assert!(trials.begin(at(10_007)));
        trials.leave(at(10_006));
        assert!(!trials.begin(at(10_008)), "another request has left");
        trials.leave(at(10_007));
        assert!(trials.begin(at(10_009)));
    }

    #[test]
    fn bounces_until_ten_seconds_after_the_last_bounce() {
        let mut trials = Trials::default();
        assert!(!trials.bounces(at(0)));
        [5, 7].iter().for_each(|now| trials.bounced(at(*now)));
        assert_eq!([10_006, 10_007].map(|now| trials.bounces(at(now))), [true, false]);
    }
}
