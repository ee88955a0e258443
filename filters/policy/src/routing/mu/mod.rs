//! Mu: the server with the smallest expected response time (Bhattacharya, 2024, section 4.3.3,
//! equation 4.1).
//!
//! `R_i = (Q_i + 1) / mu_i`, with the queue `Q_i` (requests) and the service rate `mu_i`
//! (requests/s) of [`estimate`]. Ties go to the first server from a random start.
//! The list for the retries goes on with the next smallest.
//!
//! Shut servers ([`crate::endpoints`]), which rejected or failed within the reset interval, are
//! left out. When it has passed, each choice among `n` servers probes such a server with
//! probability `1 / n`, so that it attracts no more than its share while it is broken. The list for
//! the retries ends with shut servers if there are not enough others.
//!
//! Queues count in quarters of a request, and rates in steps of 3 to 6%. Nobody knows them more
//! exactly, and of idle servers the one that is slightly worse would get nothing (simulated: 40
//! senders at 10% load, a server that was down for 10 s had 0.75 of its share for minutes).
//!
//! Herding: many senders see the same empty server, and each learns only from its own answers that
//! it fills up. So each sender estimates how many senders like itself there are, `g` = (mean
//! queue + 1/n) / (mean own pending requests + 1/n) per server, both means smoothed. It counts each
//! request that it sends `g` times until the next report of that server: while it sends one, the
//! others send `g - 1`. A lone gateway has `g = 1`. Simulated (4 servers of two speeds, 4 requests
//! at once each, 90% load): without `g`, ten senders never get out of oscillation (queues of
//! thousands). With `g` their p99 is 360 ms. Least request has 825 ms. A balancer that applies
//! equation 4.1 to the servers' true queues and rates (the simulator's `shortest_wait`) has 331 ms.
//! Tried and dropped: looking at an attractive server only with a probability (p99 660 ms), because
//! then nobody goes where there is room.
//!
//! Cold start: all servers count the same, so the one with the fewest pending requests is chosen.
//! Cost: one pass over numbers that lie side by side (some 3 ns a server).
//!
//! Deviations:
//! 1. the measure against herding, on which the paper is silent;
//! 2. see [`estimate`];
//! 3. shut servers are left out: the paper has no failures;
//! 4. the steps.
//!
//! [`Mu::expected`], by which requests are refused, leaves out the guess against herding, and is
//! none for a probe.

pub mod estimate;
mod known;

use super::contract::{Event, Routing};
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use estimate::{Fleet, Standing};
use known::Known;
use std::time::Duration;

/// The weight of the newest observation in the means that tell how many senders there are.
const WEIGHT: f64 = 0.02;
/// The longest list: the first attempt and ten retries at most.
const PLACES: usize = 11;

/// How often another start is drawn in place of a server that is left out.
const DRAWS: usize = 4;

/// Room for two roundings and a little more.
const MARGIN: f64 = 1.0 + 8.0 * f64::EPSILON;

/// Mu's selection.
#[derive(Clone, Debug)]
pub struct Mu {
    fleet: Fleet,
    known: Known,
    /// Smoothed means per server: the queue, and the pending requests of this sender.
    queue: f64,
    pending: f64,
    /// The expected response time of the best server at the last choice, in seconds; none if no
    /// service rate is known.
    expected: Option<f64>,
}

impl Mu {
    /// Nothing is known; reports are forgotten within some reset intervals.
    pub fn with_interval(reset_interval: Duration) -> Self {
        let known = Known::new(reset_interval);
        Self { fleet: Fleet::new(reset_interval), known, queue: 0.0, pending: 0.0, expected: None }
    }
}

impl Routing for Mu {
    fn new(parameters: &ServiceParameters) -> Self {
        Self::with_interval(parameters.reset_interval())
    }

    fn configure(&mut self, parameters: &ServiceParameters) {
        self.fleet.configure(parameters.reset_interval());
        self.known.configure(parameters.reset_interval());
    }

    /// None if no service rate is known.
    fn expected(&self) -> Option<Duration> {
        self.expected.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        list.clear();
        self.expected = None;
        let count = endpoints.len();
        let length = length.min(PLACES);
        if count == 0 || length == 0 {
            return;
        }
        self.known.refresh(endpoints);
        let standings = self.known.standings();
        let mut start = rng.below(count);
        let at = |place: usize| standings.get(place);
        let probes = at(start).is_some_and(|standing| standing.may_be_probed(now));
        if probes {
            list.extend(endpoints.at(start));
        }
        // Ties go to the first server from here. If that one is left out, the server behind it
        // would win most of them, so another start is drawn.
        for _ in 0..DRAWS {
            if at(start).is_some_and(Standing::is_shut) {
                start = rng.below(count);
            }
        }
        let (front, back) = standings.split_at_checked(start).unwrap_or_default();
        let mut scan = Scan::new(length);
        scan.look(back, front.len(), self.fleet, now);
        scan.look(front, 0, self.fleet, now);
        let Scan { best, looked_at, queues, rates, pending, most, .. } = scan;
        list.extend(best.iter().take(length - list.len()).filter_map(|&(_, place)| endpoints.at(place)));
        let nearest = best.first().and_then(|&(_, place)| at(place)).filter(|_| most > 0.0 && !probes);
        self.expected = nearest.map(|standing| standing.expected(&self.fleet, now));
        if list.len() < length && looked_at < count {
            fill(list, length, standings, endpoints);
        }
        if looked_at == 0 {
            return;
        }
        self.fleet.wait = queues / rates;
        self.fleet.most = if most > 0.0 { most } else { 1.0 };
        let (queue, pending) = (queues / looked_at as f64, pending as f64 / looked_at as f64);
        self.known.survey(queue, endpoints, now);
        self.queue += WEIGHT * (queue - self.queue);
        self.pending += WEIGHT * (pending - self.pending);
        // Counts the request that is being placed: a sender of one at a time never has another
        // pending.
        let placed = 1.0 / looked_at as f64;
        self.fleet.senders = ((self.queue + placed) / (self.pending + placed)).max(1.0);
    }

    fn learn(&mut self, event: &Event<'_>, endpoints: &Endpoints) {
        self.known.learn(event, endpoints);
    }
}

/// Rounds down to quarters of a request: nobody knows a queue more exactly.
fn rounded(queue: f64) -> f64 {
    (4.0 * queue).floor() / 4.0
}

/// Adds servers that are left out, in the order in which their intervals end, until there are
/// `length`.
fn fill(list: &mut Vec<EndpointId>, length: usize, standings: &[Standing], endpoints: &Endpoints) {
    let shut = standings.iter().enumerate().filter(|(_, standing)| standing.is_shut());
    let mut shut: Vec<_> = shut.map(|(place, standing)| (standing.shut_until(), place)).collect();
    shut.sort_unstable();
    let shut = shut.into_iter().filter_map(|(_, place)| endpoints.at(place));
    let probed = list.first().copied();
    let rest = length - list.len();
    list.extend(shut.filter(|id| Some(*id) != probed).take(rest));
}

/// A look at all servers: the best of them, and the sums.
struct Scan {
    /// Expected response times in seconds, and places, in order.
    best: [(f64, usize); PLACES],
    length: usize,
    /// How many were not left out.
    looked_at: usize,
    queues: f64,
    rates: f64,
    pending: u64,
    /// The largest service rate that is known; 0: none.
    most: f64,
}

impl Scan {
    fn new(length: usize) -> Self {
        let best = [(f64::INFINITY, usize::MAX); PLACES];
        Self { best, length, looked_at: 0, queues: 0.0, rates: 0.0, pending: 0, most: 0.0 }
    }

    /// Looks at some of the servers, the first of which is at `place`. Sums and parameters are
    /// local while it runs, so that they stay in registers.
    fn look(&mut self, standings: &[Standing], mut place: usize, fleet: Fleet, now: Timestamp) {
        let Self { mut looked_at, mut queues, mut rates, mut pending, mut most, .. } = *self;
        let mut worst = self.worst();
        for standing in standings {
            if standing.is_shut() {
                place += 1;
                continue;
            }
            looked_at += 1;
            let known = standing.service_rate();
            let rate = if known > 0.0 { known } else { fleet.most };
            let queue = standing.known_queue(&fleet, rate, now);
            queues += queue;
            rates += rate;
            pending += u64::from(standing.pending());
            most = if known > most { known } else { most };
            let line = rounded(queue + standing.unknown_queue(&fleet, now)) + 1.0;
            // A division takes as long as all the rest. Servers that are worse by more than a
            // rounding error are spared it.
            if line < worst * rate * MARGIN && line / rate < worst {
                self.insert(line / rate, place);
                worst = self.worst();
            }
            place += 1;
        }
        self.looked_at = looked_at;
        (self.queues, self.rates, self.pending, self.most) = (queues, rates, pending, most);
    }

    /// The cost of the last of the best.
    fn worst(&self) -> f64 {
        self.best.get(self.length - 1).map_or(0.0, |last| last.0)
    }

    /// Puts a server among the best, of which the last one drops out.
    fn insert(&mut self, cost: f64, place: usize) {
        let Some(row) = self.best.get_mut(..self.length) else { return };
        let rank = row.partition_point(|other| other.0 <= cost);
        if let Some(tail) = row.get_mut(rank..) {
            tail.rotate_right(1);
            if let Some(first) = tail.first_mut() {
                *first = (cost, place);
            }
        }
    }
}

#[cfg(test)]
mod tests;
