//! Probing in the style of Prequal (Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you
//! should balance", NSDI 2024).
//!
//! With every request a sender probes `PROBES` servers at random. The answers (requests in flight,
//! "RIF", and the expected latency) stay in a pool for later requests. A server is hot if its RIF
//! exceeds the quantile `HOT` of the recent RIFs. The choice is lexicographic: of the cold servers
//! in the pool the one with the least latency; if all are hot, the one with the least RIF. With
//! fewer than two in the pool: at random.
//!
//! A use of a probe adds one request to its RIF; the probe is dropped after `b` uses, `b = (1 +
//! delta) / ((1 - m/n) * PROBES - REMOVED)`, rounded at random to a neighbouring whole number, at
//! least 1. With each request `REMOVED` probe is dropped, the oldest and the worst in turns; the
//! worst is the hot one with the highest RIF, or without a hot one that with the highest latency. A
//! probe older than `MOST_AGE` is dropped.
//!
//! Values are the paper's: pool `m` 16, 3 probes a request, 1 removed, delta 1, quantile 2^-0.25 =
//! 0.84, age 1 s. Retries choose again.
//!
//! Deviations: 1. a newer probe of a server replaces the older one; 2. the pool is at most half of
//! the servers, since with `m >= n` the formula for `b` has no meaning; `b` is at most 16; 3. the
//! synchronous mode, and probing without requests, are left out.

use super::{Choice, Moment, Policy, Probe, SenderModel};
use crate::requests::Plan;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use std::time::Duration;

const POOL: usize = 16;
const PROBES: usize = 3;
const REMOVED: f64 = 1.0;
const DELTA: f64 = 1.0;
const HOT: f64 = 0.841;
const MOST_AGE: Duration = Duration::from_secs(1);
const MOST_USES: f64 = 16.0;
/// How many RIFs the quantile is taken over.
const HEARD: usize = 128;

/// Probing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prequal;

impl Policy for Prequal {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(Sender { heard: [0; HEARD], ..Sender::default() })
    }

    fn probes(&self) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    server: u32,
    probe: Probe,
    at: Timestamp,
    uses: u32,
}

struct Sender {
    members: Vec<u32>,
    /// The oldest first.
    pool: Vec<Entry>,
    size: usize,
    uses: f64,
    heard: [u32; HEARD],
    heard_count: usize,
    worst_next: bool,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            pool: Vec::with_capacity(POOL + 1),
            size: POOL,
            uses: 1.0,
            heard: [0; HEARD],
            heard_count: 0,
            worst_next: false,
        }
    }
}

impl Sender {
    /// Above this RIF a server is hot.
    fn threshold(&self) -> u32 {
        let mut heard = self.heard;
        let count = self.heard_count.min(HEARD);
        if count == 0 {
            return u32::MAX;
        }
        let (_, threshold, _) = heard[..count].select_nth_unstable(((count - 1) as f64 * HOT).round() as usize);
        *threshold
    }

    /// The place in the pool of the best server: hot or cold, then latency or RIF.
    fn best(&self) -> Option<usize> {
        let threshold = self.threshold();
        let rank = |entry: &Entry| {
            let Probe { in_flight, latency } = entry.probe;
            if in_flight <= threshold {
                (0, latency, in_flight)
            } else {
                (1, Duration::from_nanos(in_flight.into()), 0)
            }
        };
        (0..self.pool.len()).min_by_key(|&place| rank(&self.pool[place]))
    }

    fn worst(&self) -> Option<usize> {
        let threshold = self.threshold();
        let rank = |entry: &Entry| {
            let Probe { in_flight, latency } = entry.probe;
            if in_flight <= threshold { (0, latency) } else { (1, Duration::from_nanos(in_flight.into())) }
        };
        (0..self.pool.len()).max_by_key(|&place| rank(&self.pool[place]))
    }

    fn remove_one(&mut self) {
        let place = if self.worst_next { self.worst() } else { Some(0) };
        self.worst_next = !self.worst_next;
        if let Some(place) = place.filter(|&place| place < self.pool.len()) {
            self.pool.remove(place);
        }
    }
}

impl SenderModel for Sender {
    fn members(&mut self, servers: &[u32], _now: Timestamp) {
        self.members = servers.to_vec();
        self.pool.retain(|entry| servers.contains(&entry.server));
        self.size = POOL.min((servers.len() / 2).max(2));
        let net = (1.0 - self.size as f64 / servers.len().max(1) as f64) * PROBES as f64 - REMOVED;
        self.uses = if net > 0.0 { ((1.0 + DELTA) / net).clamp(1.0, MOST_USES) } else { MOST_USES };
    }

    fn choose(&mut self, _plan: &mut Plan, _attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        self.pool.retain(|entry| moment.now.since(entry.at) <= MOST_AGE);
        let place = if self.pool.len() < 2 { None } else { self.best() };
        let server = match place {
            None => *self.members.get(moment.rng.usize(..self.members.len().max(1)))?,
            Some(place) => {
                let entry = &mut self.pool[place];
                entry.uses += 1;
                entry.probe.in_flight += 1;
                let server = entry.server;
                let most = self.uses.floor() + f64::from(u8::from(moment.rng.f64() < self.uses.fract()));
                if f64::from(entry.uses) >= most {
                    self.pool.remove(place);
                }
                server
            }
        };
        self.remove_one();
        Some(Choice::plain(server))
    }

    fn answer(&mut self, _attempt: Choice, _answer: &Answer, _began: Timestamp, _now: Timestamp) {}

    fn probe(&mut self, into: &mut Vec<u32>, moment: &mut Moment<'_>) {
        while into.len() < PROBES.min(self.members.len()) {
            let server = self.members[moment.rng.usize(..self.members.len())];
            if !into.contains(&server) {
                into.push(server);
            }
        }
    }

    fn probed(&mut self, server: u32, probe: Probe, now: Timestamp) {
        self.heard[self.heard_count % HEARD] = probe.in_flight;
        self.heard_count += 1;
        self.pool.retain(|entry| entry.server != server);
        if self.pool.len() >= self.size {
            self.pool.remove(0);
        }
        self.pool.push(Entry { server, probe, at: now, uses: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::View;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    fn sender() -> Sender {
        let mut sender = Sender::default();
        sender.members(&(0..100).collect::<Vec<_>>(), at(0));
        sender
    }

    fn probe(in_flight: u32, millis: u64) -> Probe {
        Probe { in_flight, latency: Duration::from_millis(millis) }
    }

    fn choose(sender: &mut Sender, now: Timestamp) -> u32 {
        let (mut rng, view) = (fastrand::Rng::with_seed(1), View::default());
        let mut moment = Moment { now, rng: &mut rng, view: &view };
        sender.choose(&mut Plan::default(), 0, &mut moment).unwrap().server
    }

    #[test]
    fn chooses_the_fastest_cold_server_or_else_the_emptiest_hot_one() {
        let mut mixed = sender();
        for (server, probe) in [(1, probe(1, 90)), (2, probe(2, 30)), (3, probe(1, 50)), (4, probe(9, 10))] {
            mixed.probed(server, probe, at(0));
        }
        (mixed.heard, mixed.heard_count) = ([1; HEARD], HEARD);
        assert_eq!(choose(&mut mixed, at(1)), 3, "2 and 4 are hot, and 1 is slower");
        let mut hot = sender();
        for (server, in_flight, millis) in [(1, 5, 10), (2, 4, 90), (3, 4, 95), (4, 4, 99)] {
            hot.probed(server, probe(in_flight, millis), at(0));
        }
        (hot.heard, hot.heard_count) = ([1; HEARD], HEARD);
        assert_eq!(choose(&mut hot, at(1)), 2);
    }

    #[test]
    fn bounds_the_probe_pool_and_drops_old_probes() {
        let mut sender = sender();
        for server in 0..40 {
            sender.probed(server, probe(1, 10), at(u64::from(server)));
        }
        assert_eq!(sender.pool.len(), POOL);
        assert_eq!(sender.pool.first().map(|entry| entry.server), Some(24));
        choose(&mut sender, at(2000));
        assert!(sender.pool.is_empty());
    }

    #[test]
    fn removes_the_oldest_and_the_worst_probe_in_turn() {
        let mut sender = sender();
        for server in 1..=6 {
            sender.probed(server, probe(1, 10 * u64::from(server)), at(0));
        }
        sender.heard = [5; HEARD];
        sender.uses = 9.0;
        sender.remove_one();
        sender.remove_one();
        assert_eq!(sender.pool.iter().map(|entry| entry.server).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }

    #[test]
    fn probes_go_to_distinct_servers() {
        let (mut rng, view) = (fastrand::Rng::with_seed(1), View::default());
        let mut sender = sender();
        sender.members(&[4, 5, 6], at(0));
        let mut probed = Vec::new();
        sender.probe(&mut probed, &mut Moment { now: at(0), rng: &mut rng, view: &view });
        probed.sort_unstable();
        assert_eq!(probed, [4, 5, 6]);
    }
}
