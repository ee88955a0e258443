//! A server: what one sidecar decides and measures about the application behind it.
//!
//! | file | decides |
//! |---|---|
//! | [`steps`] | nothing: the order of a request's steps |
//! | `arrival.rs` | whether a request may enter |
//! | `departure.rs` | what is measured of it |
//! | `speed.rs` | how fast the server is, from all measurements |
//! | [`admission`] | whether a request is admitted, and whether an answer carries a chip |
//! | [`capacity`] | how many requests are admitted |
//! | [`bid`] | what a request is offered, and how long it is held |
//! | [`limiter`], [`wait_queue`] | which requests the application works on, and which wait, in which order |
//! | [`count`] | how many requests are in flight over all threads, corrected after a crash |
//! | [`departures`], [`service_rate`] | how fast the server is (Mu's measured capacity) |
//! | [`execution`], [`work`] | how long a request takes on average, and whether that has changed |
//! | [`places`] | how many requests the application works on at once, if not configured |

pub mod admission;
mod arrival;
pub mod bid;
pub mod capacity;
pub mod count;
mod cpu;
mod departure;
pub mod departures;
pub mod execution;
pub mod limiter;
pub mod places;
pub mod service_rate;
mod speed;
pub mod steps;
pub mod wait_queue;
pub mod work;

use crate::config::ServiceParameters;
use crate::proxy::cpu::Provided;
use crate::server::admission::Admission;
use crate::server::bid::age::RemainingTime;
use crate::server::bid::probe::Probes;
use crate::server::capacity::Capacity;
use crate::server::departures::Departures;
use crate::server::places::Places;
use crate::server::service_rate::ServiceRate;
use crate::server::work::Work;
use crate::units::rng::Rng;
use crate::units::{Concurrency, Ratio, Timestamp};
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use crate::wire::reason::Reason;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Measurements of an application, shared by all of its configurations.
#[derive(Debug, Default)]
struct Measured {
    departures: Departures,
    work: Work,
    /// Used if the concurrency is not configured.
    places: Places,
    rate: ServiceRate,
    remaining: RemainingTime,
    probes: Probes,
    cpu: Provided,
}

/// One sidecar's view of its application, under one configuration. The caller passes in the numbers
/// of requests in the server and in the queue, which all threads of an Envoy share.
#[derive(Debug)]
pub struct Server {
    parameters: ServiceParameters,
    capacity: Capacity,
    measured: Rc<RefCell<Measured>>,
    /// Start of the running request, for the next arrival.
    start: Option<Timestamp>,
}

impl Server {
    /// A server that has not served anything.
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity());
        Self { parameters: parameters.without_endpoints(), capacity, measured: Rc::default(), start: None }
    }

    /// The same application under another configuration, with shared measurements.
    #[must_use]
    pub fn beside(&self, parameters: &ServiceParameters) -> Self {
        let (capacity, measured) = (self.capacity.clone(), Rc::clone(&self.measured));
        let mut other = Self { parameters: self.parameters.clone(), capacity, measured, start: None };
        other.configure(parameters);
        other.follow();
        other
    }

    /// Applies new parameters. Measurements stay; so does the capacity, if configured as before.
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

    /// Whether a rejection tells callers without these filters its reason.
    pub fn tells_why(&self) -> bool {
        self.parameters.debug_headers()
    }

    /// Configured number of requests that the application works on at once.
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.parameters.concurrency().map(Concurrency::new)
    }

    /// How many requests the application may have at once; none if nothing is held.
    pub fn places(&self) -> Option<Concurrency> {
        self.concurrency().filter(|_| self.parameters.hold())
    }

    /// How long a request with this `bid` and `deadline` may be held, and why it is then rejected.
    pub fn max_hold(&self, bid: Option<Bid>, deadline: Option<Duration>) -> (Duration, Reason) {
        let execution = self.measured.borrow().departures.execution().unwrap_or_default();
        let longest = self.parameters.max_queue_wait();
        crate::server::bid::hold::longest(
            bid,
            deadline.map_or(longest, |left| longest.min(left.saturating_sub(execution))),
        )
    }

    /// The capacity in force, in requests; none: no limit (yet).
    pub fn capacity(&self) -> Option<Concurrency> {
        self.capacity.get()
    }

    /// The report for an answer, while `others` are in the server besides the answered request.
    pub fn report(&self, others: Concurrency, rng: &mut impl Rng) -> LoadReport {
        let chip = Admission::new(self.capacity(), Ratio::within(self.parameters.headroom())).grants_chip(others, rng);
        LoadReport { chip, ..self.bare_report(others) }
    }

    /// The report for a rejection, without a chip.
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
