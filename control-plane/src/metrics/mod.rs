//! The metrics of the control plane, for Prometheus (OpenMetrics text): see `docs/metrics.md`.

mod latency;
mod load;

pub use latency::LatencyMetrics;

use crate::agents::leases::LeaseView;
use crate::agents::metrics::registry;
use crate::clock::Clock;
use crate::load::{Signals, Totals};
use crate::store::{Counts, Outcome};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

type Label = [(&'static str, &'static str); 1];

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    accepted: Counter,
    rejected: Counter,
    answers: Family<Label, Counter>,
    watch_errors: Family<Label, Counter>,
    watch_heard: Family<Label, Gauge>,
    refused: Gauge,
    version: Gauge,
    services: Gauge,
    loaded: Gauge,
    polls_held: Gauge,
    proxies_connected: Gauge,
    proxies_stale: Gauge,
    proxies_lacking: Family<Label, Gauge>,
    proxies_unread: Gauge,
    node_agents: Gauge,
    node_agent_asks: Gauge,
    agent_messages: Family<Label, Counter>,
    lease_asks: Family<Label, Counter>,
    lease_writes: Family<Label, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            accepted: Counter::default(),
            rejected: Counter::default(),
            answers: Family::default(),
            watch_errors: Family::default(),
            watch_heard: Family::default(),
            refused: Gauge::default(),
            version: Gauge::default(),
            services: Gauge::default(),
            loaded: Gauge::default(),
            polls_held: Gauge::default(),
            proxies_connected: Gauge::default(),
            proxies_stale: Gauge::default(),
            proxies_lacking: Family::default(),
            proxies_unread: Gauge::default(),
            node_agents: Gauge::default(),
            node_agent_asks: Gauge::default(),
            agent_messages: Family::default(),
            lease_asks: Family::default(),
            lease_writes: Family::default(),
        };
        let r = &mut metrics.registry;
        r.register("bloc_config_accepted", "Source contents that were accepted", metrics.accepted.clone());
        r.register("bloc_config_rejected", "Source contents that were refused", metrics.rejected.clone());
        r.register("bloc_config_version", "Identifies the content in force; not ordered", metrics.version.clone());
        r.register("bloc_config_services", "Services in force", metrics.services.clone());
        r.register(
            "bloc_config_loaded_timestamp_seconds",
            "When the services in force were accepted, since 1970",
            metrics.loaded.clone(),
        );
        r.register("bloc_polls_held", "Held polls", metrics.polls_held.clone());
        r.register("bloc_proxies_connected", "Proxies that count at this replica", metrics.proxies_connected.clone());
        r.register(
            "bloc_proxies_stale",
            "Connected proxies that have not taken the state in force for a while",
            metrics.proxies_stale.clone(),
        );
        r.register(
            "bloc_proxies_lacking",
            "Connected proxies that lack a feature which their services use",
            metrics.proxies_lacking.clone(),
        );
        r.register(
            "bloc_proxies_unread",
            "Connected proxies that could not read the parameters of a service",
            metrics.proxies_unread.clone(),
        );
        r.register("bloc_config_refused", "Source contents that are refused now", metrics.refused.clone());
        r.register("bloc_kubernetes_watch_errors", "Failed lists and watches", metrics.watch_errors.clone());
        r.register(
            "bloc_kubernetes_watch_heard_timestamp_seconds",
            "Unix time of the last list or watch event",
            metrics.watch_heard.clone(),
        );
        r.register("bloc_node_agents", "Node agents heard from recently", metrics.node_agents.clone());
        r.register("bloc_node_agent_asks", "Pods whose response times agents ask for", metrics.node_agent_asks.clone());
        r.register("bloc_node_agent_messages", "Messages of node agents by answer", metrics.agent_messages.clone());
        r.register("bloc_lease_asks", "Lease requests by result", metrics.lease_asks.clone());
        r.register("bloc_lease_writes", "Writes of lease records by result", metrics.lease_writes.clone());
        r.register("bloc_sync_answers", "Ended polls by answer", metrics.answers.clone());
        metrics
    }
}

impl Metrics {
    /// Counts a failed list or watch of a kind of Kubernetes object.
    pub fn count_watch_error(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&[("kind", kind)]).inc();
    }

    /// Notes that a list or watch of the Kubernetes API returned something.
    pub fn note_watch(&self, kind: &'static str) {
        let seconds = i64::try_from(Clock::system().unix_millis() / 1_000).unwrap_or(i64::MAX);
        self.watch_heard.get_or_create(&[("kind", kind)]).set(seconds);
    }

    /// Counts the end of a poll.
    pub fn count_outcome(&self, outcome: &Outcome) {
        self.count_answer(match outcome {
            Outcome::Changed(_) => "changed",
            Outcome::Cpu(_) => "cpu",
            Outcome::Unchanged => "unchanged",
            Outcome::Superseded => "superseded",
            Outcome::NoRoom => "no_room",
            Outcome::Closing { .. } => "closing",
        });
    }

    /// Counts a message of a node agent: `accepted`, `refused` or `no_room`.
    pub fn count_agent_message(&self, answer: &'static str) {
        self.agent_messages.get_or_create(&[("answer", answer)]).inc();
    }

    /// Counts the result of an ask for a lease: `said`, `late`, `conflict`, `failed`, `unread` or
    /// `no_room`; or of a message: `refused`.
    pub fn count_lease_ask(&self, result: &'static str) {
        self.lease_asks.get_or_create(&[("result", result)]).inc();
    }

    /// Counts a write of a record: `written`, `conflict` or `failed`.
    pub fn count_lease_write(&self, result: &'static str) {
        self.lease_writes.get_or_create(&[("result", result)]).inc();
    }

    /// All metrics as OpenMetrics text: the gauges from `counts` and `leases`, the metrics of
    /// services from `services`.
    ///
    /// # Errors
    /// If formatting fails, which does not happen with a string.
    pub fn encode(
        &self,
        counts: Counts,
        services: &BTreeMap<String, (Signals, Totals)>,
        latencies: LatencyMetrics,
        leases: &LeaseView,
    ) -> Result<String, std::fmt::Error> {
        let gauge = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        // 52 bits, which fit a floating-point number.
        self.version.set(i64::try_from(counts.digest >> 12).unwrap_or(i64::MAX));
        self.services.set(gauge(counts.services));
        self.polls_held.set(gauge(counts.polls_held));
        self.proxies_connected.set(gauge(counts.proxies_connected));
        self.accepted.inner().store(counts.accepted, Relaxed);
        self.rejected.inner().store(counts.rejected, Relaxed);
        self.refused.set(gauge(counts.refused));
        self.proxies_stale.set(gauge(counts.proxies_stale));
        self.proxies_unread.set(gauge(counts.proxies_unread));
        self.node_agents.set(gauge(counts.node_agents));
        self.node_agent_asks.set(gauge(counts.node_agent_asks));
        // Drops features that no service uses any more.
        self.proxies_lacking.clear();
        for (feature, proxies) in &counts.proxies_lacking {
            self.proxies_lacking.get_or_create(&[("feature", feature)]).set(gauge(*proxies));
        }
        self.loaded.set(counts.loaded_unix_seconds.and_then(|s| i64::try_from(s).ok()).unwrap_or(0));
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &load::registry(counts.load_reports_dropped, services))?;
        text::encode_registry(&mut out, &registry(leases))?;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(latencies));
        text::encode_registry(&mut out, &registry)?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }

    /// Counts the end of a poll by its answer, also `no_room` or `refused` (4xx).
    pub fn count_answer(&self, answer: &'static str) {
        self.answers.get_or_create(&[("answer", answer)]).inc();
    }
}
