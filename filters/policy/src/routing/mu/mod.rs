//! Mu: the server with the smallest expected response time, `R_i = (Q_i + 1) / mu_i` (Bhattacharya,
//! 2024, section 4.3.3, equation 4.1); `Q_i` (requests) and `mu_i` (requests/s) are in
//! [`estimate`].
//!
//! Ties go to the first server from a random start. Retries take the next smallest. Shut servers
//! ([`crate::endpoints`]) are left out; after the reset interval, each choice among `n` servers
//! probes one with probability `1 / n`. Cost: one pass, about 3 ns a server.
//!
//! Deviations: protection against herding, shut servers, rounded queues and rates
//! (`filters/adr/0014-failures-and-what-is-not-confirmed.md`).

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

/// The weight of the newest observation in the means that estimate the number of senders.
const WEIGHT: f64 = 0.02;
/// The longest list: the first attempt and at most ten retries.
const PLACES: usize = 11;

/// How often to redraw a start that falls on a server that is left out.
const DRAWS: usize = 4;

/// Allows for two rounding errors and a little more.
const MARGIN: f64 = 1.0 + 8.0 * f64::EPSILON;

/// Mu's selection.
#[derive(Clone, Debug)]
pub struct Mu {
    fleet: Fleet,
    known: Known,
    /// Smoothed means per server: the queue, and this sender's pending requests.
    queue: f64,
    pending: f64,
    /// The expected response time of the best server at the last choice, in seconds, without the
    /// guess against herding; none for a probe, or if no service rate is known.
    expected: Option<f64>,
}

impl Mu {
    /// No knowledge yet. Reports expire after [`HORIZON`](estimate::HORIZON) reset intervals.
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

    /// None for a probe, or if no service rate is known.
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
        // If the start is left out, the server behind it would win most ties, so draw another
        // start.
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
        // Counts the request being placed: a sender of one request at a time never has another
        // pending.
        let placed = 1.0 / looked_at as f64;
        self.fleet.senders = ((self.queue + placed) / (self.pending + placed)).max(1.0);
    }

    fn learn(&mut self, event: &Event<'_>, endpoints: &Endpoints) {
        self.known.learn(event, endpoints);
    }
}

/// Rounds down to quarters of a request: queues are not known more exactly.
fn rounded(queue: f64) -> f64 {
    (4.0 * queue).floor() / 4.0
}

/// Fills the list up to `length` with servers that are left out, ordered by the end of their
/// intervals.
fn fill(list: &mut Vec<EndpointId>, length: usize, standings: &[Standing], endpoints: &Endpoints) {
    let shut = standings.iter().enumerate().filter(|(_, standing)| standing.is_shut());
    let mut shut: Vec<_> = shut.map(|(place, standing)| (standing.shut_until(), place)).collect();
    shut.sort_unstable();
    let shut = shut.into_iter().filter_map(|(_, place)| endpoints.at(place));
    let probed = list.first().copied();
    let rest = length - list.len();
    list.extend(shut.filter(|id| Some(*id) != probed).take(rest));
}

/// One pass over all servers: the best of them, and the sums.
struct Scan {
    /// Expected response times in seconds and places, ascending.
    best: [(f64, usize); PLACES],
    length: usize,
    looked_at: usize,
    queues: f64,
    rates: f64,
    pending: u64,
    /// The largest known service rate; 0: none.
    most: f64,
}

impl Scan {
    fn new(length: usize) -> Self {
        let best = [(f64::INFINITY, usize::MAX); PLACES];
        Self { best, length, looked_at: 0, queues: 0.0, rates: 0.0, pending: 0, most: 0.0 }
    }

    /// Scans servers, the first of them at `place`. Local copies keep the sums in registers.
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
            // The division costs as much as the rest. Skip it for servers that are worse by more
            // than a rounding error.
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

    /// Inserts a server among the best and drops the last one.
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
