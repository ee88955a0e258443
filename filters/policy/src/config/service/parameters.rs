//! The parameters of one service, after their check.

use crate::config::route_retries::RouteRetries;
use crate::config::routing::RoutingKind;
use crate::units::{Concurrency, Ratio};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Validated parameters by service name.
pub type Services = BTreeMap<String, ServiceParameters>;

/// The parameters of a service, every value within its range.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceParameters {
    pub(super) routing: RoutingKind,
    pub(super) retries: u32,
    pub(super) route_retries: RouteRetries,
    pub(super) retry_budget: Ratio,
    pub(super) bounce_price: f64,
    pub(super) reset_interval: Duration,
    pub(super) capacity: CapacityParameters,
    pub(super) headroom: Ratio,
    pub(super) max_chips: u32,
    pub(super) concurrency: Option<Concurrency>,
    pub(super) hold: bool,
    pub(super) max_queue_wait: Duration,
    pub(super) body_limit: u32,
    pub(super) stream_idle: Duration,
    pub(super) slo: Option<Duration>,
    pub(super) slo_grace: Duration,
    pub(super) orca: bool,
    pub(super) debug_headers: bool,
    pub(super) endpoints: Option<Vec<SocketAddr>>,
    pub(super) endpoints_by_port: BTreeMap<u16, Vec<SocketAddr>>,
}

/// Where the capacity comes from, validated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CapacityParameters {
    /// No limit: everything is admitted.
    Unlimited,
    /// This many requests at once.
    Static(Concurrency),
    /// In proportion to the CPU that the application has.
    PerCore {
        /// Requests at once for each core, above 0 and at most 100,000.
        per_core: f64,
        /// At most so many, and so many while the CPU is not known; none: no limit.
        limit: Option<Concurrency>,
    },
    /// The mean number of requests in flight, renewed after each interval.
    Average(Duration),
    /// What the measured service rate finishes within this time.
    Slo(Duration),
}

impl ServiceParameters {
    /// How senders choose.
    pub fn routing(&self) -> RoutingKind {
        self.routing
    }

    /// Retries after a rejection, 0 to 10.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Retries after anything but a rejection that the routes to the service allow a request.
    pub fn route_retries(&self) -> &RouteRetries {
        &self.route_retries
    }

    /// Retries for other reasons than a rejection, as a share of the requests.
    pub fn retry_budget(&self) -> Ratio {
        self.retry_budget
    }

    /// What a bounce is worth to a sender, in execution times; 0 to 10.
    pub fn bounce_price(&self) -> f64 {
        self.bounce_price
    }

    /// How long an endpoint without a chip is left alone, 1 ms to 1 h.
    pub fn reset_interval(&self) -> Duration {
        self.reset_interval
    }

    /// Where an endpoint's capacity comes from.
    pub fn capacity(&self) -> CapacityParameters {
        self.capacity
    }

    /// Share of the capacity up to which chips are granted, above 0 and at most 1.
    pub fn headroom(&self) -> Ratio {
        self.headroom
    }

    /// Chips that a sender keeps per endpoint at most, 1 to 1000.
    pub fn max_chips(&self) -> u32 {
        self.max_chips
    }

    /// Whether the sidecar holds requests beyond the concurrency.
    pub fn hold(&self) -> bool {
        self.hold
    }

    /// Requests that the application works on at once, if that is known.
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.concurrency
    }

    /// How long a request may be held at most, 1 ms to 1 h.
    pub fn max_queue_wait(&self) -> Duration {
        self.max_queue_wait
    }

    /// Bytes of a request's body, beyond which the request makes no bid and is not held.
    pub fn body_limit(&self) -> u64 {
        self.body_limit.into()
    }

    /// After how long without bytes a stream is idle, 100 ms to 1 h.
    pub fn stream_idle(&self) -> Duration {
        self.stream_idle
    }

    /// The response time beyond which a sender with `routing: mu` answers 503 at once, 1 ms to 1 h;
    /// none: never.
    pub fn slo(&self) -> Option<Duration> {
        self.slo
    }

    /// By how much the expected response time may exceed the SLO before that, 0 to 1 h.
    pub fn slo_grace(&self) -> Duration {
        self.slo_grace
    }

    /// Whether the server also reports its load as ORCA.
    pub fn orca(&self) -> bool {
        self.orca
    }

    /// Whether rejections say why, in `x-bloc-why`.
    pub fn debug_headers(&self) -> bool {
        self.debug_headers
    }

    /// The configured endpoints; none: senders learn them.
    pub fn endpoints(&self) -> Option<&[SocketAddr]> {
        self.endpoints.as_deref()
    }

    /// The same with the endpoints of one port of the service, where endpoints are given by port.
    /// `None`, for a cluster whose name has no port, takes those of the only port.
    #[must_use]
    pub fn at_port(&self, port: Option<u16>) -> Self {
        let by_port = match port {
            Some(port) => self.endpoints_by_port.get(&port),
            None => self.endpoints_by_port.values().next().filter(|_| self.endpoints_by_port.len() == 1),
        };
        let endpoints = by_port.or(self.endpoints.as_ref()).cloned();
        Self { endpoints, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }

    /// The same without endpoints, so that senders learn them.
    #[must_use]
    pub fn without_endpoints(&self) -> Self {
        Self { endpoints: None, endpoints_by_port: BTreeMap::new(), ..self.clone() }
    }
}
