//! How long a sidecar holds a request that waits for a place, and why it then rejects it:
//!
//! | limit | reason |
//! |---|---|
//! | `maxQueueWait`, or the time until the deadline minus one execution time | deadline |
//! | twice the bid, if the bid says the fleet's execution time | bid |
//!
//! The shorter limit counts. A request that has waited twice its bid shows that one in front takes
//! long. The application has not seen it, so a bounce is safe. Older callers omit the fleet's time
//! and would misread a bounce. See `filters/adr/0022-a-broken-promise-is-taken-back.md`.

use crate::wire::bid::Bid;
use crate::wire::reason::Reason;
use std::time::Duration;

/// The longest time to hold a request, and the reason to reject it then. `left`: without its bid.
pub fn longest(bid: Option<Bid>, left: Duration) -> (Duration, Reason) {
    let promised = bid.filter(|bid| bid.fleet.is_some()).map(|bid| bid.most.saturating_mul(2));
    match promised {
        Some(promised) if promised < left => (promised, Reason::Bid),
        _ => (left, Reason::Deadline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_request_is_held_for_twice_its_bid() {
        let bid = |most| Some(Bid { most, fleet: Some(millis(50)) });
        assert_eq!(longest(bid(millis(100)), millis(1000)), (millis(200), Reason::Bid));
        assert_eq!(longest(bid(millis(100)), millis(201)), (millis(200), Reason::Bid));
        assert_eq!(longest(bid(millis(100)), millis(200)), (millis(200), Reason::Deadline), "whichever is first");
        assert_eq!(longest(bid(millis(100)), millis(20)), (millis(20), Reason::Deadline));
        assert_eq!(longest(bid(Duration::ZERO), millis(20)), (Duration::ZERO, Reason::Bid));
        assert_eq!(longest(bid(Duration::MAX), millis(20)), (millis(20), Reason::Deadline), "no overflow");
    }

    #[test]
    fn without_a_bid_of_this_version_only_the_other_limit_holds() {
        for bid in [None, Some(Bid::from(millis(1)))] {
            assert_eq!(longest(bid, millis(1000)), (millis(1000), Reason::Deadline), "{bid:?}");
        }
    }
}
