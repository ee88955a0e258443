//! How often a request may be sent again: the user's retries and ours, counted separately.
//!
//! Envoy's router has one number of retries for a request, fixed when the request starts. So it is
//! told the sum, and the filters, which see the attempts end, say when a kind is used up:
//!
//! | an attempt ends with | what follows | at most |
//! |---|---|---|
//! | anything but a rejection (an answer, a reset, a timeout) | what the route's conditions say | as often as the route or the request allows |
//! | a bounce for its bid | a further bid | one per bid, and at most one fewer than there are servers |
//! | a rejection for another reason | an attempt without limit | `retries` of the service |
//!
//! None of the three numbers uses up another, with one exception: once a server was full, at most
//! `retries` attempts follow in all, bids or not. They bid as long as another may follow.
//!
//! Simulated: 40 senders, 10 servers, exponential 50 ms, `capacity` 10, medians of five seeds. The
//! goodput is the same with the first two rules.
//!
//! | once a server was full | attempts per request, 130 and 200% load | p99, 95% load |
//! |---|---|---|
//! | this rule | 3.4 and 3.9 | 538 ms |
//! | all attempts bid, and bounces do not use up `retries` | 5.3 and 7.0 | 552 ms |
//! | no attempt bids | not recorded | 573 ms |
//!
//! That was with bids that were multiples of the mean. Today's end while servers are full
//! ([`crate::routing::bid`]), and no difference between the first two rules is left to be seen.
//! This one limits the attempts of a request before that is noticed.
//!
//! Cost: a comparison an attempt. Not in the papers, which retry rejections only (chapter 5.6).

use crate::routing::bid::{BidPosition, is_bounce};
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use crate::wire::reason::Reason;

/// What is left of the retries of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    route: u32,
    bids: u32,
    bounces: u32,
    rejections: u32,
    full: bool,
}

impl Retries {
    /// The retries of a request that has not been sent: `route` after anything but a rejection, at
    /// most `bids` after bounces, `rejections` after other rejections.
    pub const fn new(route: u32, bids: u32, rejections: u32) -> Self {
        Self { route, bids, bounces: 0, rejections, full: false }
    }

    /// How many are left of all kinds.
    pub const fn left(&self) -> u32 {
        let bids = if self.full { 0 } else { self.bids };
        self.route.saturating_add(bids).saturating_add(self.rejections)
    }

    /// Which bid the next attempt makes; none if it goes without limit.
    pub fn bid(&self) -> Option<BidPosition> {
        (self.bids > 0 && !(self.full && self.rejections == 0))
            .then(|| BidPosition { number: self.bounces as usize, of: (self.bounces + self.bids) as usize })
    }

    /// An attempt was bounced for its bid. Returns whether another follows.
    pub fn bounced(&mut self) -> bool {
        if self.bids == 0 {
            return self.rejected(true);
        }
        self.bids -= 1;
        self.bounces += 1;
        !self.full || take(&mut self.rejections)
    }

    /// An attempt was rejected, but not for its bid. Returns whether another follows. `full`:
    /// because the server has too much to do.
    pub fn rejected(&mut self, full: bool) -> bool {
        self.full |= full;
        take(&mut self.rejections)
    }

    /// An attempt with this `bid` was rejected. Returns whether another follows. `reason`: none if
    /// this version does not know it.
    pub fn rejected_for(&mut self, reason: Option<Reason>, bid: Option<Bid>, report: &LoadReport) -> bool {
        match reason {
            Some(Reason::Bid) if is_bounce(bid, report) => self.bounced(),
            // An unjustified bounce says nothing about the other servers.
            Some(Reason::Bid | Reason::Unreachable) => self.rejected(false),
            Some(Reason::Capacity | Reason::Deadline) | None => self.rejected(true),
        }
    }

    /// Whether another attempt may follow one that was not rejected.
    pub const fn has_route_retry(&self) -> bool {
        self.route > 0
    }

    /// Another attempt follows one that was not rejected. Returns whether it may.
    pub fn take_route_retry(&mut self) -> bool {
        take(&mut self.route)
    }
}

fn take(left: &mut u32) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounced_bids_use_up_no_retries() {
        let mut retries = Retries::new(2, 3, 2);
        assert_eq!(retries.left(), 7);
        for number in 0..3 {
            assert_eq!(retries.bid(), Some(BidPosition { number, of: 3 }));
            assert!(retries.bounced());
        }
        assert_eq!(retries.bid(), None, "further attempts have no limit");
        assert_eq!([(); 3].map(|()| retries.rejected(true)), [true, true, false]);
        assert_eq!([(); 3].map(|()| retries.take_route_retry()), [true, true, false]);
    }

    #[test]
    fn a_rejection_for_an_unreachable_application_keeps_the_bids() {
        let mut retries = Retries::new(0, 5, 1);
        assert!(retries.bounced());
        assert!(retries.rejected(false));
        assert_eq!(retries.bid(), Some(BidPosition { number: 1, of: 5 }));
        assert!(!retries.rejected(false));
    }

    #[test]
    fn a_rejection_by_a_full_server_limits_attempts_to_the_retries() {
        let mut retries = Retries::new(0, 5, 2);
        assert!(retries.bounced());
        assert!(retries.rejected(true));
        assert_eq!(retries.bid(), Some(BidPosition { number: 1, of: 5 }), "another may follow");
        assert!(retries.bounced());
        assert_eq!(retries.bid(), None, "the last one");
        assert!(!retries.bounced(), "a server bounced an attempt without a bid");
    }

    #[test]
    fn a_bid_rejection_counts_as_a_bounce_only_if_the_attempt_had_a_bid() {
        let (report, bid) = (LoadReport::default(), Some(std::time::Duration::from_millis(10).into()));
        let mut retries = Retries::new(0, 2, 2);
        assert!(retries.rejected_for(Some(Reason::Bid), bid, &report));
        assert_eq!(retries.bid(), Some(BidPosition { number: 1, of: 2 }));
        assert!(retries.rejected_for(Some(Reason::Bid), None, &report), "a retry");
        assert_eq!((retries.bid(), retries.left()), (Some(BidPosition { number: 1, of: 2 }), 2));
        assert!(retries.rejected_for(Some(Reason::Capacity), bid, &report), "the last one");
        assert_eq!((retries.bid(), retries.left()), (None, 0));
        assert!(!retries.rejected_for(Some(Reason::Unreachable), bid, &report));
    }

    proptest! {
        /// In any order of events, each kind of retry keeps its own limit.
        #[test]
        fn each_kind_of_retry_keeps_its_own_limit(
            own in 0..4u32, bids in 0..6u32, rejections in 0..4u32,
            ends in proptest::collection::vec(0..4, 0..40),
        ) {
            let mut retries = Retries::new(own, bids, rejections);
            let total = retries.left();
            let [mut failed, mut bounced, mut rejected] = [0; 3];
            for end in ends {
                match end {
                    3 => rejected += u32::from(retries.rejected(false)),
                    0 => failed += u32::from(retries.take_route_retry()),
                    1 if retries.bid().is_some() => bounced += u32::from(retries.bounced()),
                    _ => rejected += u32::from(retries.rejected(true)),
                }
                prop_assert!(failed <= own && bounced <= bids && rejected <= rejections);
                prop_assert!(failed + bounced + rejected + retries.left() <= total);
            }
            prop_assert_eq!(retries.has_route_retry(), failed < own);
        }
    }
}
