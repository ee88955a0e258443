//! Computes bids by optimal search over a known distribution of offers with a cost for each look
//! (McCall 1970, Weitzman 1979).
//!
//! `R` are the last 16 offers ([`crate::wire::offer`]) heard, and `M(R)` is their power mean of
//! order 4, `(mean(r^4))^(1/4)`, which weighs slow offers more than the mean. The expectation after
//! the last bid is `V = 1.4 * M(R)`. From the last bid to the first: `bid = V + cost`, then `V =
//! M(min(R, bid))`. Fewer servers get fewer bids, the higher ones. Reasons for the order and for
//! 1.4: `filters/adr/0017-the-price-of-looking-further.md`. Cost: five passes over 16 numbers after
//! every fourth report.

/// The most bids of a request.
pub const MOST_BIDS: usize = 5;
/// How many offers are kept.
const MEMORY: usize = 16;
/// The expectation after the last bid, as a multiple of the mean: the next attempt has no limit.
pub(super) const WITHOUT_LIMIT: f64 = 1.4;

/// The last offers that a sender heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// In seconds; the oldest is at `next` once all places are taken.
    times: [f32; MEMORY],
    next: usize,
    known: usize,
}

impl Default for Heard {
    fn default() -> Self {
        Self { times: [0.0; MEMORY], next: 0, known: 0 }
    }
}

impl Heard {
    /// Records an offer in seconds, replacing the oldest one.
    pub fn observe(&mut self, offer: f64) {
        if let Some(oldest) = self.times.get_mut(self.next) {
            *oldest = offer as f32;
        }
        self.known = self.known.max(self.next + 1);
        self.next = (self.next + 1) % MEMORY;
    }

    /// The bids of a request, first to last, for this cost of looking further. All in seconds. An
    /// offer counts for at most `most`.
    pub fn prices(&self, most: f64, cost: f64) -> [f64; MOST_BIDS] {
        let (mut prices, mut accepted, mut factor) = ([0.0; MOST_BIDS], most, WITHOUT_LIMIT);
        for price in prices.iter_mut().rev() {
            *price = factor * self.mean(accepted) + cost;
            accepted = accepted.min(*price);
            factor = 1.0;
        }
        prices
    }

    /// The power mean of order 4 of the offers, each limited to `most`.
    fn mean(&self, most: f64) -> f64 {
        let fourth = |time: &f32| {
            let square = f64::from(*time).min(most) * f64::from(*time).min(most);
            square * square
        };
        let sum: f64 = self.times.iter().take(self.known).map(fourth).sum();
        (sum / self.known as f64).sqrt().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn heard(millis: impl IntoIterator<Item = u64>) -> Heard {
        let mut heard = Heard::default();
        millis.into_iter().for_each(|millis| heard.observe(Duration::from_millis(millis).as_secs_f64()));
        heard
    }

    /// In milliseconds, to one decimal.
    fn prices(heard: &Heard, most: f64, cost: f64) -> [f64; MOST_BIDS] {
        heard.prices(most, cost).map(|price| (price * 1e4).round() / 10.0)
    }

    #[test]
    fn where_all_servers_are_alike_a_bid_is_their_time_and_the_cost_of_looking_further() {
        let alike = heard([100; 20]);
        assert_eq!(prices(&alike, f64::INFINITY, 0.01), [110.0, 110.0, 110.0, 110.0, 150.0]);
        assert_eq!(prices(&alike, f64::INFINITY, 0.0), [100.0, 100.0, 100.0, 100.0, 140.0]);
    }

    #[test]
    fn a_bid_is_what_the_search_after_it_may_expect_and_its_cost() {
        // The fourth root of (100^4 + 300^4) / 2 is 253.04, of (100^4 + 263.04^4) / 2 is 222.34.
        let two = heard([100, 300]);
        assert_eq!(prices(&two, f64::INFINITY, 0.01), [186.4, 207.0, 232.3, 263.0, 364.3]);
    }

    #[test]
    fn each_time_counts_for_at_most_what_is_believed() {
        assert_eq!(prices(&heard([100, 300]), 0.1, 0.01), prices(&heard([100, 100]), 0.1, 0.01));
        assert_eq!(prices(&heard([100, 300]), 0.3, 0.01), prices(&heard([100, 300]), f64::INFINITY, 0.01));
    }

    #[test]
    fn keeps_the_last_sixteen_times() {
        let all = |price| [price, price, price, price, price * 1.4];
        assert_eq!(prices(&heard([100].into_iter().chain([200; 16])), 9.0, 0.0), all(200.0));
        assert_ne!(prices(&heard([100].into_iter().chain([200; 15])), 9.0, 0.0), all(200.0));
        assert_eq!(prices(&heard([100; 3]), 9.0, 0.0), all(100.0), "those that are known");
        let (again, other) = (heard((0..16).chain(101..117)), heard(101..117));
        assert_eq!(prices(&again, 9.0, 0.0), prices(&other, 9.0, 0.0));
    }

    #[test]
    fn bids_rise_and_no_number_of_a_server_panics() {
        for times in [[0, 0, 0], [u64::MAX, 0, 1], [u64::MAX; 3], [1, 2, 3]] {
            for (most, cost) in [(f64::INFINITY, 0.0), (0.0, 1.0), (1e300, 1e300), (0.002, 0.001)] {
                let prices = heard(times).prices(most, cost);
                assert!(prices.is_sorted() && prices.iter().all(|price| *price >= cost), "{times:?}: {prices:?}");
            }
        }
    }
}
