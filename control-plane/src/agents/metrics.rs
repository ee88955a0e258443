//! Leases as gauges with the label `app`, `namespace/name`.
//!
//! Each scrape builds a new registry, so that a deleted record leaves no stale value. Cardinality:
//! three series for each of at most 1,000 applications.

use crate::agents::leases::{AppLease, LeaseView};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

type Labels = [(&'static str, String); 1];
type Value = fn(&AppLease) -> f64;

/// Name, help and value.
const GAUGES: [(&str, &str, Value); 3] = [
    ("bloc_lease_held_ratio", "Share of the CPU limit that nodes hold (ratio)", |app| app.held),
    ("bloc_lease_silent_ratio", "Share of the CPU limit that silent nodes hold (ratio)", |app| app.silent),
    ("bloc_lease_silent_nodes", "Silent nodes that hold a part", |app| app.silent_nodes as f64),
];

/// A registry of all records.
pub fn registry(view: &LeaseView) -> Registry {
    let mut registry = Registry::default();
    let unread = i64::try_from(view.unread).unwrap_or(i64::MAX);
    registry.register("bloc_lease_records_unread", "Lease records that cannot be used", ConstGauge::new(unread));
    for (name, help, value) in GAUGES {
        let gauges = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (app, lease) in &view.apps {
            gauges.get_or_create(&[("app", app.to_string())]).set(value(lease));
        }
        registry.register(name, help, gauges);
    }
    registry
}
