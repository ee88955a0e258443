//! The retry budget limits retries for other reasons than a rejection. Those add load and can keep
//! an overload going; a rejection costs its server almost nothing, so its retry is free.
//!
//! A token bucket: each request adds `1 + share`, each rejection 1, each attempt takes 1, and a
//! retry needs 1. So these retries are at most `share * requests + BURST + what is in flight when
//! the bucket runs empty`. Requests that [explore](crate::sender::discovery) are exempt. Default
//! share: 0.2, as in Envoy, Finagle and linkerd. Envoy's own budget also counts retries after
//! rejections, which bids cause about once per request. Cold start: full.

use crate::units::Ratio;

/// Retries that may follow at once, however few requests there were.
pub const BURST: f64 = 10.0;
/// The lowest balance: many requests may fail at once while one retry is left.
const FLOOR: f64 = -10.0 * BURST;

/// The budget of one sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    share: Ratio,
    balance: f64,
}

impl RetryBudget {
    /// A full budget. A `share` of 0 allows no retries.
    pub fn new(share: Ratio) -> Self {
        Self { share, balance: BURST }
    }

    /// Sets the share.
    pub fn configure(&mut self, share: Ratio) {
        self.share = share;
    }

    /// A request arrived.
    pub fn request(&mut self) {
        self.earn(1.0 + self.share.get());
    }

    /// A server rejected or bounced an attempt.
    pub fn rejection(&mut self) {
        self.earn(1.0);
    }

    /// The attempt that began belongs to a request that explores.
    pub fn explores(&mut self) {
        self.earn(1.0);
    }

    /// An attempt begins.
    pub fn attempt(&mut self) {
        self.balance = (self.balance - 1.0).max(FLOOR);
    }

    /// Whether a retry for another reason than a rejection is allowed now.
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

    /// Sends requests whose attempts all fail, with up to three retries each if allowed. Returns
    /// the number of retries.
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
