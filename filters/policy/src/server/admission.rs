//! Admission and chips (paper, section 5.4.1, algorithm 2), for a capacity `C` in requests:
//!
//! - a request is rejected if `active + 1 > C`, with `active` requests in the server;
//! - an answer has no chip if a uniform `r` in `[0, 1)` is below `q / (headroom * C)`, with `q`
//!   others.
//!
//! The default headroom is the paper's 0.8. The rest of the capacity is for senders that hold chips
//! or have not met the server. Without a capacity, all are admitted, with a chip.

use crate::units::rng::Rng;
use crate::units::{Concurrency, Ratio};

/// A server's rule for admission and chips. Deviations from the paper:
/// 1. `q` leaves out the answered request. Otherwise a server of capacity 1 could never grant a
///    chip.
/// 2. `r` excludes 1, not 0. So `q = headroom * C` never gives a chip, and `q = 0` always.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    capacity: Option<Concurrency>,
    headroom: Ratio,
}

impl Admission {
    /// Admits at most `capacity` requests (no limit if absent), with chips while below `headroom`
    /// of it.
    pub const fn new(capacity: Option<Concurrency>, headroom: Ratio) -> Self {
        Self { capacity, headroom }
    }

    /// The limit in force, in requests.
    pub const fn capacity(&self) -> Option<Concurrency> {
        self.capacity
    }

    /// Whether a request may join the `active` ones in the server.
    pub const fn admits(&self, active: Concurrency) -> bool {
        match self.capacity {
            Some(capacity) => active.get() < capacity.get(),
            None => true,
        }
    }

    /// Whether an answer carries a chip while `others` are in the server besides its request.
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
