//! A server: all that one sidecar decides and measures about the application behind it.
//!
//! | file | decides |
//! |---|---|
//! | [`steps`] | nothing: the order in which a request goes through all of this |
//! | [`admission`] | whether a request is taken, and whether an answer carries a chip |
//! | [`capacity`] | how many requests are admitted: a number, an average, or from the SLO |
//! | [`bid`] | what a request is offered, and for how long it is held |
//! | [`limiter`], [`wait_queue`] | which requests the application works on, and which are held, in which order |
//! | [`count`] | how many requests are in flight over all threads, and the recount that corrects it after a crash |
//! | [`departures`], [`service_rate`] | how fast the server is (Mu's measured capacity) |
//! | [`execution`], [`work`] | how long a request takes on average, and whether that has changed |
//! | [`places`] | how many requests the application works on at once, where that is not configured |
//!
//! Combines [`Admission`], [`Capacity`], [`Departures`] and the server's own [`ServiceRate`]. The
//! caller hands in how many requests are in the server and in the queue, because all threads of an
//! Envoy share these numbers.
//!
//! The service rate `mu` (requests/s) comes from the best knowledge available:
//!
//! - with `concurrency: C`, `mu = C / execution time`, since the execution time is measured from
//!   the hand-over to the application on;
//! - else the same with the `C` that [`Places`] is sure of;
//! - else by the rule of [`ServiceRate`] from departure rate and confidence, but at least one
//!   request at a time, `1 / execution time`. Without that bound, an idle server whose few
//!   departures were confident by chance is taken for a slow one, is left alone, and stays idle
//!   (simulated: one gateway, 20 servers, p50 27 s instead of 71 ms).
//!
//! Where the application's CPU and the CPU time of a request are known, the capacity from an SLO
//! goes by at most what the CPU is enough for (`cpu.rs`). Reports and metrics say what was
//! measured.
//!
//! Bids and deadlines go by another rate, that of the largest number of places that is likely. The
//! estimated `C` holds nothing, and the capacity knows nothing of it.
//!
//! With `hold: true` the time of a request from the hand-over to the application to its answer is
//! its execution time. With `hold: false` the queue is in the application, and [`Work`] measures
//! what each request had of the places.
//!
//! A request for which there is a free place (`n < C`; where `C` is not configured, the least that
//! is likely, 1 at first) is rejected for the capacity only, whatever its deadline: a server that
//! serves nobody never learns how fast it is. It is bounced for its bid only where this server is
//! surely slower than the fleet ([`crate::server::bid::trial`]).
//!
//! A request that meets `n` others has an expected response time of `max((n + 1) / rate for bids,
//! execution time)`. Cold start: unknown, and no request is rejected for it. Bids and deadlines are
//! compared with what follows from it and from the age of the running request ([`bid`]).

pub mod admission;
pub mod bid;
pub mod capacity;
pub mod count;
mod cpu;
pub mod departures;
pub mod execution;
pub mod limiter;
pub mod places;
mod provided;
pub mod service_rate;
pub mod steps;
pub mod wait_queue;
pub mod work;

use crate::config::ServiceParameters;
use crate::server::admission::Admission;
use crate::server::bid::age::Rest;
use crate::server::bid::trial::Trials;
use crate::server::capacity::Capacity;
use crate::server::departures::{Departures, Flag, Totals};
use crate::server::places::Places;
use crate::server::service_rate::ServiceRate;
use crate::server::work::Work;
use crate::units::rng::Rng;
use crate::units::{Concurrency, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use crate::wire::reason::Reason;
use provided::Provided;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A request may have more of the places than it took, by so many seconds, since the integral is
/// rounded.
const ROUNDING: f64 = 1e-3;

/// Measurements of an application, which all of its configurations share.
#[derive(Debug, Default)]
struct Measured {
    departures: Departures,
    work: Work,
    /// Where the concurrency is not configured.
    places: Places,
    rate: ServiceRate,
    rest: Rest,
    trials: Trials,
    cpu: Provided,
}

/// One sidecar's view of its application, under one configuration.
#[derive(Debug)]
pub struct Server {
    /// Without endpoints, which only senders use.
    parameters: ServiceParameters,
    capacity: Capacity,
    measured: Rc<RefCell<Measured>>,
    /// When the request began that runs, for the one that arrives next.
    start: Option<Timestamp>,
}

impl Server {
    /// A server that has not served anything.
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity());
        Self { parameters: parameters.without_endpoints(), capacity, measured: Rc::default(), start: None }
    }

    /// The same application under another configuration: both share the measurements.
    #[must_use]
    pub fn beside(&self, parameters: &ServiceParameters) -> Self {
        let (capacity, measured) = (self.capacity.clone(), Rc::clone(&self.measured));
        let mut other = Self { parameters: self.parameters.clone(), capacity, measured, start: None };
        other.configure(parameters);
        other.follow();
        other
    }

    /// Applies new parameters. The measurements stay, and so does a capacity estimator whose own
    /// parameters do not change.
    pub fn configure(&mut self, parameters: &ServiceParameters) {
        if self.parameters.capacity() != parameters.capacity() {
            self.capacity = Capacity::new(parameters.capacity());
            self.capacity.provide(self.measured.borrow().cpu.cores);
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

    /// How long a request with this `bid` and `deadline` may be held, and why it is rejected then.
    pub fn max_hold(&self, bid: Option<Bid>, deadline: Option<Duration>) -> (Duration, Reason) {
        let execution = self.measured.borrow().departures.execution().unwrap_or_default();
        let longest = self.parameters.max_queue_wait();
        crate::server::bid::hold::longest(
            bid,
            deadline.map_or(longest, |left| longest.min(left.saturating_sub(execution))),
        )
    }

    /// The capacity in force; none: no limit (yet).
    pub fn capacity(&self) -> Option<Concurrency> {
        self.capacity.get()
    }

    /// Judges a request that arrives, and counts it where it matters whether it enters.
    fn judge_arrival(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        if self.concurrency().is_none() {
            self.measured.borrow_mut().places.meet(others);
        }
        let verdict = self.judge(others, bid, deadline, now);
        self.start = None;
        if let Some(places) = self.places_of_a_queue_inside() {
            self.measured.borrow_mut().work.arrive(others, verdict.is_ok(), places, now);
        }
        verdict
    }

    fn judge(
        &mut self,
        others: Concurrency,
        bid: Option<Bid>,
        deadline: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        let admitted = Admission::new(self.capacity(), self.parameters.headroom()).admits(others);
        self.capacity.observe(Concurrency::new(others.get().saturating_add(u32::from(admitted))), now);
        if !admitted {
            return Err(Reason::Capacity);
        }
        if self.has_a_place(others) {
            let slow = bid.is_some_and(|bid| self.is_too_slow_for(bid, now));
            return if slow { Err(Reason::Bid) } else { Ok(()) };
        }
        let by_age = |seconds| self.by_age(seconds, now);
        if deadline.is_some_and(|left| self.expected_seconds(others).map(by_age) > Some(left.as_secs_f64())) {
            return Err(Reason::Deadline);
        }
        if bid.is_some_and(|bid| self.offer(others, bid.fleet, now).map(by_age) > Some(bid.most.as_secs_f64())) {
            return Err(Reason::Bid);
        }
        Ok(())
    }

    /// Whether the application has a place for a request that meets this many others.
    fn has_a_place(&self, others: Concurrency) -> bool {
        others < self.concurrency().unwrap_or_else(|| self.measured.borrow().places.least())
    }

    /// How many of `others` wait: those beyond the concurrency, or all if that is not known.
    fn waiting(&self, others: Concurrency) -> u32 {
        others.get().saturating_sub(self.concurrency().map_or(0, Concurrency::get))
    }

    /// The flag of the request that has just arrived and met `others`. `bid`: whether it made one.
    fn flag(&self, others: Concurrency, bid: bool) -> Flag {
        let measured = self.measured.borrow();
        let mut flag = measured.departures.arrive(self.waiting(others));
        (flag.met, flag.bid) = (others, bid);
        flag.work = self.places_of_a_queue_inside().map(|_| measured.work.seconds());
        flag
    }

    /// A request has been answered, `took` after it was handed to the application, and `others` are
    /// left in the server. Returns whether it was confident.
    fn depart(&mut self, flag: Flag, took: Duration, others: Concurrency, now: Timestamp) -> bool {
        let (inside, is_told) = (self.places_of_a_queue_inside(), self.concurrency().is_some());
        let (places, queue) = (self.places_for_estimates(), self.waiting(others));
        let mut measured = self.measured.borrow_mut();
        let took_seconds = took.as_secs_f64();
        // A request that came under another configuration is not measured.
        let work = match (inside, flag.work) {
            (None, then) => then.is_none().then_some(took_seconds),
            (Some(places), then) => {
                measured.work.leave(others, places, now);
                let turns = (f64::from(flag.met.get()) + 1.0) / f64::from(places.get());
                if !is_told && !measured.departures.is_outlier(took_seconds / turns.max(1.0)) {
                    measured.places.hear(flag.met, took);
                }
                // Nor is one that came before all configurations were gone for a while, with what
                // they had measured.
                let work = then.map(|then| measured.work.seconds() - then);
                work.filter(|work| (0.0..=took_seconds + ROUNDING).contains(work))
            }
        };
        // Others than a trial may be answered first, but not by what the trial is to find out.
        let counts = flag.bid || !measured.trials.bounces(now);
        if counts {
            measured.trials.end();
        }
        let work = work.filter(|_| counts);
        let confident = measured.departures.depart(flag, took, (work, places), queue, now);
        if work.is_some() && measured.departures.has_changed() {
            measured.places.change();
        }
        // It ran all that time if the application has no queue, or had none.
        if work.is_some() && (inside.is_none() || flag.met == Concurrency::new(0)) {
            let mean = measured.departures.mean().unwrap_or_default();
            measured.rest.hear(took_seconds, mean);
        }
        drop(measured);
        self.follow();
        confident
    }

    /// A request that was admitted at `arrived` has left the server without an answer from the
    /// application, and `others` are left.
    fn vanish(&mut self, others: Concurrency, arrived: Timestamp, now: Timestamp) {
        self.measured.borrow_mut().trials.leave(arrived);
        if let Some(places) = self.places_of_a_queue_inside() {
            self.measured.borrow_mut().work.leave(others, places, now);
        }
    }

    /// How many requests the application works on at once, if it has the queue.
    #[inline(never)]
    fn places_of_a_queue_inside(&self) -> Option<Concurrency> {
        self.places().is_none().then(|| self.places_for_estimates())
    }

    /// How many requests the application works on at once, configured or [expected](Places).
    #[inline(never)]
    fn places_for_estimates(&self) -> Concurrency {
        self.concurrency().unwrap_or_else(|| self.measured.borrow().places.in_force())
    }

    /// The same, if it is configured or sure.
    fn known_concurrency(&self) -> Option<Concurrency> {
        let is_known = self.concurrency().or_else(|| self.estimated_concurrency()).is_some();
        is_known.then(|| self.places_for_estimates())
    }

    /// How many requests the application works on at once, where this is not configured and sure.
    pub fn estimated_concurrency(&self) -> Option<Concurrency> {
        self.measured.borrow().places.sure().filter(|_| self.concurrency().is_none())
    }

    /// Whether the measuring interval is over. To be asked at each departure and a few times a
    /// second; then [`measure`](Self::measure) must end it.
    fn is_due(&self, now: Timestamp) -> bool {
        self.measured.borrow().departures.is_due(now)
    }

    /// Ends the measuring interval if it is over. Servers made by [`beside`](Self::beside) must
    /// then [`follow`](Self::follow). `totals` are those of the whole server.
    fn measure(&mut self, totals: Totals, executing: bool, now: Timestamp) {
        let mut borrowed = self.measured.borrow_mut();
        let measured = &mut *borrowed;
        if measured.departures.is_due(now) {
            // Another configuration may need the estimate.
            let by = measured.places.measure(measured.departures.noise());
            if self.parameters.concurrency().is_none() {
                measured.departures.scale(by);
            }
        }
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

    /// Updates the capacity from the measurements, and from what the CPU is enough for. The
    /// estimated concurrency does not count for it.
    #[inline(never)]
    pub fn follow(&mut self) {
        let most = self.measured.borrow().cpu.rate.unwrap_or(f64::INFINITY);
        let rate = self.rate_with(self.concurrency()).map(|measured| measured.min(most));
        self.capacity.serve(rate, self.concurrency());
    }

    /// What the server finishes when it is busy, in requests per second, if that is known.
    pub fn service_rate(&self) -> Option<f64> {
        self.rate_with(self.known_concurrency())
    }

    /// The same with this concurrency, if it is known.
    #[inline(never)]
    fn rate_with(&self, concurrency: Option<Concurrency>) -> Option<f64> {
        concurrency.and_then(|places| self.rate_of(places)).or_else(|| self.rate_by_rule())
    }

    /// The service rate that bids and deadlines go by: that of all places that may be there.
    fn rate_for_bids(&self) -> Option<f64> {
        self.rate_of(self.places_for_estimates()).or_else(|| self.measured.borrow().rate.get())
    }

    /// The service rate by the rule of [`ServiceRate`], but at least one request at a time.
    fn rate_by_rule(&self) -> Option<f64> {
        let (rule, least) = (self.measured.borrow().rate.get(), self.rate_of(Concurrency::new(1)));
        rule.map_or(least, |rate| least.map(|least| rate.max(least)).or(rule))
    }

    /// What a server with so many places finishes, in requests per second.
    #[inline(never)]
    fn rate_of(&self, places: Concurrency) -> Option<f64> {
        let time = self.measured.borrow().departures.mean().filter(|time| *time > 0.0)?;
        Some(f64::from(places.get()) / time)
    }

    /// The report for an answer while `others` are in the server besides the answered request.
    pub fn report(&self, others: Concurrency, rng: &mut impl Rng) -> LoadReport {
        let chip = Admission::new(self.capacity(), self.parameters.headroom()).grants_chip(others, rng);
        LoadReport { chip, ..self.bare_report(others) }
    }

    /// The report for a rejection: one without a chip.
    pub fn bare_report(&self, others: Concurrency) -> LoadReport {
        let Measured { departures, cpu, .. } = &*self.measured.borrow();
        let bids = self.parameters.routing().bids();
        LoadReport {
            chip: false,
            queue: Some(others.get()),
            capacity: self.capacity().map(Concurrency::get),
            rate: departures.rate(),
            confidence: departures.rate().map(|_| departures.confidence()),
            execution: departures.execution(),
            service: if bids { self.rate_for_bids() } else { self.service_rate() },
            cpu: cpu.headroom,
            fleet: bids && self.known_concurrency().is_some(),
            held: false,
        }
    }
}

#[cfg(test)]
mod tests;
