//! How a server that is surely slower than the fleet finds out that it has become faster.
//!
//! It bounces bids even from a free place, but becomes less sure with each second without a counted
//! answer. Then it takes one bid, a *probe*, and bounces others until an answer counts, or until
//! the probe leaves or lasts [`LONGEST`]. Meanwhile only requests with bids count for the execution
//! time: others, such as uploads, may be heavier. Results:
//! `filters/adr/0019-the-fleets-execution-time.md`.

use crate::units::Timestamp;
use std::time::Duration;

/// A probe ends after this time. A server counts as bouncing for this time after a bounce.
const LONGEST: Duration = Duration::from_secs(10);

/// The probes of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probes {
    began: Option<Timestamp>,
    bounced: Option<Timestamp>,
}

fn is_recent(then: Option<Timestamp>, now: Timestamp) -> bool {
    then.is_some_and(|then| now.since(then) < LONGEST)
}

impl Probes {
    /// Begins a probe unless one is under way. Returns whether it did.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let begins = !is_recent(self.began, now);
        if begins {
            self.began = Some(now);
        }
        begins
    }

    /// A request that counts was answered.
    pub fn end(&mut self) {
        self.began = None;
    }

    /// The request that arrived at `arrived` left unanswered. This ends its own probe only.
    pub fn leave(&mut self, arrived: Timestamp) {
        self.began = self.began.filter(|began| *began != arrived);
    }

    /// A request was bounced from a free place.
    pub fn bounced(&mut self, now: Timestamp) {
        self.bounced = Some(now);
    }

    /// Whether the server currently bounces requests from free places.
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
    fn one_probe_at_a_time_for_ten_seconds_at_most() {
        let mut probes = Probes::default();
        assert_eq!([5, 6, 10_004].map(|now| probes.begin(at(now))), [true, false, false]);
        assert_eq!([10_005, 10_006].map(|now| probes.begin(at(now))), [true, false]);
        probes.end();
        assert!(probes.begin(at(10_007)));
        probes.leave(at(10_006));
        assert!(!probes.begin(at(10_008)), "another request has left");
        probes.leave(at(10_007));
        assert!(probes.begin(at(10_009)));
    }

    #[test]
    fn bounces_until_ten_seconds_after_the_last_bounce() {
        let mut probes = Probes::default();
        assert!(!probes.bounces(at(0)));
        [5, 7].iter().for_each(|now| probes.bounced(at(*now)));
        assert_eq!([10_006, 10_007].map(|now| probes.bounces(at(now))), [true, false]);
    }
}
