//! Whether a server's acceptance of a bid means anything.
//!
//! A server that does not read bids, or lies about its wait, would attract the bounces of all the
//! others. So each sender keeps [`Promises`] for each server: whether it reports at all, and how
//! often it accepted a bid and answered after more than twice that. A server that fails in either
//! gets first attempts like any other, and comes last for further ones.
//! (Simulated, 80% load, one of ten without reports: p99 105 s without this; with it, as with
//! BLOC.)
//!
//! Cold start: a server that has not answered yet counts as one that accepts everything. Cost: a
//! comparison and a multiplication an answer. Not in the papers.

use crate::wire::bid::Bid;
use std::time::Duration;

/// From this share of broken promises on, a server's acceptance of a bid counts for nothing.
const MISTRUST: f64 = 0.5;
/// A promise is broken if the answer takes longer than this many times the bid: service times vary,
/// and the bid is about their mean.
const BROKEN: u32 = 2;
/// The weight of the newest promise.
const PROMISE_WEIGHT: f64 = 0.35;

/// What a server's acceptance of a bid is worth, as one sender sees it.
///
/// A server without a report is not trusted, so a new one is not flooded with the bounces of the
/// others before its first answers are back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promises {
    without_report: bool,
    broken: f64,
}

impl Default for Promises {
    fn default() -> Self {
        Self { without_report: true, broken: 0.0 }
    }
}

impl Promises {
    /// The server accepted this `bid` (none: without limit) and answered after `took`.
    /// `without_report`: without a report.
    pub fn judge(&mut self, bid: Option<Bid>, took: Duration, without_report: bool) {
        self.without_report = without_report;
        if let Some(bid) = bid {
            let broken = f64::from(u8::from(took > bid.most * BROKEN));
            self.broken += PROMISE_WEIGHT * (broken - self.broken);
        }
    }

    /// The server has bounced a request: it reports, and it reads bids.
    pub fn bounced(&mut self) {
        self.without_report = false;
    }

    /// Whether the server seems to accept requests whatever their bids.
    pub fn are_untrusted(&self) -> bool {
        self.without_report || self.broken >= MISTRUST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distrusts_a_server_that_answers_late_twice_or_never_reports() {
        let bid = Some(Duration::from_millis(100).into());
        let (kept, broken) = (Duration::from_millis(200), Duration::from_millis(201));
        let mut promises = Promises::default();
        assert!(promises.are_untrusted(), "a server is not trusted before its first report");
        promises.judge(bid, broken, false);
        assert!(!promises.are_untrusted(), "one late answer is tolerated");
        promises.judge(bid, broken, false);
        assert!(promises.are_untrusted());
        promises.judge(None, broken, false);
        assert!(promises.are_untrusted(), "without a bid nothing was promised");
        promises.judge(bid, kept, false);
        assert!(!promises.are_untrusted(), "trust comes back");
        promises.judge(None, kept, true);
        assert!(promises.are_untrusted(), "a server without reports promises nothing");
        promises.bounced();
        assert!(!promises.are_untrusted(), "a bounce counts as a report");
    }

    #[test]
    fn trusts_a_server_again_after_two_answers_in_time_however_many_were_late() {
        let bid = Some(Duration::from_millis(100).into());
        let mut promises = Promises::default();
        (0..100).for_each(|_| promises.judge(bid, Duration::from_millis(201), false));
        promises.judge(bid, Duration::from_millis(200), false);
        assert!(promises.are_untrusted());
        promises.judge(bid, Duration::from_millis(200), false);
        assert!(!promises.are_untrusted());
    }
}
