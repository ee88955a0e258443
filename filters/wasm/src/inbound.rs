//! `bloc.inbound`: admits or bounces a request before the application sees it, and stamps the load on every answer.
//!
//! The requests in flight are counted in a gauge that all threads of the Envoy share, from the request's headers to the end of the stream,
//! whatever ends it. On failure: open. A service without parameters, or a proxy without a service, passes everything untouched.

use crate::headers::{BID, ENDPOINTS, LOAD, REJECT};
use crate::host::{self, Headers};
use crate::metrics::{Counters, Gauge};
use crate::state;
use bloc_policy::admission::Admission;
use bloc_policy::capacity::Capacity;
use bloc_policy::config::{CapacityParameters, ServiceParameters};
use bloc_policy::load_report::LoadReport;
use bloc_policy::units::{Concurrency, Ratio};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::RefCell;
use std::rc::Rc;

const TOO_MANY_REQUESTS: u32 = 429;
const RESOURCE_EXHAUSTED: i32 = 8;

const ADMITTED: usize = 0;
const REJECTED_CAPACITY: usize = 1;
const CHIPS_GRANTED: usize = 2;
const CHIPS_WITHHELD: usize = 3;
const COUNTERS: [&str; 4] = ["admitted", "rejected_capacity", "chips_granted", "chips_withheld"];

/// A service that this proxy stands in front of, as this thread sees it.
pub struct Inbound {
    parameters: Option<Parameters>,
    in_flight: Gauge,
    capacity_in_force: Gauge,
    /// The capacity that the gauge shows.
    shown: Option<Concurrency>,
    /// Events to be counted.
    pub counters: Counters<4>,
}

struct Parameters {
    source: CapacityParameters,
    capacity: Capacity,
    headroom: Ratio,
}

impl Inbound {
    /// A service with these parameters; none: it passes everything.
    pub fn new(service: &str, parameters: Option<&ServiceParameters>) -> Self {
        let mut inbound = Self {
            parameters: None,
            in_flight: Gauge::define("inbound", service, "in_flight"),
            capacity_in_force: Gauge::define("inbound", service, "capacity"),
            shown: None,
            counters: Counters::define("inbound", service, COUNTERS),
        };
        inbound.configure(parameters);
        inbound
    }

    /// New parameters; an estimator whose own parameters stay as they are keeps what it has learned.
    pub fn configure(&mut self, parameters: Option<&ServiceParameters>) {
        let before = self.parameters.take();
        self.parameters = parameters.map(|parameters| Parameters {
            source: parameters.capacity(),
            headroom: parameters.headroom(),
            capacity: before
                .filter(|before| before.source == parameters.capacity())
                .map_or_else(|| Capacity::new(parameters.capacity()), |before| before.capacity),
        });
        self.show_capacity();
    }

    /// The capacity in force, in requests; none: no limit.
    pub fn capacity(&self) -> Option<Concurrency> {
        self.parameters.as_ref().and_then(|parameters| parameters.capacity.get())
    }

    /// Requests in flight in the whole Envoy.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    fn show_capacity(&mut self) {
        let capacity = self.capacity();
        if self.shown != capacity {
            self.shown = capacity;
            self.capacity_in_force.set(capacity.map_or(0, |limit| u64::from(limit.get())));
        }
    }

    /// A request has come: counts it in, or says that it must not.
    fn enter(&mut self) -> Verdict {
        let Some(parameters) = &mut self.parameters else { return Verdict::Untouched };
        self.in_flight.add(1);
        // Another thread may come in between: then both see the higher count, and at worst both are bounced, never both admitted too many.
        let others = count(self.in_flight.get().saturating_sub(1));
        let admitted = Admission::new(parameters.capacity.get(), parameters.headroom).admits(others);
        if matches!(parameters.source, CapacityParameters::Average(_)) {
            parameters
                .capacity
                .observe(Concurrency::new(others.get().saturating_add(u32::from(admitted))), host::now());
            self.show_capacity();
        }
        if admitted {
            self.counters.count(ADMITTED);
            Verdict::Admitted
        } else {
            self.in_flight.add(-1);
            self.counters.count(REJECTED_CAPACITY);
            Verdict::Rejected(LoadReport {
                chip: false,
                queue: Some(others.get()),
                capacity: self.capacity().map(Concurrency::get),
            })
        }
    }

    /// The report for an answer while the request is still counted.
    fn report(&mut self) -> Option<LoadReport> {
        let parameters = self.parameters.as_ref()?;
        let others = count(self.in_flight.get().saturating_sub(1));
        let capacity = parameters.capacity.get();
        let admission = Admission::new(capacity, parameters.headroom);
        let chip = state::with(|state| admission.grants_chip(others, &mut state.rng));
        self.counters.count(if chip { CHIPS_GRANTED } else { CHIPS_WITHHELD });
        Some(LoadReport { chip, queue: Some(others.get()), capacity: capacity.map(Concurrency::get) })
    }
}

enum Verdict {
    Untouched,
    Admitted,
    Rejected(LoadReport),
}

fn count(requests: u64) -> Concurrency {
    Concurrency::new(u32::try_from(requests).unwrap_or(u32::MAX))
}

/// One request on its way in.
pub struct InboundRequest {
    inbound: Rc<RefCell<Inbound>>,
    in_flight: Option<InFlight>,
    /// We answered it ourselves, with this report.
    rejected: Option<LoadReport>,
}

/// A request that is counted; dropping it counts it out, once.
struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl InboundRequest {
    /// A request to this service.
    pub fn new(inbound: Rc<RefCell<Inbound>>) -> Self {
        Self { inbound, in_flight: None, rejected: None }
    }
}

impl Context for InboundRequest {}

impl HttpContext for InboundRequest {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        for name in [ENDPOINTS, BID, LOAD, REJECT] {
            host::remove_header(Headers::Request, name);
        }
        let mut inbound = self.inbound.borrow_mut();
        match inbound.enter() {
            Verdict::Untouched => Action::Continue,
            Verdict::Admitted => {
                self.in_flight = Some(InFlight(inbound.in_flight));
                Action::Continue
            }
            Verdict::Rejected(report) => {
                self.rejected = Some(report);
                // The headers are put on in `on_http_response_headers`, which Envoy calls for local replies too.
                host::respond(TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED, "bloc_capacity", &[]);
                Action::Pause
            }
        }
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        let report = match self.rejected {
            Some(report) => {
                host::set_header(Headers::Response, REJECT, b"capacity");
                Some(report)
            }
            None => {
                host::remove_header(Headers::Response, REJECT);
                // A request that is not counted (it came before the parameters) reports nothing.
                self.in_flight.as_ref().and_then(|_| self.inbound.borrow_mut().report())
            }
        };
        match report {
            Some(report) => state::with(|state| {
                report.encode(&mut state.text);
                host::set_header(Headers::Response, LOAD, state.text.as_bytes());
            }),
            None => host::remove_header(Headers::Response, LOAD),
        }
        Action::Continue
    }
}
