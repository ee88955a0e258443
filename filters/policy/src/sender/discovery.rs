//! Discovery: how a sender without a configured list of endpoints finds all of them.
//!
//! It learns servers from requests that Envoy's own policy placed, so some requests *explore*: they
//! go without our list. All do until `8 * (known + 1)` have explored since the last find, then one
//! in 50, or one in 400 while fewer than half of the servers are left alone. A server that `12 *
//! (known + 1)` exploring requests did not meet is forgotten, unless an attempt is pending there.
//! Reasons: `filters/adr/0025-what-envoy-finds-out.md`. Cold start: Envoy's policy decides. Not in
//! the paper.

use crate::units::rng::Rng;

const ROUNDS: usize = 8;
/// More than [`ROUNDS`], because each server found by mistake starts a new search.
const ROUNDS_UNTIL_GONE: usize = 12;
const STEADY_SHARE: usize = 50;
/// Explores this many times less while some servers are left alone.
const RARER: usize = 8;

/// When to look for unknown servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    since_find: usize,
    explored: u64,
}

impl Discovery {
    /// Whether the next request explores. `known`: all known endpoints; `open`: those not left
    /// alone.
    pub fn explores(&mut self, known: usize, open: usize, rng: &mut impl Rng) -> bool {
        let searching = self.since_find < ROUNDS * (known + 1);
        let some_are_left_alone = open < known && 2 * open > known;
        let explores = searching || rng.below(STEADY_SHARE) == 0 && !(some_are_left_alone && rng.below(RARER) > 0);
        self.since_find += usize::from(searching);
        self.explored += u64::from(explores);
        explores
    }

    /// How many requests have explored.
    pub fn explored(&self) -> u64 {
        self.explored
    }

    /// Whether a server is gone. `seen`: how many requests had explored when it last answered;
    /// `known`: all known endpoints.
    pub fn is_gone(&self, seen: u64, known: usize) -> bool {
        self.explored.saturating_sub(seen) > (ROUNDS_UNTIL_GONE * (known + 1)) as u64
    }

    /// A server was found or lost, so the search restarts.
    pub fn found(&mut self) {
        self.since_find = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// How many requests it takes in a cluster of `n` servers, if exploring requests meet a random
    /// one (the worst case for a fallback policy).
    fn requests_until_all_known(n: usize, seed: u64) -> usize {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut discovery, mut known) = (Discovery::default(), BTreeSet::new());
        for request in 1..100_000 {
            if discovery.explores(known.len(), known.len(), &mut rng) && known.insert(rng.below(n)) {
                discovery.found();
            }
            if known.len() == n {
                return request;
            }
        }
        usize::MAX
    }

    #[test]
    fn finds_all_servers_within_a_bounded_number_of_requests() {
        for n in [1, 3, 10, 100] {
            for seed in 0..20 {
                let requests = requests_until_all_known(n, seed);
                assert!(
                    requests <= 12 * n * n.ilog2().max(1) as usize,
                    "{n} servers, seed {seed}: {requests} requests"
                );
            }
        }
    }

    #[test]
    fn a_server_missed_in_twelve_rounds_counts_as_gone() {
        let (known, rounds) = (4, 12 * 5);
        let after = |explored| Discovery { explored, ..Discovery::default() };
        assert!(!after(100 + rounds).is_gone(100, known));
        assert!(after(101 + rounds).is_gone(100, known));
    }

    #[test]
    fn few_requests_explore_once_no_new_server_is_found() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut discovery = Discovery::default();
        let at_first = (0..88).filter(|_| discovery.explores(10, 9, &mut rng)).count();
        assert_eq!(at_first, 88);
        let later = [10, 9, 6, 5, 0].map(|open| (0..10_000).filter(|_| discovery.explores(10, open, &mut rng)).count());
        let fewer = later.map(|count| count < 45);
        assert_eq!(fewer, [false, true, true, false, false], "{later:?} of 10,000 explore");
        assert!(later.iter().all(|count| (10..45).contains(count) || (140..260).contains(count)), "{later:?}");
        discovery.found();
        assert!(discovery.explores(10, 10, &mut rng));
    }
}
