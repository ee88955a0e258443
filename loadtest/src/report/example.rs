//! Records for tests.

use crate::record::{Record, Row};
use bloc_mesh::policy::Policy;

/// A closed-loop record of 100 clients with the given percentiles (10, 50, 90, 99; milliseconds)
/// and throughput.
pub fn record(policy: Policy, frontends: usize, percentiles: [f64; 4], throughput_rps: f64) -> Record {
    let [p10_ms, p50_ms, p90_ms, p99_ms] = percentiles.map(Some);
    let row = Row {
        experiment: "closed-loop".into(),
        policy,
        frontends,
        backends: 10,
        load: "closed:100".into(),
        service_ms: 50.0,
        requests: 2000,
        ok: 2000,
        shed: 0,
        errors: 0,
        p10_ms,
        p50_ms,
        p90_ms,
        p99_ms,
        throughput_rps,
        attempts_per_request: 1.0,
        mean_ms: p50_ms,
        envoy_cpu_ms_per_request: Some(1.0),
        balancing: Some(policy.choice(frontends, false)),
    };
    let [first, _, _, last] = percentiles;
    let quantiles_ms = (0..=400).map(|step| first + (last - first) * Record::share(step)).collect();
    Record { quantiles_ms, measured_s: 10.0, ..Record::from(row) }
}
