//! The models in front of a server.

use super::{ServerModel, Verdict};
use bloc_policy::config::ServiceParameters;
use bloc_policy::server::Server;
use bloc_policy::server::capacity::Capacity;
use bloc_policy::server::steps::{Admitted, Inside, OneThread};
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;
use std::collections::HashMap;
use std::time::Duration;

/// No model: admits everything, reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl ServerModel for Plain {
    fn arrive(&mut self, _: u32, _: Option<Bid>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        None
    }
}

/// The inbound filter: a request takes the same steps through `bloc_policy::server`.
///
/// Without `concurrency` in the service's parameters the queue is inside the application, and the
/// sidecar counts all requests in the server. With it the sidecar holds the waiting requests, and
/// counts those beyond `concurrency`. All requests have the same time left.
#[derive(Debug)]
pub struct Inbound {
    server: Server,
    /// The time that a request has left at its arrival.
    left: Option<Duration>,
    in_flight: u32,
    /// Of these, idle streams.
    streams: u32,
    thread: OneThread,
    /// By the request's number.
    stages: HashMap<u32, Stage>,
    /// Until when the request that arrived last may be held for its bid.
    holds_until: Option<Timestamp>,
}

/// How far a request has come.
#[derive(Debug)]
enum Stage {
    /// The sidecar has it.
    Waits(Admitted),
    /// The application has it.
    Inside(Inside),
}

impl Inbound {
    /// An idle server with these parameters, whose requests have no deadline.
    pub fn new(parameters: &ServiceParameters) -> Self {
        Self::with_deadline(parameters, None)
    }

    /// The same, but a request has this much time left at its arrival.
    pub fn with_deadline(parameters: &ServiceParameters, left: Option<Duration>) -> Self {
        let (server, thread) = (Server::new(parameters), OneThread::default());
        Self { server, left, in_flight: 0, streams: 0, thread, stages: HashMap::new(), holds_until: None }
    }

    /// The application has answered a request. `tells_speed`: whether the time that it took says
    /// how fast the application is.
    fn answered(
        &mut self,
        request: u32,
        tells_speed: bool,
        now: Timestamp,
        rng: &mut fastrand::Rng,
    ) -> Option<LoadReport> {
        let others = Concurrency::new(self.in_flight - 1);
        match self.stages.remove(&request)? {
            Stage::Inside(inside) => self.server.answer(inside, tells_speed, others, &mut self.thread, now),
            Stage::Waits(admitted) => self.server.leave(admitted, others, now),
        }
        // In an interval with an answer something was executed.
        self.server.tick(&self.thread, || true, now);
        self.in_flight = others.get();
        Some(self.server.report(others, rng))
    }
}

impl ServerModel for Inbound {
    fn arrive(&mut self, request: u32, bid: Option<Bid>, now: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        let others = Concurrency::new(self.in_flight);
        let admitted = match self.server.arrive(others, bid, self.left, &self.thread, now) {
            Ok(admitted) => admitted,
            Err(Reason::Bid) => return Verdict::Bounced(self.server.bare_report(others)),
            Err(Reason::Deadline) => return Verdict::Late(self.server.bare_report(others)),
            Err(_) => return Verdict::Rejected(self.server.bare_report(others)),
        };
        self.in_flight += 1;
        // Without places the queue is in the application, and the sidecar does not see when the
        // work begins.
        let stage = match self.server.places() {
            Some(_) => Stage::Waits(admitted),
            None => Stage::Inside(self.server.hand_over(admitted, false, &mut self.thread, now)),
        };
        self.stages.insert(request, stage);
        let (hold, ends) = self.server.max_hold(bid, self.left);
        self.holds_until = (self.holds().is_some() && ends == Reason::Bid).then(|| now.after(hold));
        Verdict::Admitted
    }

    fn holds_until(&self, _request: u32) -> Option<Timestamp> {
        self.holds_until
    }

    fn give_up(&mut self, request: u32) -> Option<LoadReport> {
        self.stages.remove(&request)?;
        self.in_flight -= 1;
        Some(LoadReport { held: true, ..self.server.bare_report(Concurrency::new(self.in_flight)) })
    }

    fn begin(&mut self, request: u32, now: Timestamp) {
        let stage = match self.stages.remove(&request) {
            Some(Stage::Waits(admitted)) => Stage::Inside(self.server.hand_over(admitted, true, &mut self.thread, now)),
            Some(inside) => inside,
            None => return,
        };
        self.stages.insert(request, stage);
    }

    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        self.answered(request, true, now, rng)
    }

    fn fail(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        self.answered(request, false, now, rng)
    }

    fn stream(&mut self, counts: bool) {
        let count = |of: u32| if counts { of + 1 } else { of.saturating_sub(1) };
        (self.in_flight, self.streams) = (count(self.in_flight), count(self.streams));
    }

    fn places_of_streams(&self) -> u32 {
        self.server.places().map_or(0, |_| self.streams)
    }

    fn holds(&self) -> Option<u32> {
        self.server.places().map(Concurrency::get)
    }
}

/// A server that always reports itself empty: admits everything, grants every chip, answers probes
/// with zero.
#[derive(Clone, Debug)]
pub struct Lying {
    report: LoadReport,
}

impl Lying {
    /// A lying server with these parameters.
    #[allow(clippy::needless_update, reason = "what else a report holds, a liar leaves out")]
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity()).get().map(Concurrency::get);
        Self { report: LoadReport { chip: true, queue: Some(0), capacity, ..LoadReport::default() } }
    }
}

impl ServerModel for Lying {
    fn arrive(&mut self, _: u32, _: Option<Bid>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
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
    use bloc_policy::config::{CapacitySpec, RoutingKind, ServiceSpec};
    use bloc_policy::units::Ratio;

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

    fn sidecar(hold: bool) -> Inbound {
        let spec = ServiceSpec { concurrency: Some(1), hold: Some(hold), ..ServiceSpec::default() };
        Inbound::new(&spec.validate().unwrap())
    }

    /// The last of 40 reports of a server that always has `inside` requests and takes 100 ms for
    /// each, one at a time.
    fn measured(inside: u32) -> LoadReport {
        let (mut inbound, mut rng) = (sidecar(true), fastrand::Rng::with_seed(1));
        let (mut now, mut report) = (Timestamp::ZERO, None);
        for request in 0..inside - 1 {
            inbound.arrive(request, None, now, &mut rng);
        }
        for request in 0..40 {
            inbound.arrive(request + inside - 1, None, now, &mut rng);
            inbound.begin(request, now);
            now = now.after(Duration::from_millis(100));
            report = inbound.answer(request, now, &mut rng);
        }
        report.unwrap()
    }

    #[test]
    fn a_server_with_a_queue_is_confident_of_the_rate_that_it_reports() {
        let report = measured(4);
        assert_eq!((report.rate, report.confidence), (Some(10.0), Some(Ratio::ONE)));
        assert_eq!(report.execution, Some(Duration::from_millis(100)), "without the wait in the line");
    }

    #[test]
    fn a_server_without_a_queue_reports_no_confidence() {
        let report = measured(1);
        assert_eq!((report.rate, report.confidence), (Some(10.0), Some(Ratio::default())));
    }

    /// Requests take 100 ms, and two are in the server. A bid of 180 ms is too low when the running
    /// one has just begun, and not when it has been running for 95 ms.
    #[test]
    fn a_running_request_has_an_age_from_its_arrival_or_from_the_answer_to_the_one_before() {
        for hold in [true, false] {
            let (routing, hold) = (Some(RoutingKind::Bid), Some(hold));
            let spec = ServiceSpec { concurrency: Some(1), routing, hold, ..ServiceSpec::default() };
            let mut inbound = Inbound::new(&spec.validate().unwrap());
            let (mut now, mut rng) = (Timestamp::ZERO, fastrand::Rng::with_seed(1));
            let after = |now: Timestamp, millis| now.after(Duration::from_millis(millis));
            for request in 0..1_000 {
                inbound.arrive(request, None, now, &mut rng);
                inbound.begin(request, now);
                now = after(now, 100);
                inbound.answer(request, now, &mut rng);
            }
            let bounced = |inbound: &mut Inbound, now| {
                let bid = Some(Duration::from_millis(180).into());
                let bounced = matches!(inbound.arrive(9_999, bid, now, &mut fastrand::Rng::new()), Verdict::Bounced(_));
                inbound.in_flight -= u32::from(!bounced);
                bounced
            };
            now = after(now, 1_000);
            inbound.arrive(1_000, None, now, &mut rng);
            inbound.begin(1_000, now);
            assert_eq!([0, 95].map(|age| bounced(&mut inbound, after(now, age))), [true, false], "{hold:?}");
            inbound.arrive(1_001, None, after(now, 96), &mut rng);
            now = after(now, 100);
            inbound.answer(1_000, now, &mut rng);
            inbound.begin(1_001, now);
            assert_eq!([0, 95].map(|age| bounced(&mut inbound, after(now, age))), [true, false], "{hold:?}");
        }
    }

    #[test]
    fn streams_that_count_are_in_the_server_and_take_the_places_that_it_gives() {
        for (hold, places) in [(true, 2), (false, 0)] {
            let (mut inbound, mut rng) = (sidecar(hold), fastrand::Rng::with_seed(1));
            let mut queue = |inbound: &mut Inbound| {
                inbound.arrive(0, None, Timestamp::ZERO, &mut rng);
                inbound.answer(0, Timestamp::ZERO, &mut rng).and_then(|report| report.queue)
            };
            (0..2).for_each(|_| inbound.stream(true));
            assert_eq!((inbound.places_of_streams(), queue(&mut inbound)), (places, Some(2)));
            (0..2).for_each(|_| inbound.stream(false));
            assert_eq!((inbound.places_of_streams(), queue(&mut inbound)), (0, Some(0)));
        }
    }

    #[test]
    fn a_held_request_is_bounced_after_twice_its_bid() {
        let millis = Duration::from_millis;
        let bid = Bid { most: millis(100), fleet: Some(millis(50)) };
        for (hold, bid, until) in [
            (true, Some(bid), Some(Timestamp::ZERO.after(millis(210)))),
            (true, Some(bid.most.into()), None),
            (true, None, None),
            (false, Some(bid), None),
        ] {
            let (mut inbound, mut rng) = (sidecar(hold), fastrand::Rng::with_seed(1));
            inbound.arrive(0, None, Timestamp::ZERO, &mut rng);
            inbound.arrive(1, bid, Timestamp::ZERO.after(millis(10)), &mut rng);
            assert_eq!(inbound.holds_until(1), until, "{hold}, {bid:?}");
            assert_eq!(inbound.give_up(1).map(|report| (report.queue, report.held)), Some((Some(1), true)));
            assert_eq!(inbound.give_up(1), None, "it is gone");
            assert_eq!(inbound.answer(0, Timestamp::ZERO, &mut rng).and_then(|report| report.queue), Some(0));
        }
    }

    #[test]
    fn a_server_without_a_filter_admits_everything_and_says_nothing() {
        let mut rng = fastrand::Rng::with_seed(1);
        Plain.stream(true);
        assert_eq!(Plain.arrive(0, Some(Duration::ZERO.into()), Timestamp::ZERO, &mut rng), Verdict::Admitted);
        assert_eq!(Plain.answer(0, Timestamp::ZERO, &mut rng), None);
        assert_eq!((Plain.places_of_streams(), Plain.holds_until(0)), (0, None), "it holds none back");
        assert_eq!(Plain.give_up(0), None);
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
