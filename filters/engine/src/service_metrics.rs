//! The metrics of a service that this proxy stands in front of. All threads of the proxy share
//! them, so any thread can report the load, whichever has served it.

use crate::host::Host;
use crate::metrics::{Counters, Gauge, InFlight, Total, events};
use bloc_policy::server::count;
use bloc_policy::sync::{ServiceEvents, ServiceLoad};

events! {
    /// What an inbound service counts.
    Served: 9 {
        /// Not rejected on arrival; one that is held and rejected later counts here, too.
        Admitted = "admitted",
        /// Rejected, because the capacity was used up.
        RejectedCapacity = "rejected_capacity",
        /// Rejected, because the answer would have come too late, or because they were held for too
        /// long.
        RejectedDeadline = "rejected_deadline",
        /// Answers with a chip.
        ChipsGranted = "chips_granted",
        /// Answers without a chip.
        ChipsWithheld = "chips_withheld",
        /// Held before they were let in or rejected.
        Held = "held",
        /// Let in by a tick, not by the message that their place is free: hardly any while messages
        /// arrive.
        Rescued = "rescued",
        /// Bounced, because they would have taken longer than their bid.
        RejectedBid = "rejected_bid",
        /// Answered by Envoy because it could not reach the application.
        RejectedUnreachable = "rejected_unreachable",
    }
}

/// The metrics of one service.
pub struct ServiceMetrics<H: Host> {
    /// Requests in flight.
    pub in_flight: InFlight<H>,
    /// In requests; 0: no limit.
    pub capacity: Gauge<H>,
    /// Requests per 1000 s, because gauges are whole numbers; 0: not known.
    pub service_rate: Gauge<H>,
    /// The concurrency that is estimated with certainty because none is configured; 0: none.
    pub concurrency: Gauge<H>,
    /// Requests answered.
    pub departed: Total<H>,
    /// Those of them during which the server was busy all the time.
    pub confident: Total<H>,
    /// Events.
    pub counters: Counters<H, Served, 9>,
}

impl<H: Host> ServiceMetrics<H> {
    /// Defines the metrics, or finds them; changes no value.
    pub fn define(host: &H, service: &str) -> Self {
        let gauge = |name| Gauge::define(host, "inbound", service, name);
        let total = |name| Total::define(host, "inbound", service, name);
        Self {
            in_flight: InFlight::new(gauge("in_flight"), gauge("in_flight_recount")),
            capacity: gauge("capacity"),
            service_rate: gauge("service_rate_per_1000s"),
            concurrency: gauge("concurrency_estimate"),
            departed: total("departed"),
            confident: total("departed_confident"),
            counters: Counters::define(host, "inbound", service),
        }
    }

    /// The load of this service since the proxy started, as far as its threads have handed it to
    /// the host.
    pub fn load(&self, host: &H, service: &str) -> ServiceLoad {
        let known = |gauge: &Gauge<H>| Some(gauge.get()).filter(|value| *value > 0);
        let total = |event| self.counters.total(event);
        ServiceLoad {
            service: service.to_owned(),
            in_flight: count::in_flight(host, service, &self.in_flight).get().into(),
            capacity: known(&self.capacity).and_then(|capacity| u32::try_from(capacity).ok()),
            departed: self.departed.get(),
            arrived: total(Served::Admitted),
            service_rate: known(&self.service_rate).map(|per_1000s| per_1000s as f64 / 1e3),
            events: ServiceEvents {
                departed_confident: self.confident.get(),
                chips_granted: total(Served::ChipsGranted),
                chips_withheld: total(Served::ChipsWithheld),
                rejected_capacity: total(Served::RejectedCapacity),
                rejected_bid: total(Served::RejectedBid),
                rejected_deadline: total(Served::RejectedDeadline),
            },
            latency: None,
        }
    }
}
