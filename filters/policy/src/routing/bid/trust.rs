//! Whether a server's acceptance of a bid means anything (`filters/adr/0005-bids.md`).
//!
//! A server that ignores bids, or lies about its wait, would attract what the others bounce. So
//! each sender records whether a server reports, and how often it accepted a bid and took more than
//! twice as long. A server that fails either test gets normal first attempts, but comes last for
//! further ones. Not in the papers.

use crate::wire::bid::Bid;
use std::time::Duration;

/// From this share of broken promises, a server is not trusted.
const MISTRUST: f64 = 0.5;
/// An answer that takes more than this many times the bid breaks the promise: service times vary,
/// and the bid is about their mean.
const BROKEN: u32 = 2;
/// The weight of the newest promise.
const PROMISE_WEIGHT: f64 = 0.35;

/// One sender's record of a server's promises.
///
/// A server is not trusted before its first report, so that the bounces of others do not flood a
/// new one.
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
    /// The server accepted this `bid` (none: no limit) and answered after `took`. `without_report`:
    /// the answer had no report.
    pub fn judge(&mut self, bid: Option<Bid>, took: Duration, without_report: bool) {
        self.without_report = without_report;
        if let Some(bid) = bid {
            let broken = f64::from(u8::from(took > bid.most * BROKEN));
            self.broken += PROMISE_WEIGHT * (broken - self.broken);
        }
    }

    /// The server bounced a request, so it reports and reads bids.
    pub fn bounced(&mut self) {
        self.without_report = false;
    }

    /// Whether the server seems to accept requests regardless of their bids.
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
