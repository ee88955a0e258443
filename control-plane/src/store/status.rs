//! What the page shows, read out of the store: every service in one line, and one service with its servers and senders.

use super::handle::Store;
use super::history::Event;
use super::inner::Inner;
use super::proxies::Record;
use crate::clock::rfc3339;
use crate::load::{EventRates, ServerLoad, Signals};
use crate::snapshot::Service;
use bloc_policy::config::{RoutingKind, ServiceParameters, ServiceSpec};
use serde::Serialize;
use std::collections::HashMap;
use std::time::UNIX_EPOCH;
use tokio::time::Instant;

/// Above this share of its requests a service that rejects is in trouble; below, it sheds a peak.
const MANY_REJECTED: f64 = 0.01;
/// Stale proxies that are named.
const MAX_NAMED: usize = 20;

/// How a service does; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// More than 1% of its requests are rejected, for the capacity or for their deadline.
    Rejecting,
    /// More comes in than its servers finish, so that queues grow.
    Overloaded,
    /// Some requests are rejected.
    Shedding,
    /// Servers have reported before, none does now.
    Silent,
    /// All is well.
    Ok,
    /// No server has ever reported.
    Unreported,
}

/// Everything at a glance.
#[derive(Clone, Debug)]
pub struct Status {
    /// The version in force.
    pub version: String,
    /// Where the services come from.
    pub source: String,
    /// Whether services are in force, and no shutdown has begun.
    pub ready: bool,
    /// When the services in force were accepted (RFC 3339).
    pub loaded: Option<String>,
    /// Grows with every event of the history.
    pub history: u64,
    /// The refusals in force, the latest first.
    pub refusals: Vec<Event>,
    /// How many proxies there are.
    pub proxies: ProxyCounts,
    /// The first few stale proxies.
    pub stale: Vec<SenderStatus>,
    /// The services by name.
    pub services: Vec<ServiceStatus>,
}

/// How many proxies there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProxyCounts {
    /// Those that hold a poll or were heard of within their last two waits.
    pub connected: usize,
    /// Those of them that do not take the newest state.
    pub stale: usize,
    /// Those that were heard of within the last hour, but not lately.
    pub silent: usize,
}

/// One service in one line.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// How it does.
    pub condition: Condition,
    /// How callers choose.
    pub routing: RoutingKind,
    /// Its endpoints; `null`: learned from the answers.
    pub endpoints: Option<usize>,
    /// Connected proxies that call it.
    pub senders: usize,
    /// What its servers report, added up; `null` if none ever did.
    pub load: Option<Signals>,
    /// What happens at its servers, per second; `null` if not measured yet.
    pub events: Option<EventRates>,
    /// Share of its requests that is rejected, for the capacity or for their deadline; 0 to 1.
    pub rejected_share: f64,
}

/// A proxy that calls a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SenderStatus {
    /// Its id.
    pub proxy: String,
    /// `stale`, `current` or `silent`.
    pub state: ProxyState,
    /// The version that it acknowledged with its last poll; `null` if none.
    pub version: Option<String>,
    /// When it was last heard of (RFC 3339).
    pub seen: String,
}

/// How a proxy does; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyState {
    /// Connected, but it does not take the newest state.
    Stale,
    /// Not heard of within its last two waits.
    Silent,
    /// Connected, and it has what it ought to have, or is about to.
    Current,
}

/// One service with all that belongs to it.
#[derive(Clone, Debug)]
pub struct ServiceReport {
    /// Its line.
    pub status: ServiceStatus,
    /// As it was written.
    pub spec: ServiceSpec,
    /// Its parameters, the defaults filled in.
    pub parameters: ServiceParameters,
    /// Its servers by proxy, and when each was heard of (RFC 3339).
    pub servers: Vec<(ServerLoad, String)>,
    /// Who calls it, by proxy.
    pub senders: Vec<SenderStatus>,
}

impl Store {
    /// Everything at a glance. Costs a pass over all servers and all names that proxies subscribed to, under the lock: not to be asked for more than once a second.
    pub fn status(&self) -> Status {
        let now = Instant::now();
        let inner = self.lock();
        let mut senders: HashMap<&str, usize> = HashMap::new();
        let mut proxies = ProxyCounts::default();
        let mut stale = Vec::new();
        for (proxy, record) in inner.state.proxies.iter() {
            let sender = self.sender(&inner, proxy, record, now);
            match sender.state {
                ProxyState::Silent => proxies.silent += 1,
                ProxyState::Current => proxies.connected += 1,
                ProxyState::Stale => {
                    (proxies.connected, proxies.stale) = (proxies.connected + 1, proxies.stale + 1);
                    if stale.len() < MAX_NAMED {
                        stale.push(sender.clone());
                    }
                }
            }
            if sender.state != ProxyState::Silent {
                record.subscription.calls.iter().for_each(|name| *senders.entry(&name.text).or_default() += 1);
            }
        }
        let services = inner.state.catalog.iter().map(|(name, service)| {
            let callers = senders.get(name.as_str()).copied().unwrap_or(0);
            service_status(&inner, name, service, callers, now)
        });
        Status {
            version: inner.state.version().to_string(),
            source: self.0.source.clone(),
            ready: inner.state.catalog.is_published() && !inner.state.closing,
            loaded: inner.loaded.map(rfc3339),
            history: inner.history.number(),
            refusals: inner.history.refusals_in_force(),
            services: services.collect(),
            proxies,
            stale,
        }
    }

    /// One service; `None` if it does not exist.
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
        let connected = senders.iter().filter(|sender| sender.state != ProxyState::Silent).count();
        let servers = inner.state.loads.servers(name, now);
        let heard = |server: ServerLoad| {
            let seen = self.ago(server.seen, now);
            (server, seen)
        };
        Some(ServiceReport {
            status: service_status(&inner, name, service, connected, now),
            spec: service.spec().clone(),
            parameters: service.parameters().clone(),
            servers: servers.into_iter().map(heard).collect(),
            senders,
        })
    }

    /// What changed and what was refused, the latest first.
    pub fn history(&self) -> Vec<Event> {
        self.lock().history.events()
    }

    /// Looks for stale proxies; to be called every [`LOOK_EVERY`](super::staleness::LOOK_EVERY).
    pub fn look_for_stale(&self) {
        let mut guard = self.lock();
        let Inner { state, staleness, .. } = &mut *guard;
        staleness.look(&state.proxies, |record| state.is_behind(record), Instant::now());
    }

    fn sender(&self, inner: &Inner, proxy: &str, record: &Record, now: Instant) -> SenderStatus {
        let state = if !record.is_connected(now) {
            ProxyState::Silent
        } else if inner.staleness.since(proxy, record, now).is_some() {
            ProxyState::Stale
        } else {
            ProxyState::Current
        };
        let version = record.version.as_ref().map(ToString::to_string);
        let seen = if record.held.is_some() { now } else { record.seen };
        SenderStatus { proxy: proxy.to_owned(), state, version, seen: self.ago(seen, now) }
    }

    fn ago(&self, then: Instant, now: Instant) -> String {
        let wall = self.0.clock.now();
        rfc3339(wall.checked_sub(now.saturating_duration_since(then)).unwrap_or(UNIX_EPOCH))
    }
}

fn service_status(inner: &Inner, name: &str, service: &Service, senders: usize, now: Instant) -> ServiceStatus {
    let load = inner.state.loads.signals(name, now);
    let events = inner.state.loads.events(name, now);
    let rejected_share = events.map_or(0.0, |events| events.rejected_share());
    ServiceStatus {
        name: name.to_owned(),
        condition: condition(load.as_ref(), rejected_share),
        routing: service.parameters().routing(),
        endpoints: endpoints(service.spec()),
        senders,
        load,
        events,
        rejected_share,
    }
}

/// How many addresses were written; an address with several ports counts for each.
fn endpoints(spec: &ServiceSpec) -> Option<usize> {
    let by_port = spec.endpoints_by_port.values().map(Vec::len).sum::<usize>();
    let known = spec.endpoints.is_some() || !spec.endpoints_by_port.is_empty();
    known.then(|| by_port + spec.endpoints.as_ref().map_or(0, Vec::len))
}

fn condition(load: Option<&Signals>, rejected_share: f64) -> Condition {
    match load {
        None => Condition::Unreported,
        Some(load) if load.servers == 0 => Condition::Silent,
        Some(_) if rejected_share > MANY_REJECTED => Condition::Rejecting,
        Some(load) if load.utilisation_ratio.is_some_and(|ratio| ratio > 1.0) => Condition::Overloaded,
        Some(_) if rejected_share > 0.0 => Condition::Shedding,
        Some(_) => Condition::Ok,
    }
}
