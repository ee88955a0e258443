//! The servers: a number of places, one FIFO queue, a speed.

use crate::policies::{Probe, ServerModel};
use crate::requests::{NONE, Place, Request, Slab};
use bloc_policy::units::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// How many latencies a server keeps for each number of requests met, for probes; odd, so that
/// there is a median.
const LATENCIES: usize = 5;
/// How long a server takes to fail a request.
const FAILS_WITHIN: Duration = Duration::from_millis(1);
/// Higher numbers of requests met count as this one.
const MOST_MET: usize = 63;

/// A server.
pub struct Server {
    /// Its sidecar.
    pub model: Box<dyn ServerModel>,
    /// Its own speed.
    pub speed: f64,
    /// The factor by which its present speed differs from its own.
    pub factor: f64,
    /// How many of the next requests take longer, and the factor on its speed for them.
    pub cold: (u32, f64),
    /// The share of the admitted requests that it fails.
    pub failing: f64,
    /// The share that it answers with a client's error.
    pub refusing: f64,
    /// Whether it rejects everything.
    pub rejecting: bool,
    /// Whether it is alive.
    pub up: bool,
    /// Whether the senders know it.
    pub member: bool,
    /// Its requests, in service or waiting.
    pub inside: u32,
    /// When its sidecar hands over the requests for which places are kept.
    pub hand_overs: VecDeque<Timestamp>,
    busy: u32,
    first: u32,
    last: u32,
    latencies: Option<Latencies>,
}

impl Server {
    /// An idle server.
    pub fn new(model: Box<dyn ServerModel>, speed: f64, member: bool, probed: bool) -> Self {
        let latencies = probed.then(Latencies::default);
        let (factor, cold, failing, refusing, rejecting, up) = (1.0, (0, 1.0), 0.0, 0.0, false, true);
        let (inside, busy, first, last) = (0, 0, NONE, NONE);
        let hand_overs = VecDeque::new();
        Self {
            model,
            speed,
            factor,
            cold,
            failing,
            refusing,
            rejecting,
            up,
            member,
            inside,
            hand_overs,
            busy,
            first,
            last,
            latencies,
        }
    }

    /// Puts an admitted request into the queue. Call [`next`](Self::next) afterwards.
    pub fn join(&mut self, request: u32, requests: &mut Slab<Request>) {
        requests[request].met = self.inside;
        requests[request].place = Place::Queue;
        requests[request].behind = NONE;
        self.inside += 1;
        if self.last == NONE {
            self.first = request;
        } else {
            requests[self.last].behind = request;
        }
        self.last = request;
    }

    /// Takes a waiting request into service if a place is free: the request, and how long it takes.
    pub fn next(&mut self, concurrency: u32, requests: &mut Slab<Request>, now: Timestamp) -> Option<(u32, Duration)> {
        if self.busy >= concurrency || self.first == NONE {
            return None;
        }
        let index = self.first;
        let request = &mut requests[index];
        self.first = request.behind;
        if self.first == NONE {
            self.last = NONE;
        }
        self.busy += 1;
        (request.place, request.begun) = (Place::Service, now);
        self.model.begin(index, now);
        let mut speed = self.speed * self.factor;
        if self.cold.0 > 0 {
            self.cold.0 -= 1;
            speed *= self.cold.1;
        }
        let time = if request.fails || request.is_refused {
            FAILS_WITHIN
        } else if speed == 1.0 {
            request.work
        } else {
            request.work.div_f64(speed)
        };
        Some((index, time))
    }

    /// A waiting request leaves the queue.
    pub fn drop_out(&mut self, request: u32, requests: &mut Slab<Request>) {
        let behind = requests[request].behind;
        let (mut before, mut next) = (NONE, self.first);
        while next != request {
            (before, next) = (next, requests[next].behind);
        }
        if before == NONE {
            self.first = behind;
        } else {
            requests[before].behind = behind;
        }
        if self.last == request {
            self.last = before;
        }
        self.inside -= 1;
    }

    /// Whether a request waits.
    pub fn waits(&self) -> bool {
        self.first != NONE
    }

    /// A request in service is finished: its place is free.
    pub fn finish(&mut self) {
        self.busy -= 1;
    }

    /// The answer to a finished request leaves.
    pub fn leave(&mut self, request: &Request, now: Timestamp) {
        self.inside -= 1;
        if let Some(latencies) = &mut self.latencies {
            latencies.record(request.met, now.since(request.reached));
        }
    }

    /// The server dies and loses all its requests. When it comes back, it is a new process with the
    /// sidecar `successor`.
    pub fn die(&mut self, successor: Box<dyn ServerModel>) {
        (self.model, self.up, self.inside, self.busy) = (successor, false, 0, 0);
        (self.first, self.last) = (NONE, NONE);
        self.hand_overs.clear();
        self.latencies = self.latencies.is_some().then(Latencies::default);
    }

    /// Its answer to a probe.
    pub fn probe(&self) -> Probe {
        if self.model.lies() {
            return Probe { in_flight: 0, latency: Duration::ZERO };
        }
        let latency = self.latencies.as_ref().map_or(Duration::ZERO, |latencies| latencies.estimate(self.inside));
        Probe { in_flight: self.inside, latency }
    }
}

/// The latest latencies for each number of requests that a request met on arrival. The estimate is
/// the median at the present number, or at the nearest number with any latency (Prequal, section 4
/// of its paper). A single ring over all answers fails, as a trial showed: while the server is
/// busy, the ring forgets its idle latency; once idle, it looks slow and gets no requests.
#[derive(Clone, Debug)]
struct Latencies {
    met: Vec<Recent>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    ring: [Duration; LATENCIES],
    count: usize,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { met: vec![Recent::default(); MOST_MET + 1] }
    }
}

impl Latencies {
    fn record(&mut self, met: u32, latency: Duration) {
        let recent = &mut self.met[(met as usize).min(MOST_MET)];
        recent.ring[recent.count % LATENCIES] = latency;
        recent.count += 1;
    }

    fn estimate(&self, inside: u32) -> Duration {
        let at = (inside as usize).min(MOST_MET);
        let known = |place: &usize| self.met.get(*place).is_some_and(|recent| recent.count > 0);
        let nearest = (0..=MOST_MET).flat_map(|off| [at.wrapping_sub(off), at + off]).find(known);
        let Some(recent) = nearest.map(|place| &self.met[place]) else { return Duration::ZERO };
        let mut latencies = recent.ring;
        let count = recent.count.min(LATENCIES);
        let (_, median, _) = latencies[..count].select_nth_unstable(count / 2);
        *median
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::{Lying, Plain};
    use bloc_policy::config::ServiceSpec;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_server_takes_requests_first_come_first_served() {
        let mut server = Server::new(Box::new(Plain), 2.0, true, false);
        let mut requests = Slab::default();
        let all: Vec<u32> = (0..4)
            .map(|i| requests.insert(Request::new(at(0), Duration::from_millis(10 * (i + 1)), 0, NONE)))
            .collect();
        for &request in &all {
            server.join(request, &mut requests);
        }
        let time = |millis| Duration::from_millis(millis);
        assert_eq!(server.next(2, &mut requests, at(0)), Some((all[0], time(5))));
        assert_eq!(server.next(2, &mut requests, at(0)), Some((all[1], time(10))));
        assert_eq!(server.next(2, &mut requests, at(0)), None, "both places are taken");
        server.finish();
        server.leave(&requests[all[0]].clone(), at(5));
        server.factor = 0.5;
        assert_eq!(server.next(2, &mut requests, at(5)), Some((all[2], time(30))));
        server.finish();
        server.leave(&requests[all[1]].clone(), at(10));
        assert_eq!(server.next(2, &mut requests, at(10)), Some((all[3], time(40))));
        assert_eq!((server.inside, requests[all[3]].met), (2, 3));
    }

    #[test]
    fn a_request_that_drops_out_leaves_the_others_in_their_order() {
        for (out, then) in [(0, [1, 2, 3]), (1, [0, 2, 3]), (2, [0, 1, 3])] {
            let (mut server, mut requests) = (Server::new(Box::new(Plain), 1.0, true, false), Slab::default());
            let joins = |server: &mut Server, requests: &mut Slab<Request>| {
                let request = requests.insert(Request::new(at(0), Duration::ZERO, 0, NONE));
                server.join(request, requests);
                request
            };
            let first: Vec<u32> = (0..3).map(|_| joins(&mut server, &mut requests)).collect();
            server.drop_out(first[out], &mut requests);
            assert_eq!(server.inside, 2);
            joins(&mut server, &mut requests);
            let order: Vec<u32> =
                std::iter::from_fn(|| server.next(9, &mut requests, at(0))).map(|(request, _)| request).collect();
            assert_eq!(order, then, "{out} drops out");
        }
    }

    #[test]
    fn answers_a_probe_with_the_requests_inside_unless_it_lies() {
        let liar = Lying::new(&ServiceSpec::default().validate().unwrap());
        let models: [(Box<dyn ServerModel>, u32); 2] = [(Box::new(Plain), 1), (Box::new(liar), 0)];
        for (model, told) in models {
            let (mut server, mut requests) = (Server::new(model, 1.0, true, true), Slab::default());
            let request = requests.insert(Request::new(at(0), Duration::from_millis(10), 0, NONE));
            server.join(request, &mut requests);
            assert_eq!(server.probe().in_flight, told);
        }
    }

    #[test]
    fn estimates_the_median_latency_at_the_nearest_load() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.estimate(3), Duration::ZERO);
        for (met, millis) in [(0, 10), (4, 50), (4, 70), (4, 60), (9, 100)] {
            latencies.record(met, Duration::from_millis(millis));
        }
        assert_eq!(latencies.estimate(3), Duration::from_millis(60));
        assert_eq!(latencies.estimate(20), Duration::from_millis(100));
        (0..LATENCIES).for_each(|_| latencies.record(4, Duration::from_millis(20)));
        assert_eq!(latencies.estimate(4), Duration::from_millis(20), "old ones are forgotten");
        assert_eq!(latencies.estimate(0), Duration::from_millis(10), "newer ones at other loads replace nothing");
    }
}
