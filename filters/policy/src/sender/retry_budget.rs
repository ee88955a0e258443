//! The retry budget: how many attempts a sender may make beyond one for each request and one for
//! each rejection.
//!
//! A rejection costs its server next to nothing, so its retry is free. Any other retry (the server
//! could not be reached, or the application asked for it) adds load, and when all servers are in
//! trouble it keeps them there.
//!
//! A bucket holds at most [`BURST`] attempts and one for the first attempt of a request. Each
//! request puts in `1 + share`, each rejection 1, and each attempt takes 1. A request that has
//! failed may be sent again if one is left at that moment. So over any time the retries other than
//! those after rejections are at most
//!
//! `share * requests + BURST + what is in flight when the bucket runs empty`
//!
//! Requests that [explore](crate::sender::discovery) are outside of the budget. Envoy places them
//! as without the filters, also on a server that refuses connections, which has the fewest
//! requests; and a fresh sender explores with all of its first requests.
//!
//! Default: a share of 0.2, as in the budgets of Envoy, Finagle and linkerd. Envoy's own
//! (`retry_budget` of a cluster) is no use here: it counts the retries after rejections too, and
//! with bids there is one a request. Cold start: full. Cost: an addition for each event.

use crate::units::Ratio;

/// Retries that may be made at once, however few requests there were.
pub const BURST: f64 = 10.0;
/// How far debts are remembered, as many requests may fail at once while one retry is left.
const FLOOR: f64 = -10.0 * BURST;

/// The budget of one sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    share: Ratio,
    balance: f64,
}

impl RetryBudget {
    /// A full budget; one that allows no retry if `share` is zero.
    pub fn new(share: Ratio) -> Self {
        Self { share, balance: BURST }
    }

    /// Sets the share.
    pub fn configure(&mut self, share: Ratio) {
        self.share = share;
    }

    /// A request has come.
    pub fn request(&mut self) {
        self.earn(1.0 + self.share.get());
    }

    /// A server has rejected or bounced an attempt.
    pub fn rejection(&mut self) {
        self.earn(1.0);
    }

    /// The attempt that has begun is one of a request that explores.
    pub fn explores(&mut self) {
        self.earn(1.0);
    }

    /// An attempt begins.
    pub fn attempt(&mut self) {
        self.balance = (self.balance - 1.0).max(FLOOR);
    }

    /// Whether a request may be retried now for another reason than a rejection.
    pub fn allows(&self) -> bool {
        self.share.get() > 0.0 && self.balance >= 1.0
    }

    /// Whether at least half of [`BURST`] is left.
    pub fn is_ample(&self) -> bool {
        self.share.get() > 0.0 && self.balance >= BURST / 2.0
    }

    fn earn(&mut self, attempts: f64) {
        self.balance = (self.balance + attempts).min(BURST + 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(share: f64) -> RetryBudget {
        RetryBudget::new(Ratio::new(share).unwrap())
    }

    /// Sends requests whose attempts all fail, each tried again three times if it may. Returns the
    /// number of retries.
    fn retries(budget: &mut RetryBudget, requests: usize) -> usize {
        let mut retries = 0;
        for _ in 0..requests {
            budget.request();
            budget.attempt();
            for _ in 0..3 {
                if !budget.allows() {
                    break;
                }
                budget.attempt();
                retries += 1;
            }
        }
        retries
    }

    #[test]
    fn attempts_of_requests_that_explore_cost_nothing() {
        let mut budget = budget(0.2);
        let before = budget;
        for _ in 0..1_000 {
            budget.attempt();
            budget.explores();
        }
        assert_eq!(budget, before);
    }

    #[test]
    fn retries_stay_within_their_share_of_requests_plus_the_burst() {
        for share in [0.05, 0.2, 1.0] {
            let retries = retries(&mut budget(share), 10_000) as f64;
            let most = share * 10_000.0;
            assert!((most..most + BURST + 3.0).contains(&retries), "{share}: {retries}");
        }
        assert_eq!(retries(&mut budget(0.0), 1_000), 0, "none at all");
    }

    #[test]
    fn retries_after_rejections_do_not_use_the_budget() {
        let mut budget = budget(0.2);
        for _ in 0..1_000 {
            budget.request();
            budget.attempt();
            for _ in 0..8 {
                budget.rejection();
                budget.attempt();
                assert!(budget.allows());
            }
        }
    }

    #[test]
    fn an_overdrawn_budget_recovers_after_about_500_requests() {
        let mut budget = budget(0.2);
        (0..1_000_000).for_each(|_| budget.attempt());
        // A share of 0.2 each.
        let mut requests = |count: u32| {
            (0..count).for_each(|_| {
                budget.request();
                budget.attempt();
            });
            budget.allows()
        };
        assert!(!requests(500) && requests(10));
    }

    #[test]
    fn a_full_budget_allows_the_burst_beside_the_first_attempt() {
        let mut budget = budget(0.2);
        (0..100).for_each(|_| budget.request());
        budget.attempt();
        let mut retries = 0;
        while budget.allows() {
            budget.attempt();
            retries += 1;
        }
        assert_eq!(retries, 10);
    }

    #[test]
    fn the_budget_is_ample_down_to_half_of_the_burst() {
        let mut budget = budget(0.2);
        (0..5).for_each(|_| budget.attempt());
        assert!(budget.is_ample());
        budget.attempt();
        assert!(!budget.is_ample());
    }

    #[test]
    fn a_share_of_zero_allows_no_retry_from_then_on() {
        let mut budget = budget(0.2);
        budget.configure(Ratio::default());
        assert!(!budget.allows() && !budget.is_ample());
    }
}
