//! Mu: the server with the smallest expected response time (paper, section 4.3.3, equation 4.1).
//!
//! `R_i = (Q_i + 1) / mu_i`, with the queue `Q_i` (requests) and the service rate `mu_i` (requests/s) of [`crate::estimate`]; ties go to the one met first from a random
//! start. The list for the retries goes on with the next smallest.
//!
//! Herding: many senders see the same empty server, and each hears only with its own answers that it fills up. Each learns how many senders like itself there are, `g` =
//! mean queue / mean own pending requests per server, both smoothed, and counts each request that it sends `g` times until the next report of that server: while it sends one,
//! the others send `g - 1`. A lone gateway has `g = 1`. Simulated (4 servers of two speeds, 4 requests at once each, 90% load): without `g`, ten senders never get out of
//! oscillation (queues of thousands); with `g` their p99 is 360 ms, where the exact equation has 331 and least request 825. Tried and dropped: looking at an attractive server only with a
//! probability (p99 660 ms), because then nobody goes where there is room.
//!
//! Cold start: all servers count the same, so the choice is the fewest pending requests. Cost: one pass over the servers.
//! Deviations: 1. the measure against herding, on which the paper is silent; 2. see [`crate::estimate`].

use super::Routing;
use crate::endpoints::{EndpointId, Endpoints};
use crate::estimate::Fleet;
use crate::rng::Rng;
use crate::units::Timestamp;
use std::time::Duration;

/// The weight of the newest observation in the means that tell how many senders there are.
const WEIGHT: f64 = 0.02;
/// More places than this are not needed: ten retries at the most.
const PLACES: usize = 11;

/// Mu's selection.
#[derive(Clone, Debug)]
pub struct Mu {
    fleet: Fleet,
    /// Smoothed means per server: the queue, and the pending requests of this sender.
    queue: f64,
    pending: f64,
    /// The expected response time of the best server at the last choice, in seconds; none if no service rate is known.
    expected: Option<f64>,
}

impl Mu {
    /// Nothing is known.
    pub fn new(reset_interval: Duration) -> Self {
        Self { fleet: Fleet::new(reset_interval), queue: 0.0, pending: 0.0, expected: None }
    }

    /// Another reset interval.
    pub fn configure(&mut self, reset_interval: Duration) {
        self.fleet.configure(reset_interval);
    }

    /// The response time that the best server promised at the last choice, if any service rate is known.
    pub fn expected(&self) -> Option<Duration> {
        self.expected.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

impl Routing for Mu {
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
        let mut best: [(f64, Option<EndpointId>); PLACES] = [(f64::INFINITY, None); PLACES];
        let (mut queues, mut rates, mut pending, mut most) = (0.0, 0.0, 0u64, 0.0f64);
        let start = rng.below(count);
        for (id, endpoint) in endpoints.iter_from(start) {
            let estimate = endpoint.estimate();
            let known = estimate.service_rate();
            let rate = known.unwrap_or(self.fleet.most);
            let queue = estimate.known_queue(&self.fleet, rate, endpoint.pending(), now);
            queues += queue;
            rates += rate;
            pending += u64::from(endpoint.pending());
            most = most.max(known.unwrap_or(0.0));
            let cost = (queue + estimate.unknown_queue(&self.fleet) + 1.0) / rate;
            if best.get(length - 1).is_some_and(|worst| cost < worst.0) {
                insert(&mut best, length, cost, id);
            }
        }
        list.extend(best.iter().take(length).filter_map(|place| place.1));
        self.expected = best.first().map(|place| place.0).filter(|_| most > 0.0);
        self.fleet.wait = queues / rates;
        self.fleet.most = if most > 0.0 { most } else { 1.0 };
        self.queue += WEIGHT * (queues / count as f64 - self.queue);
        self.pending += WEIGHT * (pending as f64 / count as f64 - self.pending);
        self.fleet.senders = if self.pending > 0.0 { (self.queue / self.pending).max(1.0) } else { 1.0 };
    }
}

/// Puts a server into the ordered row of the best.
fn insert(best: &mut [(f64, Option<EndpointId>)], length: usize, cost: f64, id: EndpointId) {
    let Some(row) = best.get_mut(..length) else { return };
    let place = row.partition_point(|other| other.0 <= cost);
    if let Some(tail) = row.get_mut(place..) {
        tail.rotate_right(1);
        if let Some(first) = tail.first_mut() {
            *first = (cost, Some(id));
        }
    }
}
