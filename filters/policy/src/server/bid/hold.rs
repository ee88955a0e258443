//! For how long a sidecar holds a request that waits for a place, and why it rejects it then.
//!
//! | limit | reason |
//! |---|---|
//! | `maxQueueWait`, or the time until the deadline minus one execution time | deadline |
//! | twice the bid, if the bid says the fleet's execution time | bid |
//!
//! The shortest of them counts.
//!
//! A server that takes a request for its bid has promised to answer within it. It knows the number
//! of requests in front, but not how long each of them takes. Where one takes many times the mean,
//! the promise is broken, and all that wait behind it would wait as long. The application has not
//! seen them: so they are bounced, and go to their next servers, with their next bids. That is safe
//! for every method, also for a `POST`.
//!
//! A request that has waited for so long says by itself that something in front takes long. So the
//! server needs not know which request that is, when it began, or what other threads hold. Once the
//! bid is too soon: exponential times lose (10 x 1, 90% load, p99 556 ms instead of 521), since
//! what waits longest is mostly next.
//!
//! A bid may lack the fleet's execution time. Then the caller may be an older version, which would
//! take such a bounce for a rejection. The request is held as before. Cost: a comparison for each
//! request that is held. Not in the papers. The measurements are in
//! `filters/adr/0022-a-broken-promise-is-taken-back.md`.

use crate::wire::bid::Bid;
use crate::wire::reason::Reason;
use std::time::Duration;

/// The longest time for which a request with this `bid` is held, and the reason why it is rejected
/// then. `left`: how long it could be held if it were not for its bid.
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
