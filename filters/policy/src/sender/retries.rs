//! How often a request may be sent again, by kind (`filters/adr/0013-retries-of-each-kind.md`).
//! Envoy's router gets the sum, and the filters end each kind. Once a server was full, at most
//! `retries` attempts follow in all.
//!
//! | an attempt ends with | what follows | at most |
//! |---|---|---|
//! | anything but a rejection (an answer, a reset, a timeout) | what the route's conditions say | as often as the route or the request allows |
//! | a bounce for its bid | a further bid | one per bid, and at most one fewer than there are servers |
//! | a rejection for another reason | an attempt without limit | `retries` of the service |

use crate::routing::bid::{BidPosition, is_bounce};
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use crate::wire::reason::Reason;

/// The remaining retries of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    route: u32,
    bids: u32,
    bounces: u32,
    rejections: u32,
    full: bool,
}

impl Retries {
    /// The retries of a new request: `route` after anything but a rejection, `bids` after bounces,
    /// `rejections` after other rejections.
    pub const fn new(route: u32, bids: u32, rejections: u32) -> Self {
        Self { route, bids, bounces: 0, rejections, full: false }
    }

    /// The remaining retries of all kinds.
    pub const fn left(&self) -> u32 {
        let bids = if self.full { 0 } else { self.bids };
        self.route.saturating_add(bids).saturating_add(self.rejections)
    }

    /// The position of the next attempt's bid; none: no limit.
    pub fn bid(&self) -> Option<BidPosition> {
        (self.bids > 0 && !(self.full && self.rejections == 0))
            .then(|| BidPosition { number: self.bounces as usize, of: (self.bounces + self.bids) as usize })
    }

    /// An attempt was bounced for its bid. Returns whether another may follow.
    pub fn bounced(&mut self) -> bool {
        if self.bids == 0 {
            return self.rejected(true);
        }
        self.bids -= 1;
        self.bounces += 1;
        !self.full || take(&mut self.rejections)
    }

    /// An attempt was rejected, but not for its bid. `full`: because the server has too much to do.
    /// Returns whether another may follow.
    pub fn rejected(&mut self, full: bool) -> bool {
        self.full |= full;
        take(&mut self.rejections)
    }

    /// An attempt with this `bid` was rejected. `reason`: none if this version does not know it.
    /// Returns whether another may follow.
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

    /// Takes a retry after anything but a rejection. Returns whether there was one.
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
