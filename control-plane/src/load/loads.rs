//! The load of all services.

use super::events::EventRates;
use super::interval::ReportInterval;
use super::report::Report;
use super::service::{Counting, ServerLoad, Service};
use super::signals::Signals;
use super::ticks::Ticks;
use super::totals::Totals;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The most services whose load is kept. Each is a label value on some ten metrics.
pub const MAX_SERVICES: usize = 1_000;

/// The last reports of each service.
///
/// The parameter `counts` of most methods tells whether a proxy counts at this replica at a moment.
#[derive(Debug)]
pub struct Loads {
    interval: ReportInterval,
    ticks: Ticks,
    services: BTreeMap<String, Service>,
    dropped: u64,
}

impl Default for Loads {
    fn default() -> Self {
        Self::new(ReportInterval::default(), Instant::now())
    }
}

impl Loads {
    /// No reports yet. Proxies report every `interval`; arrival rates are observed as often,
    /// starting at `first`.
    pub fn new(interval: ReportInterval, first: Instant) -> Self {
        Self { interval, ticks: Ticks::new(first, interval.get()), services: BTreeMap::new(), dropped: 0 }
    }

    fn counting<F>(&self, counts: F) -> Counting<'_, F> {
        Counting { counts, interval: self.interval, ticks: &self.ticks }
    }

    /// Records what a proxy reports; `in_force` tells which services exist.
    pub fn receive(
        &mut self,
        report: Report<'_>,
        in_force: impl Fn(&str) -> bool,
        counts: impl Fn(&str, Instant) -> bool,
        now: Instant,
    ) {
        let ticks = self.ticks;
        let counting = Counting { counts, interval: self.interval, ticks: &ticks };
        for load in report.load {
            match self.service(&load.service, &in_force, now) {
                Some(service) => service.receive(report.proxy, load, report.span, &counting, now),
                None => self.dropped += 1,
            }
        }
    }

    /// Adds a report to the totals when its poll is answered: no other replica will count it. Calls
    /// `in_force` again, because a service may have come into force since the report came.
    pub fn count(&mut self, report: Report<'_>, in_force: impl Fn(&str) -> bool, now: Instant) {
        for load in report.load {
            if let Some(service) = self.service(&load.service, &in_force, now) {
                service.count(load);
            }
        }
    }

    /// The load of a service in force; `None` also if there are too many.
    fn service(&mut self, name: &str, in_force: impl Fn(&str) -> bool, now: Instant) -> Option<&mut Service> {
        let is_known = self.services.contains_key(name);
        if !in_force(name) || (!is_known && self.services.len() >= MAX_SERVICES) {
            return None;
        }
        Some(self.services.entry(name.to_owned()).or_insert_with(|| Service::new(now)))
    }

    /// Feeds each predictor the arrival rate of the last tick, once. Must be called at least once
    /// between two ticks.
    pub fn observe(&mut self, counts: impl Fn(&str, Instant) -> bool, now: Instant) {
        let Self { interval, ticks, services, .. } = self;
        let counting = Counting { counts, interval: *interval, ticks };
        services.values_mut().for_each(|service| service.observe(&counting, now));
    }

    /// Forgets what `proxy` reported of a service.
    pub fn forget(&mut self, proxy: &str, service: &str) {
        if let Some(service) = self.services.get_mut(service) {
            service.forget(proxy);
        }
    }

    /// Forgets services that are no longer in force.
    pub fn retain(&mut self, in_force: impl Fn(&str) -> bool) {
        self.services.retain(|name, _| in_force(name));
    }

    /// The signals of a service; `None` if nobody has reported on it.
    pub fn signals(&self, service: &str, counts: impl Fn(&str, Instant) -> bool, now: Instant) -> Option<Signals> {
        Some(self.services.get(service)?.signals(&self.counting(counts), now))
    }

    /// Signals and totals of all services ever reported, by name.
    pub fn all(&self, counts: impl Fn(&str, Instant) -> bool, now: Instant) -> BTreeMap<String, (Signals, Totals)> {
        let counting = self.counting(counts);
        let of =
            |(name, service): (&String, &Service)| (name.clone(), (service.signals(&counting, now), service.totals()));
        self.services.iter().map(of).collect()
    }

    /// The events at a service, over all its servers; `None` if no server is measured yet.
    pub fn events(&self, service: &str, counts: impl Fn(&str, Instant) -> bool, now: Instant) -> Option<EventRates> {
        self.services.get(service)?.events(&counts, now)
    }

    /// The servers of a service that count here, by proxy.
    pub fn servers(&self, service: &str, counts: impl Fn(&str, Instant) -> bool, now: Instant) -> Vec<ServerLoad> {
        self.services.get(service).map(|service| service.servers(&counts, now)).unwrap_or_default()
    }

    /// Whether no server of a service was heard for a minute.
    pub fn is_silent(&self, service: &str, now: Instant) -> bool {
        self.services.get(service).is_some_and(|service| service.is_silent(now))
    }

    /// Reports dropped because the service is not in force or there are too many services.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
