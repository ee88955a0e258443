//! The last 15 minutes of each service, one sample every 10 s, for the sparklines.
//!
//! Bounds: [`KEPT`] samples of [`SERIES`] numbers for each of at most 1,000 reported services:
//! about 1 MB. The samples of a removed service are dropped; those of a silent service expire.

use crate::store::ServiceStatus;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The samples kept of a service.
pub const KEPT: usize = 90;
/// The numbers in a sample.
const SERIES: usize = 3;

#[derive(Debug, Default)]
pub struct Samples {
    /// The number of samples so far.
    taken: u64,
    services: BTreeMap<String, VecDeque<[f32; SERIES]>>,
}

/// The samples of a service, oldest first, rounded to three digits; `null` where a value was
/// unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sparklines {
    /// Requests per second that the servers took in.
    pub arrivals: Vec<f32>,
    /// Requests in flight.
    pub in_flight: Vec<f32>,
    /// Requests per second rejected for capacity or for their deadline.
    pub rejected: Vec<f32>,
}

impl Samples {
    /// The number of samples so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes a sample of each service.
    pub fn take(&mut self, services: &[ServiceStatus]) {
        self.taken += 1;
        let mut before = std::mem::take(&mut self.services);
        for service in services {
            let kept = before.remove(&service.name);
            let Some(load) = &service.load else { continue };
            let known = load.servers > 0;
            let number = |value: Option<f64>| value.filter(|_| known).map_or(f32::NAN, round);
            let sample = [
                number(load.arrival_rate_per_second),
                number(Some(load.demand_requests as f64)),
                number(service.events.map(|events| events.rejected())),
            ];
            let mut samples = kept.unwrap_or_default();
            if samples.len() == KEPT {
                samples.pop_front();
            }
            samples.push_back(sample);
            self.services.insert(service.name.clone(), samples);
        }
    }

    /// The samples of one service; `None` if there are none.
    pub fn of(&self, service: &str) -> Option<Sparklines> {
        let samples = self.services.get(service)?;
        let series = |i: usize| samples.iter().map(|s| s.get(i).copied().unwrap_or(f32::NAN)).collect();
        Some(Sparklines { arrivals: series(0), in_flight: series(1), rejected: series(2) })
    }
}

/// Rounds to three digits: a sparkline cannot show more, and this halves the response.
fn round(value: f64) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(2.0 - value.abs().log10().floor());
    ((value * scale).round() / scale) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Report;
    use crate::store::Store;
    use crate::{Clock, ReportInterval, Snapshot};

    fn services(yaml: &str) -> Vec<ServiceStatus> {
        let store = Store::new("test", Clock::system(), ReportInterval::default());
        store.publish(Snapshot::from_yaml(yaml).unwrap(), crate::store::Reach::default());
        store.status().services
    }

    /// Service a with `in_flight` requests in flight.
    fn with_load(in_flight: u64) -> Vec<ServiceStatus> {
        let mut services = services("services: {a: {}, never: {}}");
        let mut loads = crate::load::Loads::default();
        let load = bloc_policy::sync::ServiceLoad { service: "a".into(), in_flight, ..Default::default() };
        let now = tokio::time::Instant::now();
        let report = Report { proxy: "p", load: &[load], span: None };
        loads.receive(report, |_| true, |_, _| true, now);
        services[0].load = loads.signals("a", |_, _| true, now);
        services
    }

    #[test]
    fn keeps_fifteen_minutes_of_samples_and_drops_removed_services() {
        let mut samples = Samples::default();
        for i in 0..100 {
            samples.take(&with_load(i));
        }
        let of = samples.of("a").unwrap();
        assert_eq!((of.in_flight.len(), of.in_flight[0], of.in_flight[89]), (90, 10.0, 99.0));
        assert_eq!(serde_json::to_string(&of.arrivals[..2]).unwrap(), "[null,null]", "unknown is null, not 0");
        assert_eq!((samples.taken(), samples.of("never")), (100, None));
        samples.take(&services("services: {b: {}}"));
        assert_eq!(samples.of("a"), None);
    }

    #[test]
    fn rounds_samples_to_three_significant_digits() {
        assert_eq!([1234.5, 0.012_345, 99.96, 0.0].map(round), [1230.0, 0.0123, 100.0, 0.0]);
    }
}
