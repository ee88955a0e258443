//! What stands in front of a server.

use super::{ServerModel, Verdict};
use bloc_policy::capacity::Capacity;
use bloc_policy::config::ServiceParameters;
use bloc_policy::departures::{Flag, Totals};
use bloc_policy::server::Server;
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;
use std::collections::HashMap;
use std::time::Duration;

/// Nothing: everything is admitted, nothing is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl ServerModel for Plain {
    fn arrive(&mut self, _: u32, _: Option<Duration>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        None
    }
}

/// The inbound filter: the calls that it makes to `bloc_policy::server`, in the same order.
///
/// Without a limit of its own the application's line is inside the application, so the sidecar counts what is in the server; with `concurrency` in the service's
/// parameters it is the sidecar that holds them, and it counts those beyond. All requests have the same time left.
#[derive(Debug)]
pub struct Inbound {
    server: Server,
    /// What a request has left when it comes.
    left: Option<Duration>,
    in_flight: u32,
    /// Of these, streams that carry nothing.
    streams: u32,
    totals: Totals,
    /// By the request's number: its flag, and when it was handed to the application as far as the sidecar knows.
    inside: HashMap<u32, (Flag, Concurrency, Timestamp)>,
}

impl Inbound {
    /// An idle server with these parameters, whose requests have no deadline.
    pub fn new(parameters: &ServiceParameters) -> Self {
        Self::with_deadline(parameters, None)
    }

    /// The same, and a request has so much time left when it comes.
    pub fn with_deadline(parameters: &ServiceParameters, left: Option<Duration>) -> Self {
        let (server, totals) = (Server::new(parameters), Totals::default());
        Self { server, left, in_flight: 0, streams: 0, totals, inside: HashMap::new() }
    }

    fn waiting(&self, others: u32) -> u32 {
        others.saturating_sub(self.server.concurrency().map_or(0, Concurrency::get))
    }
}

impl ServerModel for Inbound {
    fn arrive(&mut self, request: u32, bid: Option<Duration>, now: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        let others = Concurrency::new(self.in_flight);
        let verdict = self.server.arrive(others, bid, self.left, now);
        let flag = self.server.flag(self.waiting(self.in_flight));
        match verdict {
            Ok(()) => {}
            Err(Reason::Bid) => return Verdict::Bounced(self.server.bare_report(others)),
            Err(Reason::Deadline) => return Verdict::Late(self.server.bare_report(others)),
            Err(_) => return Verdict::Rejected(self.server.bare_report(others)),
        }
        self.in_flight += 1;
        self.inside.insert(request, (flag, others, now));
        Verdict::Admitted
    }

    fn begin(&mut self, request: u32, now: Timestamp) {
        // Otherwise the hand-over is the arrival: the line is the application's, and the sidecar does not see when the work begins.
        if self.server.places().is_some()
            && let Some((_, _, since)) = self.inside.get_mut(&request)
        {
            *since = now;
        }
    }

    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        let others = self.in_flight - 1;
        let (flag, met, since) = self.inside.remove(&request)?;
        self.totals.departed += 1;
        self.totals.confident += u64::from(self.server.depart(flag, met, now.since(since), self.waiting(others), now));
        if self.server.is_due(now) {
            self.server.measure(self.totals, self.in_flight > 0, now);
        }
        self.in_flight = others;
        Some(self.server.report(Concurrency::new(others), rng))
    }

    fn stream(&mut self, counts: bool) {
        let count = |of: u32| if counts { of + 1 } else { of.saturating_sub(1) };
        (self.in_flight, self.streams) = (count(self.in_flight), count(self.streams));
    }

    fn places_of_streams(&self) -> u32 {
        self.server.places().map_or(0, |_| self.streams)
    }
}

/// A server that calls itself empty, whatever is in it: admits everything, grants every chip, answers probes with zero.
#[derive(Clone, Debug)]
pub struct Lying {
    report: LoadReport,
}

impl Lying {
    /// A liar with these parameters.
    #[allow(clippy::needless_update, reason = "what else a report holds, a liar leaves out")]
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity()).get().map(Concurrency::get);
        Self { report: LoadReport { chip: true, queue: Some(0), capacity, ..LoadReport::default() } }
    }
}

impl ServerModel for Lying {
    fn arrive(&mut self, _: u32, _: Option<Duration>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        Some(self.report)
    }

    fn lies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::config::{CapacitySpec, ServiceSpec};

    #[test]
    fn rejects_beyond_the_capacity_with_a_load_report() {
        let spec = ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 2 }), ..ServiceSpec::default() };
        let mut inbound = Inbound::new(&spec.validate().unwrap());
        let mut rng = fastrand::Rng::with_seed(1);
        let now = Timestamp::ZERO;
        assert_eq!(inbound.arrive(0, None, now, &mut rng), Verdict::Admitted);
        assert_eq!(inbound.arrive(1, None, now, &mut rng), Verdict::Admitted);
        let report = LoadReport { queue: Some(2), capacity: Some(2), ..LoadReport::default() };
        assert_eq!(inbound.arrive(2, None, now, &mut rng), Verdict::Rejected(report));
        assert_eq!(inbound.answer(0, now, &mut rng).and_then(|report| report.queue), Some(1));
        assert_eq!(inbound.arrive(3, None, now, &mut rng), Verdict::Admitted);
    }

    #[test]
    fn a_lying_server_admits_everything_and_reports_an_empty_queue() {
        let spec = ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 1 }), ..ServiceSpec::default() };
        let mut liar = Lying::new(&spec.validate().unwrap());
        let mut rng = fastrand::Rng::with_seed(1);
        for request in 0..3 {
            assert_eq!(liar.arrive(request, None, Timestamp::ZERO, &mut rng), Verdict::Admitted);
        }
        let report = liar.answer(0, Timestamp::ZERO, &mut rng).unwrap();
        assert!(report.chip && report.queue == Some(0) && report.capacity == Some(1), "{report:?}");
    }
}
