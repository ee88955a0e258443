//! Discovery: how a sender without a configured list of endpoints finds all of them.
//!
//! Such a sender learns a server from the answer to a request that Envoy's own policy placed. A
//! request that carries our list never meets a new server, so some requests must explore, that is
//! go without a list: `explores` says which. While fewer than `8 * (known + 1)` requests have
//! explored since the last find, every request explores; afterwards one in 50. It is one in 400
//! while some servers are left alone, but fewer than half: Envoy's policy prefers one that hangs,
//! because it has the fewest requests.
//!
//! With one unknown server there are `known + 1` in all. A request that explores and is placed at
//! random meets the unknown one with probability `1 / (known + 1)`, so `8 * (known + 1)` requests
//! all miss it with probability about `exp(-8)`. With several unknown servers it is less likely
//! that they miss all of them. It is also less likely with Envoy's least request, which prefers
//! idle servers.
//!
//! Envoy may stop choosing a server that is still in the cluster: it has left the priority in
//! force, was ejected, or failed its health checks. Or it has left, and no list named it since. A
//! server that `12 * (known + 1)` requests which explored did not meet is
//! forgotten, unless an attempt is pending there: least request avoids a busy server. By the same
//! reckoning, one that Envoy still chooses is missed by that many with probability about
//! `exp(-12)`. It is learned again when a request meets it.
//!
//! Cold start: every request explores, so the sender behaves like Envoy's fallback policy. Cost: a
//! draw a request. Not in the paper, whose proxies ask a directory. Where endpoints are configured
//! or sent by the control plane, nothing explores.

use crate::units::rng::Rng;

const ROUNDS: usize = 8;
/// More, since each server that is found anew begins a search, whatever their number.
const ROUNDS_UNTIL_GONE: usize = 12;
const STEADY_SHARE: usize = 50;
/// So many times fewer while some servers are left alone.
const RARER: usize = 8;

/// When to look for unknown servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    since_find: usize,
    /// All requests that explored.
    explored: u64,
}

impl Discovery {
    /// Whether the next request explores, with `known` endpoints known, of which `open` are not
    /// left alone.
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

    /// Whether a server is gone that was last met when `met` requests had explored, with `known`
    /// endpoints known.
    pub fn is_gone(&self, met: u64, known: usize) -> bool {
        self.explored.saturating_sub(met) > (ROUNDS_UNTIL_GONE * (known + 1)) as u64
    }

    /// An unknown server was found, or one was lost: the search starts again.
    pub fn found(&mut self) {
        self.since_find = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A cluster of `n` servers of which exploring requests meet one at random (the worst that a
    /// fallback policy can be).
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
