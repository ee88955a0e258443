//! Inputs: a sender that has worked for a while, and the servers' reports.

use bloc_policy::config::{CapacitySpec, RoutingKind, ServiceSpec};
use bloc_policy::endpoints::Answer;
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::server::Server;
use bloc_policy::server::steps::OneThread;
use bloc_policy::units::{Concurrency, Ratio, Timestamp};
use bloc_policy::wire::load_report::LoadReport;
use std::collections::VecDeque;
use std::time::Duration;

/// The seed of every generator here: the benches do the same each time.
pub const SEED: u64 = 1;
/// One answer in so many is a rejection, so that some of the servers wait for the end of their
/// reset interval.
const REJECTS: usize = 16;
/// Requests before the measurement, for each server.
const WARM_UP: usize = 20;
/// How often each server gets a request, on average; also the reset interval, so that the same
/// share of servers waits at any number of servers. About the request time in the reports, so that
/// the answers confirm the reports.
const PERIOD: Duration = Duration::from_millis(250);

/// A sender at work: each server has about one pending request, and one answer in 16 is a
/// rejection.
#[derive(Clone, Debug)]
pub struct Work {
    sender: Sender,
    rng: fastrand::Rng,
    now: Timestamp,
    /// The time from one request to the next.
    step: Duration,
    pending: VecDeque<Attempt>,
    /// The address of the server that a request goes to, which a filter gets from its host.
    address: String,
}

impl Work {
    /// A sender to `servers` servers that has sent 20 requests to each of them.
    ///
    /// # Errors
    /// More servers than there are addresses of the form `10.x.y.z`, or none.
    pub fn new(routing: RoutingKind, servers: u32) -> anyhow::Result<Self> {
        let address = |n: u32| format!("10.{}.{}.{}:8080", n >> 16, n >> 8 & 255, n & 255);
        let spec = ServiceSpec {
            routing: Some(routing),
            reset_interval: Some(format!("{}ms", PERIOD.as_millis())),
            endpoints: Some((0..servers).map(address).collect()),
            ..ServiceSpec::default()
        };
        let mut work = Self {
            sender: Sender::new(spec.validate()?, Timestamp::ZERO),
            rng: fastrand::Rng::with_seed(SEED),
            now: Timestamp::ZERO,
            step: PERIOD / servers.max(1),
            pending: VecDeque::new(),
            address: String::new(),
        };
        for _ in 0..servers as usize * WARM_UP {
            work.request();
        }
        Ok(work)
    }

    /// Chooses the servers of a request; returns the length of the list.
    pub fn choose(&mut self) -> usize {
        self.sender.choose(self.now, &mut self.rng).len()
    }

    /// A request, from its choice to the answer of an earlier one; returns the length of its list.
    pub fn request(&mut self) -> usize {
        self.now = self.now.after(self.step);
        let list = self.sender.choose(self.now, &mut self.rng);
        let (length, first) = (list.len(), list.first().copied());
        if let Some(endpoint) = first.and_then(|id| self.sender.endpoints().get(id)) {
            self.address.clear();
            self.address.push_str(endpoint.address());
            self.pending.extend(self.sender.begin(&self.address, Some(self.sender.turn(0)), self.now));
        }
        if self.pending.len() > self.sender.endpoints().len()
            && let Some(attempt) = self.pending.pop_front()
        {
            let report = report((self.rng.usize(..20)) as u32);
            let answer = match self.rng.usize(..REJECTS) {
                0 => Answer::Rejected(LoadReport { chip: false, ..report }),
                _ => Answer::Served(report),
            };
            self.sender.answer(&attempt, answer, self.now);
            self.sender.end(&attempt);
        }
        length
    }

    /// How many requests have not ended, as the sender counts them.
    pub fn in_flight(&self) -> u32 {
        self.sender.endpoints().iter().map(|(_, endpoint)| endpoint.pending()).sum()
    }

    /// The bid of a request's first attempt.
    pub fn bid(&self) -> Option<Duration> {
        self.sender.bid(self.sender.turn(0))
    }
}

/// The report of a server that has `queue` other requests.
pub fn report(queue: u32) -> LoadReport {
    LoadReport {
        chip: true,
        queue: Some(queue),
        capacity: Some(10),
        rate: Some(38.2),
        confidence: Ratio::new(0.93),
        execution: Some(Duration::from_micros(251_300)),
        service: Some(40.0),
        cpu: None,
        fleet: true,
        held: false,
    }
}

/// A server of capacity 10 by the SLO estimator that works on 4 requests at once and has answered a
/// thousand.
///
/// # Errors
/// Never, unless the ranges of the parameters change.
pub fn server() -> anyhow::Result<(Server, Timestamp)> {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Bloc),
        // Enough for 10.4 requests: rounding does not change the capacity.
        capacity: Some(CapacitySpec::Slo { slo: "260ms".into() }),
        concurrency: Some(4),
        hold: Some(false),
        ..ServiceSpec::default()
    };
    let mut server = Server::new(&spec.validate()?);
    let (mut now, mut rng) = (Timestamp::ZERO, fastrand::Rng::with_seed(SEED));
    for _ in 0..1000 {
        serve(&mut server, &mut now, &mut rng);
    }
    Ok((server, now))
}

/// A request from its arrival, at `now`, to the report in its answer, 100 ms later; it meets 3
/// others, and leaves as many.
pub fn serve(server: &mut Server, now: &mut Timestamp, rng: &mut fastrand::Rng) -> LoadReport {
    let (others, took) = (Concurrency::new(3), Duration::from_millis(100));
    let (mut thread, answered) = (OneThread::default(), now.after(took));
    if let Ok(admitted) = server.arrive(others, None, None, &thread, *now) {
        let inside = server.hand_over(admitted, false, &mut thread, *now);
        server.answer(inside, true, others, &mut thread, answered);
    }
    *now = answered;
    server.report(others, rng)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::endpoints::Permit;

    #[test]
    fn lists_one_server_for_each_attempt() {
        let cases =
            [(RoutingKind::Bloc, 4), (RoutingKind::LeastRequest, 4), (RoutingKind::Mu, 4), (RoutingKind::Bid, 9)];
        for (routing, places) in cases {
            for servers in [3, 10, 100] {
                // Among three servers, more than two bounces gain nothing.
                let places = if servers == 3 { places.min(6) } else { places };
                let mut work = Work::new(routing, servers).unwrap();
                assert_eq!(work.choose(), places, "{routing:?} among {servers}");
                assert_eq!(work.request(), places, "{routing:?} among {servers}");
            }
        }
    }

    #[test]
    fn a_warm_sender_avoids_some_servers_but_not_all() {
        for servers in [30, 300] {
            let mut work = Work::new(RoutingKind::Bloc, servers).unwrap();
            let addresses = work.sender.endpoints().iter().map(|(_, endpoint)| endpoint.address().to_owned());
            let addresses: Vec<String> = addresses.collect();
            let forced = |address: &String| {
                work.sender.begin(address, None, work.now).is_some_and(|attempt| attempt.permit == Permit::Forced)
            };
            let waiting = addresses.into_iter().filter(forced).count();
            assert!((1..servers as usize * 3 / 4).contains(&waiting), "{waiting} of {servers} wait");
            let silent = work.sender.endpoints().iter().filter(|(_, one)| one.report().queue.is_none()).count();
            assert!(silent * 10 <= servers as usize, "{silent} of {servers} have not reported");
            let rejecting = work.sender.endpoints().iter().filter(|(_, one)| !one.report().chip).count();
            assert!(
                (1..servers as usize / 2).contains(&rejecting),
                "{rejecting} of {servers} rejected the last request"
            );
        }
    }

    #[test]
    fn a_warm_sender_bids_and_a_warm_server_knows_its_capacity() {
        assert!(Work::new(RoutingKind::Bid, 10).unwrap().bid().is_some());
        let (server, _) = server().unwrap();
        assert_eq!(server.capacity().map(Concurrency::get), Some(10));
    }
}
