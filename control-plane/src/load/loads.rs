//! The loads of all services.

use super::events::EventRates;
use super::interval::ReportInterval;
use super::service::{ServerLoad, Service};
use super::signals::Signals;
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Services whose load is kept at most; each is the value of a label on some ten metrics.
pub const MAX_SERVICES: usize = 1_000;

/// What was reported of each service.
#[derive(Debug, Default)]
pub struct Loads {
    interval: ReportInterval,
    services: BTreeMap<String, Service>,
    dropped: u64,
}

impl Loads {
    /// Without reports; proxies report every `interval`.
    pub fn new(interval: ReportInterval) -> Self {
        Self { interval, ..Self::default() }
    }

    /// Takes note of what `proxy` reports; `in_force` tells which services exist.
    pub fn hear(&mut self, proxy: &str, loads: &[ServiceLoad], in_force: impl Fn(&str) -> bool, now: Instant) {
        for load in loads {
            let name = load.service.as_str();
            let known = self.services.contains_key(name);
            if !in_force(name) || (!known && self.services.len() >= MAX_SERVICES) {
                self.dropped += 1;
                continue;
            }
            let service = self.services.entry(name.to_owned()).or_insert_with(|| Service::new(now));
            service.hear(proxy, load, self.interval, now);
        }
    }

    /// Forgets services that are not in force any more.
    pub fn retain(&mut self, in_force: impl Fn(&str) -> bool) {
        self.services.retain(|name, _| in_force(name));
    }

    /// The signals of a service; `None` if nobody ever reported it.
    pub fn signals(&self, service: &str, now: Instant) -> Option<Signals> {
        Some(self.services.get(service)?.signals(self.interval, now))
    }

    /// The signals of all services that were ever reported, by name.
    pub fn all(&self, now: Instant) -> BTreeMap<String, Signals> {
        let signals = |(name, service): (&String, &Service)| (name.clone(), service.signals(self.interval, now));
        self.services.iter().map(signals).collect()
    }

    /// The events at a service, over all its servers; `None` if no server has been measured yet.
    pub fn events(&self, service: &str, now: Instant) -> Option<EventRates> {
        self.services.get(service)?.events(self.interval, now)
    }

    /// The servers of a service, by proxy.
    pub fn servers(&self, service: &str, now: Instant) -> Vec<ServerLoad> {
        self.services.get(service).map(|service| service.servers(self.interval, now)).unwrap_or_default()
    }

    /// Reports of services that are not in force, or beyond the bound.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
