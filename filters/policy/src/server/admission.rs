//! Admission and chips: whether a server admits a request, and whether its answer carries a chip
//! (paper, section 5.4.1, algorithm 2).
//!
//! With `active` requests in the server and a capacity `C` (both in requests):
//!
//! - a request is rejected when `active + 1 > C`;
//! - an answer, with `q` requests in the server besides the one that it answers, carries `chip = 0`
//!   when `r < q / (headroom * C)` for a uniform `r` in `[0, 1)`, else `chip = 1`. So the share of
//!   answers with a chip falls linearly from 1 at `q = 0` to 0 at `q = headroom * C`.
//!
//! Default: headroom 0.8, the paper's; the remaining fifth of the capacity is for senders that hold
//! chips already or that the server has not met. Cold start: without a capacity every request is
//! admitted and every answer carries a chip. Cost: a comparison, a draw.
//!
//! Deviations from the paper:
//! 1. `q` does not count the request that is being answered: a chip invites the next request, which
//!    will not meet this one. If it counted, a server of capacity 1 could never grant a chip.
//! 2. `r` is drawn from `[0, 1)`, not `(0, 1]`: only then does `q = headroom * C` never give a
//!    chip, and `q = 0` always one.

use crate::units::rng::Rng;
use crate::units::{Concurrency, Ratio};

/// A server's rule for admission and chips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    capacity: Option<Concurrency>,
    headroom: Ratio,
}

impl Admission {
    /// Admission of at most `capacity` requests at once (no limit if absent), with chips up to the
    /// share `headroom` of it.
    pub const fn new(capacity: Option<Concurrency>, headroom: Ratio) -> Self {
        Self { capacity, headroom }
    }

    /// The limit in force.
    pub const fn capacity(&self) -> Option<Concurrency> {
        self.capacity
    }

    /// Whether one more request may join the `active` ones (requests in the server, the new one not
    /// counted).
    pub const fn admits(&self, active: Concurrency) -> bool {
        match self.capacity {
            Some(capacity) => active.get() < capacity.get(),
            None => true,
        }
    }

    /// Whether an answer carries a chip while `others` requests are in the server besides the one
    /// answered.
    pub fn grants_chip(&self, others: Concurrency, rng: &mut impl Rng) -> bool {
        match self.capacity {
            Some(capacity) => {
                let limit = self.headroom.get() * f64::from(capacity.get());
                rng.unit() >= f64::from(others.get()) / limit
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admission(capacity: u32, headroom: f64) -> Admission {
        Admission::new(Some(Concurrency::new(capacity)), Ratio::new(headroom).unwrap())
    }

    proptest! {
        /// The oracle keeps the set of requests that are inside.
        #[test]
        fn admits_up_to_the_capacity_and_no_more(capacity in 1u32..50, arrivals in prop::collection::vec(any::<bool>(), 1..500)) {
            let admission = admission(capacity, 0.8);
            let mut inside = Vec::new();
            for (i, arrival) in arrivals.into_iter().enumerate() {
                if !arrival {
                    inside.pop();
                } else if admission.admits(Concurrency::new(inside.len() as u32)) {
                    inside.push(i);
                } else {
                    prop_assert_eq!(inside.len(), capacity as usize, "rejected though there was room");
                }
                prop_assert!(inside.len() <= capacity as usize);
            }
        }

        #[test]
        fn grants_no_chip_at_or_above_the_headroom(capacity in 1u32..1000, headroom in 0.01f64..=1.0, above in 0u32..100, seed: u64) {
            let limit = (headroom * f64::from(capacity)).ceil() as u32;
            let mut rng = fastrand::Rng::with_seed(seed);
            prop_assert!(!admission(capacity, headroom).grants_chip(Concurrency::new(limit + above), &mut rng));
        }
    }

    #[test]
    fn the_share_of_chips_falls_linearly_with_active_requests() {
        let mut rng = fastrand::Rng::with_seed(7);
        let admission = admission(10, 0.8);
        const DRAWS: u32 = 100_000;
        for active in 0..=10 {
            let chips = (0..DRAWS).filter(|_| admission.grants_chip(Concurrency::new(active), &mut rng)).count();
            let expected = (1.0 - f64::from(active) / 8.0).max(0.0);
            let share = chips as f64 / f64::from(DRAWS);
            // Four standard deviations of the mean of 100,000 draws are at most 0.0064.
            assert!((share - expected).abs() < 0.0064, "active {active}: share {share}, expected {expected}");
        }
    }

    #[test]
    fn without_a_capacity_everything_is_admitted_with_a_chip() {
        let admission = Admission::new(None, Ratio::ONE);
        let many = Concurrency::new(u32::MAX);
        assert!(admission.admits(many));
        assert!(admission.grants_chip(many, &mut fastrand::Rng::with_seed(1)));
    }
}
