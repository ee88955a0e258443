//! A server: all that one sidecar decides and measures about the application behind it.
//!
//! Combines [`Admission`], [`Capacity`], [`Departures`] and the server's own [`ServiceRate`]. The
//! caller hands in how many requests are in the server and in the queue, because all threads of an
//! Envoy share these numbers.
//!
//! The service rate `mu` (requests/s) comes from the best knowledge available:
//!
//! - with `concurrency: C`, `mu = C / execution time`, since the execution time is measured from
//!   the hand-over to the application on;
//! - else by the rule of [`ServiceRate`] from departure rate and confidence, but at least one
//!   request at a time, `1 / execution time`. Without that bound, an idle server whose few
//!   departures were confident by chance is taken for a slow one, is left alone, and stays idle
//!   (simulated: one gateway, 20 servers, p50 27 s instead of 71 ms).
//!
//! With `hold: false` the queue is in the application. A request that met `n >= C` others took
//! `(n + 1/2) / C` execution times (`n - C` whole ones before it, half of one that had begun, and
//! its own), so its response time is divided by that.
//!
//! A request for which there is a free place (`n < C`; where `C` is not known, `n = 0`) is rejected
//! for the capacity only, whatever its bid and its deadline: a server that serves nobody never
//! learns how fast it is.
//!
//! A request that meets `n` others has an expected response time of
//! `max((n + 1) / mu, execution time)`. Cold start: unknown, and no request is rejected for it.

use crate::admission::Admission;
use crate::capacity::Capacity;
use crate::config::ServiceParameters;
use crate::departures::{Departures, Flag, Totals};
use crate::rng::Rng;
use crate::service_rate::ServiceRate;
use crate::units::{Concurrency, Timestamp};
use crate::wire::load_report::LoadReport;
use crate::wire::reason::Reason;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Measurements of an application, which all of its configurations share.
#[derive(Debug, Default)]
struct Measured {
    departures: Departures,
    rate: ServiceRate,
}

/// One sidecar's view of its application, under one configuration.
#[derive(Debug)]
pub struct Server {
    /// Without endpoints, which only senders use.
    parameters: ServiceParameters,
    capacity: Capacity,
    measured: Rc<RefCell<Measured>>,
}

impl Server {
    /// A server that has not served anything.
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity());
        Self { parameters: parameters.without_endpoints(), capacity, measured: Rc::default() }
    }

    /// The same application under another configuration: both share the measurements.
    #[must_use]
    pub fn beside(&self, parameters: &ServiceParameters) -> Self {
        let (capacity, measured) = (self.capacity.clone(), Rc::clone(&self.measured));
        let mut other = Self { parameters: self.parameters.clone(), capacity, measured };
        other.configure(parameters);
        other.follow();
        other
    }

    /// Applies new parameters. The measurements stay, and so does a capacity estimator whose own
    /// parameters do not change.
    pub fn configure(&mut self, parameters: &ServiceParameters) {
        if self.parameters.capacity() != parameters.capacity() {
            self.capacity = Capacity::new(parameters.capacity());
        }
        self.parameters = parameters.without_endpoints();
    }

    /// The parameters in force, without endpoints.
    pub fn parameters(&self) -> &ServiceParameters {
        &self.parameters
    }

    /// Whether the load is also reported as ORCA.
    pub fn orca(&self) -> bool {
        self.parameters.orca()
    }

    /// Whether a rejection says why to callers without these filters.
    pub fn tells_why(&self) -> bool {
        self.parameters.debug_headers()
    }

    /// Requests that the application works on at once, if that is known.
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.parameters.concurrency()
    }

    /// How many requests the application may have at once; none: nothing is held.
    pub fn places(&self) -> Option<Concurrency> {
        self.parameters.concurrency().filter(|_| self.parameters.hold())
    }

    /// How long a request may be held that arrived with this time left until its deadline.
    pub fn patience(&self, deadline: Option<Duration>) -> Duration {
        let execution = self.measured.borrow().departures.execution().unwrap_or_default();
        deadline.map_or(self.parameters.max_queue_wait(), |left| {
            self.parameters.max_queue_wait().min(left.saturating_sub(execution))
        })
    }

    /// The capacity in force; none: no limit (yet).
    pub fn capacity(&self) -> Option<Concurrency> {
        self.capacity.get()
    }

    /// A request arrives and meets `others` in the server. It accepts a wait as long as its `bid`,
    /// and has `deadline` left, if given. The capacity is checked first: a bid is for a place in
    /// the queue, not for one beyond it.
    ///
    /// # Errors
    /// Why it must not enter.
    pub fn arrive(
        &mut self,
        others: Concurrency,
        bid: Option<Duration>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        let admitted = Admission::new(self.capacity(), self.parameters.headroom()).admits(others);
        self.capacity.observe(Concurrency::new(others.get().saturating_add(u32::from(admitted))), now);
        if !admitted {
            return Err(Reason::Capacity);
        }
        if self.has_a_place(others) {
            return Ok(());
        }
        let Some(expected) = self.expected(others) else { return Ok(()) };
        if deadline.is_some_and(|left| expected > left) {
            return Err(Reason::Deadline);
        }
        if bid.is_some_and(|most| expected > most) {
            return Err(Reason::Bid);
        }
        Ok(())
    }

    /// Whether the application has a place for a request that meets this many others. Such a
    /// request is rejected for the capacity only: a server that serves nobody never learns how fast
    /// it is.
    fn has_a_place(&self, others: Concurrency) -> bool {
        others < self.concurrency().unwrap_or(Concurrency::new(1))
    }

    /// The flag of a request that arrives and meets `queue` waiting ones: those in the queue, or
    /// without a queue those in the server.
    pub fn flag(&self, queue: u32) -> Flag {
        self.measured.borrow().departures.arrive(queue)
    }

    /// A request that met `others` in the server has been answered, `took` after it was handed to
    /// the application, and `queue` are waiting. Returns whether it was confident.
    pub fn depart(&mut self, flag: Flag, others: Concurrency, took: Duration, queue: u32, now: Timestamp) -> bool {
        let execution = match self.parameters.concurrency() {
            Some(places) if !self.parameters.hold() && others >= places => {
                took.mul_f64(f64::from(places.get()) / (f64::from(others.get()) + 0.5))
            }
            _ => took,
        };
        let confident = self.measured.borrow_mut().departures.depart(flag, execution, queue, now);
        self.capacity.serve(self.service_rate(), self.parameters.concurrency());
        confident
    }

    /// Whether the measuring interval is over. To be asked at each departure and a few times a
    /// second; then [`measure`](Self::measure) must end it.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.measured.borrow().departures.is_due(now)
    }

    /// Ends the measuring interval if it is over. Servers made by [`beside`](Self::beside) must
    /// then [`follow`](Self::follow). `totals` are those of the whole server.
    pub fn measure(&mut self, totals: Totals, executing: bool, now: Timestamp) {
        let mut borrowed = self.measured.borrow_mut();
        let measured = &mut *borrowed;
        measured.departures.measure(totals, executing, now);
        if measured.departures.execution().is_none() {
            // A thread that has not served anything lately sees the totals of the others, but has
            // measured nothing.
            return;
        }
        if let Some(rate) = measured.departures.rate() {
            measured.rate.hear(rate, measured.departures.confidence(), now);
        }
        drop(borrowed);
        self.follow();
    }

    /// Updates the capacity from the measurements.
    pub fn follow(&mut self) {
        self.capacity.serve(self.service_rate(), self.parameters.concurrency());
    }

    /// What the server finishes when it is busy, in requests per second, if that is known.
    pub fn service_rate(&self) -> Option<f64> {
        let Measured { departures, rate } = &*self.measured.borrow();
        match (self.parameters.concurrency(), departures.execution()) {
            (Some(places), Some(time)) if !time.is_zero() => Some(f64::from(places.get()) / time.as_secs_f64()),
            (None, Some(time)) if !time.is_zero() => {
                let one_by_one = 1.0 / time.as_secs_f64();
                Some(rate.get().map_or(one_by_one, |rate| rate.max(one_by_one)))
            }
            _ => rate.get(),
        }
    }

    /// The expected response time of a request that meets `others`, if it is known.
    pub fn expected(&self, others: Concurrency) -> Option<Duration> {
        let rate = self.service_rate()?;
        let line = Duration::try_from_secs_f64((f64::from(others.get()) + 1.0) / rate).ok()?;
        Some(line.max(self.measured.borrow().departures.execution().unwrap_or_default()))
    }

    /// The report for an answer while `others` are in the server besides the answered request.
    pub fn report(&self, others: Concurrency, rng: &mut impl Rng) -> LoadReport {
        let chip = Admission::new(self.capacity(), self.parameters.headroom()).grants_chip(others, rng);
        LoadReport { chip, ..self.bare_report(others) }
    }

    /// The report for a rejection: one without a chip.
    pub fn bare_report(&self, others: Concurrency) -> LoadReport {
        let departures = &self.measured.borrow().departures;
        LoadReport {
            chip: false,
            queue: Some(others.get()),
            capacity: self.capacity().map(Concurrency::get),
            rate: departures.rate(),
            confidence: departures.rate().map(|_| departures.confidence()),
            execution: departures.execution(),
            service: self.service_rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CapacitySpec, ServiceSpec};

    fn server(spec: ServiceSpec) -> Server {
        Server::new(&spec.validate().unwrap())
    }

    fn requests(n: u32) -> Concurrency {
        Concurrency::new(n)
    }

    fn with_execution(mut server: Server, millis: u64) -> Server {
        let flag = server.flag(0);
        server.depart(flag, Concurrency::new(0), Duration::from_millis(millis), 0, Timestamp::ZERO);
        server.measure(Totals::default(), true, Timestamp::ZERO);
        server
    }

    #[test]
    fn derives_service_rate_and_slo_capacity_from_the_concurrency() {
        let capacity = Some(CapacitySpec::Slo { slo: "2s".into() });
        let server = server(ServiceSpec { concurrency: Some(4), capacity, ..ServiceSpec::default() });
        assert_eq!((server.service_rate(), server.capacity()), (None, None), "cold: no limit");
        let server = with_execution(server, 100);
        assert_eq!(server.service_rate(), Some(40.0));
        assert_eq!(server.capacity(), Some(requests(80)));
        let report = server.bare_report(requests(3));
        assert_eq!((report.service, report.queue, report.chip), (Some(40.0), Some(3), false));
    }

    #[test]
    fn reports_orca_reasons_and_places_as_configured() {
        let of = |spec: ServiceSpec| {
            let server = server(spec);
            (server.orca(), server.tells_why(), server.places())
        };
        assert_eq!(of(ServiceSpec::default()), (false, false, None));
        let all =
            ServiceSpec { orca: Some(true), debug_headers: Some(true), concurrency: Some(4), ..ServiceSpec::default() };
        assert_eq!(of(all.clone()), (true, true, Some(requests(4))));
        assert_eq!(of(ServiceSpec { hold: Some(false), ..all }), (true, true, None));
    }

    #[test]
    fn a_report_for_an_answer_has_the_chip_beside_the_load() {
        let server = with_execution(server(ServiceSpec { concurrency: Some(4), ..ServiceSpec::default() }), 100);
        let report = server.report(requests(3), &mut fastrand::Rng::with_seed(1));
        assert_eq!(report, LoadReport { chip: true, ..server.bare_report(requests(3)) });
        assert_eq!((report.queue, report.service), (Some(3), Some(40.0)));
    }

    #[test]
    fn the_measuring_interval_ends_after_a_second() {
        let mut server = server(ServiceSpec::default());
        server.measure(Totals::default(), true, Timestamp::ZERO);
        assert!(!server.is_due(Timestamp::from_nanos(999_999_999)));
        assert!(server.is_due(Timestamp::from_nanos(1_000_000_000)));
    }

    #[test]
    fn an_execution_time_of_zero_makes_no_service_rate() {
        for concurrency in [None, Some(4)] {
            let server = with_execution(server(ServiceSpec { concurrency, ..ServiceSpec::default() }), 0);
            assert_eq!(server.service_rate(), None);
        }
    }

    #[test]
    fn subtracts_queueing_in_the_application_from_the_execution_time() {
        let mut server = server(ServiceSpec { concurrency: Some(2), hold: Some(false), ..ServiceSpec::default() });
        assert_eq!((server.places(), server.concurrency()), (None, Some(requests(2))));
        // Service times of 100 ms: alone, beside another one, and behind 2, 3 and 7, of which the
        // first has been half served.
        for (others, took) in [(0, 100), (1, 100), (2, 125), (3, 175), (7, 375)] {
            let flag = server.flag(0);
            server.depart(flag, requests(others), Duration::from_millis(took), 0, Timestamp::ZERO);
            let execution = server.bare_report(requests(0)).execution.unwrap();
            assert!((execution.as_secs_f64() - 0.1).abs() < 1e-6, "{others} others: {execution:?}");
        }
        assert_eq!(server.service_rate().map(f64::round), Some(20.0));
    }

    #[test]
    fn a_worker_that_serves_nothing_reports_no_rate_and_no_capacity() {
        let mut server =
            server(ServiceSpec { capacity: Some(CapacitySpec::Slo { slo: "1s".into() }), ..ServiceSpec::default() });
        for second in 0..5 {
            let totals = Totals { departed: second * 100, confident: 0 };
            server.measure(totals, true, Timestamp::ZERO.after(Duration::from_secs(second)));
        }
        assert_eq!((server.service_rate(), server.capacity()), (None, None));
    }

    #[test]
    fn an_idle_server_does_not_lower_its_service_rate() {
        let mut server = with_execution(server(ServiceSpec::default()), 50);
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        // One departure in ten seconds, and a confident one.
        server.measure(Totals { departed: 1, confident: 1 }, true, at(10));
        assert_eq!(server.service_rate(), Some(20.0));
    }

    #[test]
    fn rejects_a_request_that_cannot_meet_its_deadline() {
        let mut server = with_execution(server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() }), 100);
        let now = Timestamp::ZERO;
        let left = |millis| Some(Duration::from_millis(millis));
        assert_eq!(server.expected(requests(4)), left(500));
        assert_eq!(server.arrive(requests(4), None, left(499), now), Err(Reason::Deadline));
        assert_eq!(server.arrive(requests(4), None, left(500), now), Ok(()));
        assert_eq!(server.arrive(requests(4), None, None, now), Ok(()));
        assert_eq!(server.arrive(requests(0), None, left(99), now), Ok(()), "there is a place");
    }

    #[test]
    fn a_free_place_admits_any_bid_and_deadline() {
        let of = |concurrency| with_execution(server(ServiceSpec { concurrency, ..ServiceSpec::default() }), 2_500);
        let soon = Some(Duration::from_secs(1));
        let now = Timestamp::ZERO;
        for (bid, left) in [(soon, None), (None, soon)] {
            assert_eq!(of(Some(4)).arrive(requests(3), bid, left, now), Ok(()));
            assert!(of(Some(4)).arrive(requests(4), bid, left, now).is_err());
            assert_eq!(of(None).arrive(requests(0), bid, left, now), Ok(()));
            assert!(of(None).arrive(requests(1), bid, left, now).is_err(), "how many places there are is not known");
        }
    }

    #[test]
    fn rejects_a_bid_below_the_expected_response_time() {
        let mut server = with_execution(server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() }), 100);
        let now = Timestamp::ZERO;
        let bid = |millis| Some(Duration::from_millis(millis));
        assert_eq!(server.arrive(requests(2), bid(299), None, now), Err(Reason::Bid));
        assert_eq!(server.arrive(requests(2), bid(300), None, now), Ok(()));
        assert_eq!(server.arrive(requests(2), None, None, now), Ok(()), "without limit");
        let mut cold = self::server(ServiceSpec { concurrency: Some(1), ..ServiceSpec::default() });
        assert_eq!(cold.arrive(requests(9), bid(1), None, now), Ok(()), "a server without measurements takes it");
    }

    #[test]
    fn holds_no_longer_than_the_maximum_or_the_deadline_allows() {
        let spec = ServiceSpec { concurrency: Some(1), max_queue_wait: Some("300ms".into()), ..ServiceSpec::default() };
        let server = with_execution(server(spec), 100);
        let millis = Duration::from_millis;
        assert_eq!(server.patience(None), millis(300));
        assert_eq!(server.patience(Some(millis(250))), millis(150), "the application needs the rest");
        assert_eq!(server.patience(Some(millis(1000))), millis(300));
        let default = with_execution(self::server(ServiceSpec::default()), 100);
        assert_eq!(default.patience(None), millis(15_000), "as long as Envoy waits for an answer by default");
        assert_eq!(default.patience(Some(millis(60_000))), millis(15_000));
    }

    #[test]
    fn a_server_at_its_capacity_rejects_requests() {
        let mut server =
            server(ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 2 }), ..ServiceSpec::default() });
        assert_eq!(server.arrive(requests(1), None, None, Timestamp::ZERO), Ok(()));
        assert_eq!(server.arrive(requests(2), None, None, Timestamp::ZERO), Err(Reason::Capacity));
    }

    #[test]
    fn new_parameters_keep_the_measurements() {
        let slo = |slo: &str| ServiceSpec {
            concurrency: Some(2),
            capacity: Some(CapacitySpec::Slo { slo: slo.into() }),
            ..ServiceSpec::default()
        };
        let mut server = with_execution(server(slo("1s")), 100);
        assert_eq!(server.capacity(), Some(requests(20)));
        server.configure(&ServiceSpec { headroom: Some(0.5), ..slo("1s") }.validate().unwrap());
        assert_eq!(server.capacity(), Some(requests(20)), "the same estimator goes on");
        server.configure(&slo("2s").validate().unwrap());
        server.measure(Totals::default(), true, Timestamp::ZERO);
        assert_eq!(server.capacity(), Some(requests(40)), "another one starts from the measurements");
    }

    #[test]
    fn two_configurations_of_a_service_share_its_measurements() {
        let slo = |slo: &str| {
            let capacity = Some(CapacitySpec::Slo { slo: slo.into() });
            ServiceSpec { concurrency: Some(2), capacity, ..ServiceSpec::default() }.validate().unwrap()
        };
        let one = with_execution(Server::new(&slo("1s")), 100);
        let mut other = one.beside(&slo("2s"));
        assert_eq!((one.capacity(), other.capacity()), (Some(requests(20)), Some(requests(40))));
        other = with_execution(other, 100);
        assert_eq!(other.expected(requests(1)), one.expected(requests(1)));
    }
}
