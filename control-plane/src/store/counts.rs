//! The store's numbers for the metrics.

use super::decide::State;
use super::modules::Tally;
use super::publish::Store;
use crate::latency::{EdgeTotals, ServiceTotals};
use crate::load::{Signals, Totals};
use bloc_policy::config::features::Feature;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use tokio::time::Instant;

/// Numbers for the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Identifies the content of everything in force.
    pub digest: u64,
    /// Services in force.
    pub services: usize,
    /// Polls that are held.
    pub polls_held: usize,
    /// Proxies that count at this replica.
    pub proxies_connected: usize,
    /// How many of them have not taken the state in force for a while.
    pub proxies_stale: usize,
    /// How many of them lack a feature which their services use, for each such feature.
    pub proxies_lacking: Vec<(Feature, usize)>,
    /// How many of them could not read the parameters of a service.
    pub proxies_unread: usize,
    /// Contents of the source accepted since the start, and those refused.
    pub accepted: u64,
    pub rejected: u64,
    /// Unresolved refusals.
    pub refused: usize,
    /// Reports dropped because the service is not in force or there are too many services.
    pub load_reports_dropped: u64,
    /// Node agents heard lately.
    pub node_agents: usize,
    /// Pods whose response times agents ask for.
    pub node_agent_asks: usize,
    /// When the services in force were accepted, in seconds since 1970.
    pub loaded_unix_seconds: Option<u64>,
}

impl Store {
    /// The latencies of all services, and the calls of each edge, since the start.
    pub fn latency_totals(&self) -> (BTreeMap<String, ServiceTotals>, EdgeTotals) {
        let inner = self.lock();
        (inner.state.latencies.totals(), inner.state.latencies.edge_totals())
    }

    /// Signals and totals of the reported services, by name; their number is bounded.
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
            services: inner.state.catalog.count(),
            polls_held: inner.state.polls.len(),
            proxies_connected: inner.state.proxies.counted(now),
            proxies_stale: inner.stale(),
            proxies_lacking: modules.lacking(catalog),
            proxies_unread: modules.unread(),
            accepted: inner.accepted,
            rejected: inner.rejected,
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
}
