//! The signals for scaling as gauges with the label `service`, and the events at the servers as
//! counters.
//!
//! Each scrape builds a new registry, so that a removed service or value leaves no stale value. An
//! unknown value has no series. Cardinality: up to 17 series for each of the at most 1,000 services
//! that `Loads` keeps.

use crate::load::{Signals, Totals};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Value = fn(&Signals) -> Option<f64>;
/// A counter of a service, with the label and value that select it, if any.
type Count = (Option<(&'static str, &'static str)>, fn(&Totals) -> u64);

/// Name, help and value of the gauges that have one series for each service.
const GAUGES: &[(&str, &str, Value)] = &[
    ("bloc_service_servers", "Servers that count at this replica", |s| Some(s.servers as f64)),
    ("bloc_service_demand_requests", "Requests in flight, waiting ones included", |s| Some(s.demand_requests as f64)),
    ("bloc_service_capacity_requests", "Sum of the capacities in force", |s| s.capacity_requests.map(|c| c as f64)),
    ("bloc_service_arrival_rate", "Requests per second that the servers took in", |s| s.arrival_rate_per_second),
    ("bloc_service_rate", "Requests per second that the servers finish when busy", |s| s.service_rate_per_second),
    ("bloc_service_predicted_arrival_rate", "Requests per second predicted for 30 s ahead", |s| {
        s.predicted_arrival_rate_per_second
    }),
];

/// Name, help and values of the counters.
const COUNTERS: &[(&str, &str, &[Count])] = &[
    ("bloc_service_arrivals", "Requests that the servers took in", &[(None, |t| t.arrivals)]),
    ("bloc_service_departures", "Requests that the servers answered", &[(None, |t| t.departures)]),
    (
        "bloc_service_confident_departures",
        "Responses of servers that were busy all the time",
        &[(None, |t| t.confident)],
    ),
    (
        "bloc_service_chips",
        "Answers with a chip, granted, and without one, withheld",
        &[(Some(("chip", "granted")), |t| t.chips_granted), (Some(("chip", "withheld")), |t| t.chips_withheld)],
    ),
    (
        "bloc_service_rejections",
        "Requests that the servers rejected",
        &[
            (Some(("reason", "capacity")), |t| t.rejected_capacity),
            (Some(("reason", "bid")), |t| t.rejected_bid),
            (Some(("reason", "deadline")), |t| t.rejected_deadline),
        ],
    ),
];

/// A registry of the signals of all services.
pub fn registry(dropped: u64, services: &BTreeMap<String, (Signals, Totals)>) -> Registry {
    let signals = || services.iter().map(|(service, (signals, _))| (service, signals));
    let mut registry = Registry::default();
    registry.register(
        "bloc_load_reports_dropped",
        "Reports of services that are not in force, or too many",
        ConstCounter::new(dropped),
    );
    for &(name, help, value) in GAUGES {
        let gauges = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (service, value) in signals().filter_map(|(service, signals)| Some((service, value(signals)?))) {
            gauges.get_or_create(&vec![("service", service.clone())]).set(value);
        }
        registry.register(name, help, gauges);
    }
    let per_server = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    for (service, spread) in signals().filter_map(|(s, signals)| Some((s, signals.service_rate_per_server?))) {
        let (min, mean, max) = (spread.min_per_second, spread.mean_per_second, spread.max_per_second);
        for (statistic, value) in [("min", min), ("mean", mean), ("max", max)] {
            let labels = vec![("service", service.clone()), ("statistic", statistic.to_owned())];
            per_server.get_or_create(&labels).set(value);
        }
    }
    for (name, help, counts) in COUNTERS {
        let counters = Family::<Labels, Counter>::default();
        for (service, (_, totals)) in services {
            for (label, count) in *counts {
                let labels = std::iter::once(("service", service.clone()))
                    .chain(label.map(|(name, value)| (name, value.to_owned())));
                counters.get_or_create(&labels.collect()).inc_by(count(totals));
            }
        }
        registry.register(*name, *help, counters);
    }
    registry.register("bloc_service_rate_per_server", "Requests per second that single servers finish", per_server);
    registry
}
