//! `GET /v1/status/services/{name}`: one service with its parameters, servers, senders and the last
//! 15 minutes.

use super::parameters::{self, Parameter};
use super::samples::{Samples, Sparklines};
use crate::latency::EdgeView;
use crate::load::EventRates;
use crate::store::{ModuleView, SenderStatus, ServerStatus, ServiceReport, ServiceStatus};
use bloc_policy::sync::ServerCpu;
use serde::Serialize;
use std::time::Duration;

/// The most servers, senders and endpoints in a response; the worst come first.
const MAX_SHOWN: usize = 500;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(flatten)]
    status: ServiceStatus,
    parameters: Vec<Parameter>,
    /// The addresses in the spec; `null`: learned from responses.
    addresses: Option<Vec<String>>,
    server_count: usize,
    servers: Vec<Server>,
    sender_count: usize,
    /// Stale ones first, those of other replicas last.
    sender_list: Vec<SenderStatus>,
    caller_count: usize,
    /// Calls into it, the heaviest first.
    callers: Vec<EdgeView>,
    sample: u64,
    sample_seconds: f64,
    sparklines: Option<Sparklines>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    proxy: String,
    /// `rejecting`, `full` or `ok`.
    condition: ServerCondition,
    /// Requests in flight, waiting ones included.
    queue: u64,
    capacity: Option<u32>,
    service_rate: Option<f64>,
    confidence: Option<f64>,
    /// Per second.
    events: Option<EventRates>,
    seen: String,
    /// What is known of the CPU of its pod; `null`: nothing.
    cpu: Option<ServerCpu>,
    #[serde(flatten)]
    module: ModuleView,
}

/// The condition of a server, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum ServerCondition {
    /// It rejects requests for capacity or their deadline.
    Rejecting,
    /// It has as many requests as it may admit.
    Full,
    Ok,
}

impl Report {
    /// Sorts by condition, the worst first, and limits the lists.
    pub fn new(report: ServiceReport, samples: &Samples, sample_every: Duration) -> Self {
        let ServiceReport { status, spec, parameters, servers, mut senders, mut callers } = report;
        let caller_count = callers.len();
        callers.truncate(MAX_SHOWN);
        let (server_count, sender_count) = (servers.len(), senders.len());
        let mut servers: Vec<Server> = servers
            .into_iter()
            .map(|ServerStatus { load, seen, cpu, module }| Server {
                condition: condition(load.in_flight, load.capacity, load.events.as_ref()),
                proxy: load.proxy,
                queue: load.in_flight,
                capacity: load.capacity,
                service_rate: load.service_rate,
                confidence: load.events.and_then(|events| events.confidence()),
                events: load.events,
                seen,
                cpu,
                module,
            })
            .collect();
        servers.sort_by(|a, b| (a.condition, &a.proxy).cmp(&(b.condition, &b.proxy)));
        servers.truncate(MAX_SHOWN);
        senders.sort_by(|a, b| (a.state, &a.proxy).cmp(&(b.state, &b.proxy)));
        senders.truncate(MAX_SHOWN);
        Self {
            parameters: parameters::in_force(&spec, &parameters),
            addresses: parameters::addresses(&spec).map(|mut addresses| {
                addresses.truncate(MAX_SHOWN);
                addresses
            }),
            sample: samples.taken(),
            sample_seconds: sample_every.as_secs_f64(),
            sparklines: samples.of(&status.name),
            status,
            server_count,
            servers,
            sender_count,
            sender_list: senders,
            caller_count,
            callers,
        }
    }
}

fn condition(in_flight: u64, capacity: Option<u32>, events: Option<&EventRates>) -> ServerCondition {
    if events.is_some_and(|events| events.rejected() > 0.0) {
        ServerCondition::Rejecting
    } else if capacity.is_some_and(|capacity| in_flight >= u64::from(capacity)) {
        ServerCondition::Full
    } else {
        ServerCondition::Ok
    }
}
