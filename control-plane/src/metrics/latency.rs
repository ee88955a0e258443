//! Latencies as classic Prometheus histograms, and the calls of each edge.
//!
//! Cardinality for 50 services with 200 edges: two histograms of 15 series for each service, two
//! counters for each edge and for all others: 1,902 series. Limits:
//! [`MAX_SERVICES`](crate::load::MAX_SERVICES), [`MAX_NAMED`](crate::latency::MAX_NAMED). The
//! bounds are bounds of the reports' buckets, an octave apart where most services are. Only the
//! page has executions, dispersion and edge latencies.

use crate::latency::{EdgeTotals, ServiceTotals};
use bloc_policy::sync::latency::Histogram;
use bloc_policy::sync::latency::histogram::upper_bound;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::BTreeMap;
use std::fmt;

/// The caller and the service of the edges without a series of their own. No name has a space.
const OTHERS: &str = "all others";

/// The upper bounds, as buckets of the reports: 1 ms (2^-10 s) to 1 s by factors of 2, then 16 s.
const BOUNDS: [u8; 12] = [16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 128];

type Value = fn(&ServiceTotals) -> &Histogram;
const HISTOGRAMS: [(&str, &str, Value); 2] = [
    ("bloc_service_response_seconds", "From the arrival at a server to its response", |totals| &totals.response),
    (
        "bloc_service_call_seconds",
        "From the choice of a server to the last response, retries included, at callers",
        |totals| &totals.calls,
    ),
];

/// The latencies of all services, and the edges.
#[derive(Debug, Default)]
pub struct LatencyMetrics {
    pub services: BTreeMap<String, ServiceTotals>,
    /// The series of the edges.
    pub edges: EdgeTotals,
}

impl Collector for LatencyMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, histogram) in HISTOGRAMS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (service, totals) in &self.services {
                let histogram = histogram(totals);
                if histogram.is_empty() {
                    continue;
                }
                let sum = histogram.sum_us as f64 / 1e6;
                let labels = [("service", service.as_str())];
                let mut family = metric.encode_family(&labels)?;
                family.encode_histogram::<NoLabelSet>(sum, histogram.count(), &buckets(histogram), None)?;
            }
        }
        type Count = fn(&bloc_policy::sync::latency::Calls) -> u64;
        let counters: [(&str, &str, Count); 2] = [
            ("bloc_calls", "Requests to a service, by the caller named in the certificate", |calls| calls.requests),
            ("bloc_calls_unserved", "Requests that failed, or were rejected or refused in the end", |calls| {
                calls.failed.saturating_add(calls.exhausted).saturating_add(calls.refused)
            }),
        ];
        for (name, help, count) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let named = self.edges.named.iter().map(|((caller, service), calls)| (&**caller, &**service, calls));
            for (caller, service, calls) in named.chain([(OTHERS, OTHERS, &self.edges.other)]) {
                let labels = [("caller", caller), ("service", service)];
                ConstCounter::new(count(calls)).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The counts within each bound, and above all bounds.
fn buckets(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut buckets = Vec::with_capacity(BOUNDS.len() + 1);
    for bound in BOUNDS {
        let within = histogram.within(bound);
        buckets.push((upper_bound(bound), within - below));
        below = within;
    }
    buckets.push((f64::INFINITY, histogram.count() - below));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::sync::latency::Calls;
    use bloc_policy::sync::latency::histogram::bucket;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    fn written(metrics: LatencyMetrics) -> String {
        let (mut registry, mut out) = (Registry::default(), String::new());
        registry.register_collector(Box::new(metrics));
        text::encode_registry(&mut out, &registry).unwrap();
        out
    }

    fn times(millis: &[u64]) -> Histogram {
        let mut sum = Histogram::default();
        millis.iter().for_each(|millis| {
            sum.add(&Histogram { sum_us: millis * 1_000, counts: vec![(bucket(millis * 1_000_000), 1)] });
        });
        sum
    }

    #[test]
    fn a_histogram_counts_all_below_each_bound() {
        let totals = ServiceTotals { response: times(&[3, 100, 100, 20_000]), ..ServiceTotals::default() };
        let metrics = LatencyMetrics { services: [("a".to_owned(), totals)].into(), edges: EdgeTotals::default() };
        let text = written(metrics);
        for line in [
            "# TYPE bloc_service_response_seconds histogram",
            "bloc_service_response_seconds_sum{service=\"a\"} 20.203",
            "bloc_service_response_seconds_count{service=\"a\"} 4",
            "bloc_service_response_seconds_bucket{le=\"0.001953125\",service=\"a\"} 0",
            "bloc_service_response_seconds_bucket{le=\"0.00390625\",service=\"a\"} 1",
            "bloc_service_response_seconds_bucket{le=\"0.125\",service=\"a\"} 3",
            "bloc_service_response_seconds_bucket{le=\"16.0\",service=\"a\"} 3",
            "bloc_service_response_seconds_bucket{le=\"+Inf\",service=\"a\"} 4",
            "bloc_calls_total{caller=\"all others\",service=\"all others\"} 0",
        ] {
            assert!(text.lines().any(|written| written == line), "no {line} in {text}");
        }
        assert!(!text.contains("bloc_service_call_seconds_count"), "nobody has reported calls");
    }

    #[test]
    fn fifty_services_with_two_hundred_edges_have_two_thousand_series_at_most() {
        let totals = || ServiceTotals { response: times(&[3]), calls: times(&[4]) };
        let services = (0..50).map(|nth| (format!("s{nth}"), totals())).collect();
        let calls = Calls { requests: 3, failed: 1, exhausted: 1, ..Calls::default() };
        let named = (0..200).map(|nth| ((format!("c{nth}").into(), "s".into()), calls)).collect();
        let text = written(LatencyMetrics { services, edges: EdgeTotals { named, other: calls } });
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series, 50 * 2 * 15 + 201 * 2);
        assert!(series <= 2_000 && text.contains("bloc_calls_unserved_total{caller=\"c7\",service=\"s\"} 2\n"));
    }
}
