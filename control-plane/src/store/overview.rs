//! The views of the store for operators and metrics.

use super::handle::Store;
use super::inner::Inner;
use super::modules::{ModuleView, Tally};
use super::proxies::Record;
use super::state::State;
use super::view::{Counts, Overview, ProxyView, Refusal, ServiceDetail, ServiceView};
use crate::agents::cpu::pod_of;
use crate::clock::rfc3339;
use crate::latency::{EdgeTotals, ServiceTotals};
use crate::load::{Signals, Totals};
use crate::snapshot::Service;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use tokio::time::Instant;

impl Store {
    /// Everything, for operators.
    pub fn overview(&self) -> Overview {
        let inner = self.lock();
        let refusal = inner.refusal.as_ref().map(|(origin, message, at)| Refusal {
            message: message.clone(),
            at: rfc3339(*at),
            resolved: !inner.refused.contains_key(origin),
        });
        let refused = inner.refused.values().map(|(message, at)| Refusal {
            message: message.clone(),
            at: rfc3339(*at),
            resolved: false,
        });
        Overview {
            version: inner.state.version().to_string(),
            source: self.0.source.clone(),
            replica: self.0.replica.clone(),
            loaded: inner.loaded.map(rfc3339),
            refusal,
            refused: refused.collect(),
            services: inner.state.catalog.iter().map(|(name, service)| (name.clone(), view(service))).collect(),
            proxies: self.proxies(&inner, |_| true),
        }
    }

    /// One service, for operators; `None` if it does not exist.
    pub fn service(&self, name: &str) -> Option<ServiceDetail> {
        let inner = self.lock();
        let service = view(inner.state.catalog.get(name)?);
        let proxies = self.proxies(&inner, |record| record.subscription.contains(name));
        let load = inner.state.signals(name, Instant::now());
        Some(ServiceDetail { name: name.to_owned(), service, load, proxies })
    }

    /// The latencies of all services, and the calls of each edge, since the start.
    pub fn latency_totals(&self) -> (BTreeMap<String, ServiceTotals>, EdgeTotals) {
        let inner = self.lock();
        (inner.state.latencies.totals(), inner.state.latencies.edge_totals())
    }

    /// Signals and totals of the services that were reported, by name; their number is bounded.
    pub fn signals(&self) -> BTreeMap<String, (Signals, Totals)> {
        let (inner, now) = (self.lock(), Instant::now());
        let State { loads, proxies, .. } = &inner.state;
        loads.all(|proxy, at| proxies.count_here(proxy, at), now)
    }

    /// Numbers for the metrics.
    pub fn counts(&self) -> Counts {
        let (inner, now) = (self.lock(), Instant::now());
        let State { catalog, proxies, .. } = &inner.state;
        let mut modules = Tally::default();
        for (proxy, record) in proxies.iter().filter(|(_, record)| record.window.contains(now)) {
            modules.add(proxy, record, catalog);
        }
        Counts {
            digest: inner.state.catalog.digest(),
            services: inner.state.catalog.len(),
            polls_held: inner.state.polls.len(),
            proxies_connected: inner.state.proxies.counted(now),
            proxies_stale: inner.stale(),
            proxies_lacking: modules.lacking(catalog),
            proxies_unread: modules.unread(),
            refused: inner.refused.len(),
            load_reports_dropped: inner.state.loads.dropped(),
            node_agents: inner.state.cpus.agents(now),
            node_agent_asks: inner.state.cpus.asks.count(now),
            loaded_unix_seconds: inner
                .loaded
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .map(|since| since.as_secs()),
        }
    }

    fn proxies(&self, inner: &Inner, wanted: impl Fn(&Record) -> bool) -> Vec<ProxyView> {
        let (now, wall) = (Instant::now(), self.0.clock.now());
        let view = |(proxy, record): (&String, &Record)| ProxyView {
            proxy: proxy.clone(),
            version: record.version.as_ref().map(ToString::to_string).unwrap_or_default(),
            current: inner.state.is_current(record),
            connected: record.window.contains(now),
            last_seen: rfc3339(wall.checked_sub(now.saturating_duration_since(record.seen)).unwrap_or(UNIX_EPOCH)),
            services: record.subscription.calls.to_vec(),
            serves: record.subscription.serves.to_vec(),
            load: record.load.clone(),
            cpu: pod_of(proxy).and_then(|pod| inner.state.cpus.known(pod, now)),
            module: ModuleView::of(record, &inner.state.catalog),
        };
        inner.state.proxies.iter().filter(|(_, record)| wanted(record)).map(view).collect()
    }
}

fn view(service: &Service) -> ServiceView {
    ServiceView { version: format!("{:016x}", service.digest()), spec: service.in_force() }
}
