//! How often a server fails, and which failures count against it
//! (`filters/adr/0014-failures-and-what-is-not-confirmed.md`).
//!
//! Failures are: no connection, a reset by the server, a timeout, 5xx, and UNAVAILABLE or INTERNAL.
//! The failing share `f` (ratio) is an EWMA with weight `w = 0.1`, `m` its mean over the other open
//! servers. Of a server's failures the share `e / f` counts, with the excess (ratio)
//!
//! `e = max(0, f - m - 2 * sqrt(w / (2 - w) * m * (1 - m)))`,
//!
//! which neither the others nor chance explain. Errors of clients (4xx, other gRPC statuses) are
//! counted separately, and count only above an excess of [`MOSTLY`], since some are normal. A lone
//! server's failures never count.

/// The weight of the newest attempt.
const WEIGHT: f64 = 0.1;
/// Deviations up to this many standard deviations are chance.
const CHANCE: f64 = 2.0;

/// Errors of clients count above this excess. A server that returns nothing else reaches it with
/// the fourth.
const MOSTLY: f64 = 0.3;

/// Above this share a server has failed recently.
const RECENT: f64 = 0.05;
/// A smaller share counts as 0.
const NEGLIGIBLE: f64 = 1e-6;

/// One server's failures, as one sender sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Failures {
    share: f64,
    /// The part of a failure that has not counted yet.
    rest: f64,
    /// Whether other servers are compared with this one.
    is_compared: bool,
}

/// The servers that others are compared with: all that are not shut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peers {
    shares: f64,
    count: usize,
}

impl Peers {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Recomputes the sum from all servers, to remove rounding errors.
    pub fn renew<'a>(&mut self, all: impl Iterator<Item = &'a Failures>) {
        let mut peers = Self::default();
        all.filter(|failures| failures.is_compared).for_each(|failures| peers.add(failures.share, 1));
        *self = peers;
    }

    fn add(&mut self, share: f64, count: usize) {
        self.shares = (self.shares + share).max(0.0);
        self.count += count;
    }
}

impl Failures {
    /// Sets whether the other servers are compared with this one.
    pub fn compare(&mut self, compared: bool, peers: &mut Peers) {
        if self.is_compared == compared {
            return;
        }
        self.is_compared = compared;
        if compared {
            peers.add(self.share, 1);
        } else {
            peers.add(-self.share, 0);
            peers.count = peers.count.saturating_sub(1);
        }
    }

    /// Whether one of the last seven attempts failed, or several before.
    pub fn are_recent(&self) -> bool {
        self.share > RECENT
    }

    fn set(&mut self, share: f64, peers: &mut Peers) {
        if self.is_compared {
            peers.add(share - self.share, 0);
        }
        self.share = share;
    }

    /// An attempt failed. Returns whether that counts against the server.
    pub fn failed(&mut self, peers: &mut Peers) -> bool {
        self.set(self.share + WEIGHT * (1.0 - self.share), peers);
        self.rest += self.excess(peers) / self.share;
        // 1, except for rounding errors.
        let counts = self.rest >= 1.0 - 1e-6;
        if counts {
            self.rest = 0.0;
        }
        counts
    }

    /// An attempt failed in a way that is significant only if most attempts do. Returns whether it
    /// counts against the server.
    pub fn mostly_failed(&mut self, peers: &mut Peers) -> bool {
        self.set(self.share + WEIGHT * (1.0 - self.share), peers);
        self.excess(peers) > MOSTLY
    }

    /// An attempt was served.
    pub fn served(&mut self, peers: &mut Peers) {
        self.set(if self.share >= NEGLIGIBLE { self.share * (1.0 - WEIGHT) } else { 0.0 }, peers);
    }

    /// Forgets this server's failures.
    pub fn forget(&mut self, peers: &mut Peers) {
        self.set(0.0, peers);
        self.rest = 0.0;
    }

    /// By how much this server's failing share exceeds what the others and chance explain (ratio).
    pub fn excess(&self, peers: &Peers) -> f64 {
        let (own, one) = if self.is_compared { (self.share, 1) } else { (0.0, 0) };
        let others = peers.count.saturating_sub(one);
        if others == 0 {
            return 0.0;
        }
        let mean = ((peers.shares - own) / others as f64).clamp(0.0, 1.0);
        let chance = CHANCE * (WEIGHT / (2.0 - WEIGHT) * mean * (1.0 - mean)).sqrt();
        (self.share - mean - chance).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet<const N: usize>() -> ([Failures; N], Peers) {
        let (mut servers, mut peers) = ([Failures::default(); N], Peers::default());
        servers.iter_mut().for_each(|server| server.compare(true, &mut peers));
        (servers, peers)
    }

    /// The first of ten servers fails `own` of 10,000 attempts, the others `others`: how many
    /// failures count against the first, and its final excess.
    fn counted(own: f64, others: f64) -> (u32, f64) {
        let mut rng = fastrand::Rng::with_seed(1);
        let ((mut servers, mut peers), mut counted) = (fleet::<10>(), 0);
        for _ in 0..10_000 {
            for (number, server) in servers.iter_mut().enumerate() {
                if rng.f64() >= if number == 0 { own } else { others } {
                    server.served(&mut peers);
                } else if server.failed(&mut peers) && number == 0 {
                    counted += 1;
                }
            }
        }
        (counted, servers[0].excess(&peers))
    }

    #[test]
    fn every_failure_counts_if_no_other_server_fails() {
        let (count, excess) = counted(1.0, 0.0);
        assert_eq!(count, 10_000);
        assert!(excess > 0.99);
        assert_eq!(counted(0.0, 0.5).0, 0);
        let ([mut first, _], mut peers) = fleet();
        assert!(first.failed(&mut peers), "the first one");
    }

    #[test]
    fn an_error_from_all_servers_counts_against_none_of_them() {
        for rate in [0.03, 0.1, 0.5, 0.9] {
            let (count, _) = counted(rate, rate);
            let share = f64::from(count) / 1e4 / rate;
            assert!(share < 0.35 && f64::from(count) < 150.0, "{share} of {rate}");
        }
        let (count, excess) = counted(1.0, 1.0);
        assert!(count <= 1 && excess == 0.0, "the very first one");
    }

    #[test]
    fn only_failures_beyond_those_of_other_servers_count() {
        let (count, _) = counted(1.0, 0.5);
        assert!((2_000..=4_000).contains(&count), "{count}");
        let (few, _) = counted(0.5, 0.1);
        assert!((1_000..=4_000).contains(&few), "{few}");
    }

    #[test]
    fn the_excess_is_what_neither_the_other_servers_nor_chance_explain() {
        let (mut servers, mut peers) = fleet::<3>();
        for (server, failures) in servers.iter_mut().zip([3, 1, 1]) {
            for _ in 0..failures {
                server.failed(&mut peers);
            }
        }
        // Shares of 0.271, 0.1 and 0.1: 0.271 - 0.1 - 2 * sqrt(0.1 / 1.9 * 0.1 * 0.9).
        assert!((servers[0].excess(&peers) - 0.033_350_56).abs() < 1e-8);
        assert_eq!(servers[1].excess(&peers), 0.0);
    }

    #[test]
    fn a_server_that_serves_long_enough_has_no_failing_share_left() {
        let ([mut one, _], mut peers) = fleet();
        one.failed(&mut peers);
        (0..109).for_each(|_| one.served(&mut peers));
        assert!((one.share - 0.1 * 0.9_f64.powi(109)).abs() < 1e-12 && one.share > 0.0);
        (0..2).for_each(|_| one.served(&mut peers));
        assert_eq!(one.share, 0.0);
    }

    #[test]
    fn failures_of_the_only_open_server_do_not_count() {
        let ([mut alone, mut shut], mut peers) = fleet();
        shut.compare(false, &mut peers);
        assert!((0..100).all(|_| !alone.failed(&mut peers)));
    }

    #[test]
    fn an_avoided_server_sets_no_standard_for_the_others() {
        let ([mut dead, mut ill, _], mut peers) = fleet();
        for _ in 0..100 {
            dead.failed(&mut peers);
        }
        let mut with_it = (ill, peers);
        assert!((0..5).all(|_| !with_it.0.failed(&mut with_it.1)), "as good as the mean");
        dead.compare(false, &mut peers);
        assert!(ill.failed(&mut peers));
        assert!(dead.excess(&peers) > 0.5, "it is compared with the others itself");
    }

    #[test]
    fn the_running_sum_matches_a_recomputed_one() {
        let ([mut one, mut two, mut three], mut peers) = fleet();
        one.failed(&mut peers);
        two.failed(&mut peers);
        two.served(&mut peers);
        three.failed(&mut peers);
        three.compare(false, &mut peers);
        let before = peers;
        peers.renew([one, two, three].iter());
        assert!((peers.shares - before.shares).abs() < 1e-12 && before.shares > 0.18);
        assert_eq!((peers.count, before.count), (2, 2));
        let mut worn = Peers { shares: 9.0, count: 9 };
        worn.renew([one, two, three].iter());
        assert_eq!(worn, peers);
        one.forget(&mut peers);
        two.forget(&mut peers);
        three.forget(&mut peers);
        assert!(peers.shares < 1e-12);
    }
}
