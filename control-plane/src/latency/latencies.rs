//! All services and edges.

use super::edges::{EdgeTotals, Edges};
use super::view::{EdgeView, LatencyView};
use super::windowed::{Moment, Windowed};
use crate::load::MAX_SERVICES;
use bloc_policy::sync::latency::dispersion::NUMBERS;
use bloc_policy::sync::latency::{Growth, Histogram};
use bloc_policy::sync::{ServerLatency, ServiceCalls, ServiceLoad};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The share of the arrival blocks that each slot keeps: the memory is some five minutes long.
const REMEMBERED: f64 = 0.97;

/// What a proxy reports about latencies.
#[derive(Clone, Copy, Debug)]
pub struct LatencyReport<'a> {
    pub proxy: &'a str,
    /// The proxy's workload.
    pub caller: &'a str,
    /// The services that it serves.
    pub load: &'a [ServiceLoad],
    /// Its calls.
    pub calls: &'a [ServiceCalls],
}

/// One service.
#[derive(Debug, Default)]
struct Service {
    /// Histograms: response and execution.
    servers: Windowed,
    /// Numbers: those of [`Calls`](bloc_policy::sync::latency::Calls); one histogram.
    callers: Windowed,
    /// Blocks of arrivals by proxy, weighted towards recent ones, and the slot of the last one.
    /// Each is charged to the proxy's record, and ends with it.
    arrivals: BTreeMap<Box<str>, ([f64; NUMBERS], u64)>,
}

/// Everything since the start, of one service.
#[derive(Clone, Debug, Default)]
pub struct ServiceTotals {
    /// From the arrival at a server to the response.
    pub response: Histogram,
    /// As its callers see it.
    pub calls: Histogram,
}

/// All services and edges.
#[derive(Debug)]
pub struct Latencies {
    origin: Instant,
    services: BTreeMap<Arc<str>, Service>,
    edges: Edges,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { origin: Instant::now(), services: BTreeMap::new(), edges: Edges::default() }
    }
}

impl Latencies {
    /// Adds a report whose poll is being answered. `in_force` tells which services exist.
    pub fn count(&mut self, report: LatencyReport<'_>, in_force: impl Fn(&str) -> bool, now: Instant) {
        let slot = self.at(now).slot;
        for load in report.load {
            let (Some(latency), Some((_, service))) = (&load.latency, self.service(&load.service, &in_force)) else {
                continue;
            };
            let ServerLatency { response, execution, arrivals } = latency;
            let growth = Growth { numbers: Vec::new(), histograms: vec![response.clone(), execution.clone()] };
            service.servers.add(&growth, slot);
            service.arrive(report.proxy, arrivals, slot);
        }
        for calls in report.calls {
            let Some((name, service)) = self.service(&calls.service, &in_force) else { continue };
            let growth = Growth { numbers: calls.calls().numbers().to_vec(), histograms: vec![calls.latency.clone()] };
            service.callers.add(&growth, slot);
            self.edges.add((report.caller.into(), name), &growth, slot);
        }
    }

    fn service(&mut self, name: &str, in_force: impl Fn(&str) -> bool) -> Option<(Arc<str>, &mut Service)> {
        if !in_force(name) || (!self.services.contains_key(name) && self.services.len() >= MAX_SERVICES) {
            return None;
        }
        let name = self.services.get_key_value(name).map_or_else(|| Arc::from(name), |(name, _)| Arc::clone(name));
        Some((Arc::clone(&name), self.services.entry(name).or_default()))
    }

    /// Forgets the arrivals at a proxy that no longer serves a service.
    pub fn forget(&mut self, proxy: &str, service: &str) {
        if let Some(service) = self.services.get_mut(service) {
            service.arrivals.remove(proxy);
        }
    }

    /// Forgets services that are no longer in force.
    pub fn retain(&mut self, in_force: impl Fn(&str) -> bool) {
        self.services.retain(|name, _| in_force(name));
        self.edges.retain(in_force);
    }

    /// One service, over the last minute; `None` if nobody has reported anything.
    pub fn service_view(&self, name: &str, now: Instant) -> Option<LatencyView> {
        let (Moment { slot, covers }, service) = (self.at(now), self.services.get(name)?);
        let arrivals = service.arrivals.values().map(|(arrivals, _)| *arrivals);
        Some(LatencyView::new(&service.servers.recent(slot), &service.callers.recent(slot), covers, arrivals))
    }

    /// The edges with calls in the last minute, heaviest first; those into one service, or all.
    pub fn edges(&self, into: Option<&str>, now: Instant) -> Vec<EdgeView> {
        let Moment { slot, covers } = self.at(now);
        let recent = self.edges.recent(slot);
        let wanted = recent.filter(|((_, service), _)| into.is_none_or(|into| **service == *into));
        let mut edges: Vec<EdgeView> =
            wanted.filter_map(|((caller, service), growth)| EdgeView::new(caller, service, &growth, covers)).collect();
        edges.sort_by(|one, other| other.calls.requests.total_cmp(&one.calls.requests));
        edges
    }

    /// Everything since the start, by service.
    pub fn totals(&self) -> BTreeMap<String, ServiceTotals> {
        let first = |windowed: &Windowed| windowed.total().histograms.first().cloned().unwrap_or_default();
        let totals =
            |service: &Service| ServiceTotals { response: first(&service.servers), calls: first(&service.callers) };
        self.services.iter().map(|(name, service)| (name.to_string(), totals(service))).collect()
    }

    /// The series of the edges.
    pub fn edge_totals(&self) -> EdgeTotals {
        self.edges.totals()
    }

    fn at(&self, now: Instant) -> Moment {
        Moment::after(now.saturating_duration_since(self.origin))
    }
}

impl Service {
    /// Adds blocks of arrivals at a proxy, if there are any.
    fn arrive(&mut self, proxy: &str, arrivals: &[u64], slot: u64) {
        let Ok(blocks) = <[u64; NUMBERS]>::try_from(arrivals) else { return };
        let (sums, last) = self.arrivals.entry(proxy.into()).or_insert_with(|| ([0.0; NUMBERS], slot));
        let aged = i32::try_from(slot.saturating_sub(*last)).unwrap_or(i32::MAX);
        for (sum, block) in sums.iter_mut().zip(blocks) {
            *sum = *sum * REMEMBERED.powi(aged) + block as f64;
        }
        *last = slot;
    }
}
