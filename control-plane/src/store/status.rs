//! What the page shows, read from the store: one line for each service, and one service with its
//! servers and senders.

use super::decide::State;
use super::history::Event;
use super::modules::{ModuleView, Modules, Tally};
use super::proxies::Record;
use super::publish::{Inner, Store};
use crate::agents::cpu::{AppView, pod_of};
use crate::clock::rfc3339;
use crate::latency::{EdgeView, LatencyView};
use crate::load::{EventRates, ServerLoad, Signals};
use crate::snapshot::Service;
use bloc_policy::config::{RoutingKind, ServiceParameters, ServiceSpec};
use bloc_policy::sync::ServerCpu;
use serde::Serialize;
use std::collections::HashMap;
use std::time::UNIX_EPOCH;
use tokio::time::Instant;

/// Above this share of rejected requests a service is in trouble; below it, it only sheds a peak.
const MANY_REJECTED: f64 = 0.01;
/// Callers' reports count for all if their number is within these factors of what servers answer,
/// and of what they answer or reject.
const MOST_CALLS: std::ops::Range<f64> = 0.9..1.2;
/// The most applications listed, on all nodes.
const MAX_APPS: usize = 50;
/// The most stale proxies listed.
const MAX_NAMED: usize = 20;

/// The condition of a service, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Users see more than 1% of its requests rejected. If most callers have no filters: its
    /// servers reject as many for capacity or for their deadline.
    Rejecting,
    /// Its arrival rate exceeds its service rate, so queues grow.
    Overloaded,
    /// Some requests are rejected likewise.
    Shedding,
    /// Servers have reported before, but this replica has heard of none for a minute.
    Silent,
    /// No problem.
    Ok,
    /// This replica counts none of its servers now: they poll another one, or are gone.
    Elsewhere,
    /// No server has ever reported.
    Unreported,
}

/// The status of all services and proxies.
#[derive(Clone, Debug)]
pub struct Status {
    /// The version in force.
    pub version: String,
    /// Where the services come from.
    pub source: String,
    /// The name by which proxies know the answering replica.
    pub replica: String,
    /// Whether services are in force, and no shutdown has begun.
    pub ready: bool,
    /// When the services in force were accepted (RFC 3339).
    pub loaded: Option<String>,
    /// Grows with every event in the history.
    pub history: u64,
    /// The refusals in force, the latest first.
    pub refusals: Vec<Event>,
    /// The number of proxies.
    pub proxies: ProxyCounts,
    /// The first few stale proxies.
    pub stale: Vec<SenderStatus>,
    /// What the connected proxies run.
    pub modules: Modules,
    /// The edges of the call graph with calls in the last minute, the heaviest first.
    pub edges: Vec<EdgeView>,
    /// The first applications whose CPU node agents manage, by name and node.
    pub apps: Vec<AppView>,
    /// The number of all applications.
    pub app_count: usize,
    /// The services by name.
    pub services: Vec<ServiceStatus>,
}

/// The number of proxies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProxyCounts {
    /// Those that count at this replica.
    pub connected: usize,
    /// How many of these have the newest state.
    pub current: usize,
    /// How many of these have not taken the newest state for a while.
    pub stale: usize,
    /// Those heard within ten minutes that do not count at this replica: they poll another one, or
    /// are gone.
    pub elsewhere: usize,
}

/// One service in one line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Its condition.
    pub condition: Condition,
    /// How callers choose a server.
    pub routing: RoutingKind,
    /// The number of its endpoints; `null`: learned from responses.
    pub endpoints: Option<usize>,
    /// Proxies that call it and count at this replica.
    pub senders: usize,
    /// The sums of the reports of its servers that count at this replica; `null` if it has heard
    /// none.
    pub load: Option<Signals>,
    /// The events at its servers, per second; `null` if not measured yet.
    pub events: Option<EventRates>,
    /// The share of its requests rejected for capacity or for their deadline; 0 to 1.
    pub rejected_share: f64,
    /// How long its requests take, and how they end for callers; `null`: nobody has reported this.
    pub latency: Option<LatencyView>,
}

/// A proxy that calls a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SenderStatus {
    /// Its id.
    pub proxy: String,
    /// `stale`, `current` or `elsewhere`.
    pub state: ProxyState,
    /// The version acknowledged by its last poll; `null`: none.
    pub version: Option<String>,
    /// When it was last heard of (RFC 3339).
    pub seen: String,
    /// What it runs.
    #[serde(flatten)]
    pub module: ModuleView,
}

/// The state of a proxy, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyState {
    /// It does not take the newest state.
    Stale,
    /// It has the newest state, or is about to.
    Current,
    /// It does not count at this replica: it polls another one, or is gone.
    Elsewhere,
}

/// A server of a service.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its last report.
    pub load: ServerLoad,
    /// When it was heard of (RFC 3339).
    pub seen: String,
    /// What is known of the CPU of its pod; `None`: nothing.
    pub cpu: Option<ServerCpu>,
    /// What its proxy runs.
    pub module: ModuleView,
}

/// One service in detail.
#[derive(Clone, Debug)]
pub struct ServiceReport {
    /// The same as in the list of services.
    pub status: ServiceStatus,
    /// The spec as written.
    pub spec: ServiceSpec,
    /// Its parameters, with defaults filled in.
    pub parameters: ServiceParameters,
    /// Its servers by proxy.
    pub servers: Vec<ServerStatus>,
    /// The proxies that call it.
    pub senders: Vec<SenderStatus>,
    /// Who calls it, the heaviest first.
    pub callers: Vec<EdgeView>,
}

impl Store {
    /// The status of all services and proxies. It takes a pass, under the lock, over all servers
    /// and all names that proxies subscribed to: call it at most once a second.
    pub fn status(&self) -> Status {
        let now = Instant::now();
        let inner = self.lock();
        let mut senders: HashMap<&str, usize> = HashMap::new();
        let mut proxies = ProxyCounts::default();
        let (mut stale, mut modules) = (Vec::new(), Tally::default());
        for (proxy, record) in inner.state.proxies.iter() {
            let sender = self.sender(&inner, proxy, record, now);
            if sender.state != ProxyState::Elsewhere && inner.state.is_current(record) {
                proxies.current += 1;
            }
            match sender.state {
                ProxyState::Elsewhere => proxies.elsewhere += 1,
                ProxyState::Current => proxies.connected += 1,
                ProxyState::Stale => {
                    (proxies.connected, proxies.stale) = (proxies.connected + 1, proxies.stale + 1);
                    if stale.len() < MAX_NAMED {
                        stale.push(sender.clone());
                    }
                }
            }
            if sender.state != ProxyState::Elsewhere {
                modules.add(proxy, record, &inner.state.catalog);
                record.subscription.calls.iter().for_each(|name| *senders.entry(&name.text).or_default() += 1);
            }
        }
        let services = inner.state.catalog.iter().map(|(name, service)| {
            let callers = senders.get(name.as_str()).copied().unwrap_or(0);
            service_status(&inner, name, service, callers, now)
        });
        let (apps, app_count) = inner.state.cpus.apps(MAX_APPS, now);
        Status {
            apps,
            app_count,
            version: inner.state.version().to_string(),
            source: self.0.source.clone(),
            replica: self.0.replica.clone(),
            ready: inner.state.catalog.is_published() && !inner.state.closing,
            loaded: inner.loaded.map(rfc3339),
            history: inner.history.number(),
            refusals: inner.history.refusals_in_force(),
            services: services.collect(),
            proxies,
            stale,
            modules: modules.view(),
            edges: inner.state.latencies.edges(None, now),
        }
    }

    /// One service in detail; `None` if it does not exist.
    pub fn service_report(&self, name: &str) -> Option<ServiceReport> {
        let now = Instant::now();
        let inner = self.lock();
        let service = inner.state.catalog.get(name)?;
        let senders: Vec<SenderStatus> = inner
            .state
            .proxies
            .iter()
            .filter(|(_, record)| record.subscription.calls(name))
            .map(|(proxy, record)| self.sender(&inner, proxy, record, now))
            .collect();
        let connected = senders.iter().filter(|sender| sender.state != ProxyState::Elsewhere).count();
        let State { loads, proxies, catalog, cpus, .. } = &inner.state;
        let servers = loads.servers(name, |proxy, at| proxies.count_here(proxy, at), now);
        let server = |load: ServerLoad| {
            let module = proxies.get(&load.proxy).map(|record| ModuleView::of(record, catalog));
            ServerStatus {
                seen: self.ago(load.seen, now),
                cpu: pod_of(&load.proxy).and_then(|pod| cpus.known(pod, now)),
                module: module.unwrap_or_default(),
                load,
            }
        };
        Some(ServiceReport {
            status: service_status(&inner, name, service, connected, now),
            spec: service.spec().clone(),
            parameters: service.parameters().clone(),
            servers: servers.into_iter().map(server).collect(),
            senders,
            callers: inner.state.latencies.edges(Some(name), now),
        })
    }

    /// Changes and refusals, the latest first.
    pub fn history(&self) -> Vec<Event> {
        self.lock().history.events()
    }

    fn sender(&self, inner: &Inner, proxy: &str, record: &Record, now: Instant) -> SenderStatus {
        let state = if !record.window.contains(now) {
            ProxyState::Elsewhere
        } else if inner.state.is_stale(record, now) {
            ProxyState::Stale
        } else {
            ProxyState::Current
        };
        let version = record.version.as_ref().map(ToString::to_string);
        let seen = if record.held.is_some() { now } else { record.seen };
        let module = ModuleView::of(record, &inner.state.catalog);
        SenderStatus { proxy: proxy.to_owned(), state, version, seen: self.ago(seen, now), module }
    }

    fn ago(&self, then: Instant, now: Instant) -> String {
        let wall = self.0.clock.now();
        rfc3339(wall.checked_sub(now.saturating_duration_since(then)).unwrap_or(UNIX_EPOCH))
    }
}

fn service_status(inner: &Inner, name: &str, service: &Service, senders: usize, now: Instant) -> ServiceStatus {
    let State { loads, proxies, .. } = &inner.state;
    let load = inner.state.signals(name, now);
    let events = loads.events(name, |proxy, at| proxies.count_here(proxy, at), now);
    let rejected_share = events.map_or(0.0, |events| events.rejected_share());
    let latency = inner.state.latencies.service_view(name, now);
    let calls = latency.as_ref().and_then(|latency| latency.calls);
    let (answers, rejections) = events.map_or((0.0, 0.0), |events| (events.departures, events.rejected()));
    // Below this, many callers have no filters, and see what the servers reject. Above it, the
    // reports are of other servers, or made up.
    let all = MOST_CALLS.start * answers..=MOST_CALLS.end * (answers + rejections);
    let felt = calls.filter(|calls| all.contains(&calls.requests)).map(|calls| calls.rejected());
    ServiceStatus {
        name: name.to_owned(),
        condition: condition(load.as_ref(), loads.is_silent(name, now), rejected_share, felt),
        routing: service.parameters().routing(),
        endpoints: endpoints(service.spec()),
        senders,
        load,
        events,
        rejected_share,
        latency,
    }
}

/// The number of addresses in the spec; an address with several ports counts once per port.
fn endpoints(spec: &ServiceSpec) -> Option<usize> {
    let by_port = spec.endpoints_by_port.values().map(Vec::len).sum::<usize>();
    let known = spec.endpoints.is_some() || !spec.endpoints_by_port.is_empty();
    known.then(|| by_port + spec.endpoints.as_ref().map_or(0, Vec::len))
}

/// `rejected`: the share of requests that servers reject; `felt`: the share that users saw
/// rejected, if known. A rejection that a retry healed is no trouble.
fn condition(load: Option<&Signals>, is_silent: bool, rejected: f64, felt: Option<f64>) -> Condition {
    let trouble = felt.unwrap_or(rejected);
    match load {
        None => Condition::Unreported,
        Some(load) if load.servers == 0 && is_silent => Condition::Silent,
        Some(load) if load.servers == 0 => Condition::Elsewhere,
        Some(_) if trouble > MANY_REJECTED => Condition::Rejecting,
        Some(load) if load.utilisation_ratio.is_some_and(|ratio| ratio > 1.0) => Condition::Overloaded,
        Some(_) if trouble > 0.0 => Condition::Shedding,
        Some(_) => Condition::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_in_the_worst_condition_that_applies() {
        let of = |servers, utilisation_ratio, is_silent, rejected_share| {
            let load = Signals {
                servers,
                servers_with_service_rate: 0,
                demand_requests: 0,
                capacity_requests: None,
                arrival_rate_per_second: None,
                service_rate_per_second: None,
                service_rate_per_server: None,
                utilisation_ratio,
                predicted_arrival_rate_per_second: None,
                prediction_horizon_seconds: 0.0,
            };
            condition(Some(&load), is_silent, rejected_share, None)
        };
        assert_eq!(condition(None, true, 0.0, None), Condition::Unreported);
        assert_eq!(of(0, None, true, 0.0), Condition::Silent);
        assert_eq!(of(0, None, false, 0.0), Condition::Elsewhere);
        assert_eq!(of(1, Some(2.0), true, 0.02), Condition::Rejecting, "servers count here, whatever was silent");
        assert_eq!(of(1, Some(1.1), false, 0.01), Condition::Overloaded);
        assert_eq!(of(1, Some(1.0), false, 0.01), Condition::Shedding, "1% is a peak");
        assert_eq!(of(1, Some(1.0), false, 0.0), Condition::Ok);
    }

    #[test]
    fn counts_the_addresses_that_were_written() {
        let of = |yaml: &str| endpoints(&serde_json::from_value(bloc_yaml::values(yaml).unwrap()).unwrap());
        assert_eq!(of("{}"), None, "learned from the answers");
        assert_eq!(of("{endpoints: []}"), Some(0));
        let by_port = "endpointsByPort: {80: ['1.1.1.1:1', '2.2.2.2:1'], 81: ['1.1.1.1:2']}";
        assert_eq!(of(&format!("{{{by_port}}}")), Some(3));
        assert_eq!(of(&format!("{{endpoints: ['1.1.1.1:3'], {by_port}}}")), Some(4));
    }
}
