//! The messages between a proxy and the control plane: `POST /v1/sync`, a long poll.
//!
//! | file | decides |
//! |---|---|
//! | [`polls`] | when a proxy polls |
//! | [`follower`] | which answer takes effect, for all threads |
//! | [`reports`] | what a poll reports of the load, so that each event counts once |
//! | [`latency`] | nothing: how long requests take, in buckets that add up |
//!
//! The answer is 200 with a [`SyncResponse`] as soon as the subscribed state differs from the
//! proxy's version, or 304 after `wait`. Only the control plane interprets versions, and it never
//! answers with an older state. Unknown members are ignored, except in a service
//! ([`features`](crate::config::features)).
//!
//! # What is counted
//!
//! An answer with [`REPLICA_HEADER`] confirms that its replica has counted the poll's report.
//! Counters hold what happened since the last counted report.
//!
//! # CPU
//!
//! CPU changes several times a second, so it is not part of the version
//! (`control-plane/adr/0004-cpu-in-the-poll.md`). If what the proxy [has](SyncRequest::cpu) is
//! wrong, it gets [the current value](SyncResponse::cpu) with its own version. The proxy forgets
//! its CPU [90 s](crate::proxy::cpu::KEPT) after the last answer that has `cpu`, and at once when
//! that is `{}`.

pub mod follower;
pub mod latency;
mod ledger;
pub mod polls;
pub mod reports;

use crate::config::error::{Members, read};
use crate::config::{ConfigError, ServiceSpec, Services, ServicesSpec};
pub use crate::proxy::cpu::ServerCpu;
use crate::sync::latency::{Calls, Histogram};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The path of a poll.
pub const SYNC_PATH: &str = "/v1/sync";

/// In an answer: the name of the replica, which has counted what the poll reported.
pub const REPLICA_HEADER: &str = "x-bloc-replica";

/// What a poll sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SyncRequest {
    /// The proxy's id, the same for all of its threads (Envoy's `node.id`).
    pub proxy: String,
    /// The version that it has; absent or empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The services that it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// The services that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// How long the control plane may hold the poll, such as `30s`; `1s` to `60s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The load of the services that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<ServiceLoad>,
    /// What became of its last polls; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Last>,
    /// The services of `version` whose parameters it could not read. It keeps the last good ones,
    /// if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// How its calls ended and how long they took since the last counted report, for some of the
    /// services that it calls, in turn. The certificate names the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ServiceCalls>,
    /// The cores that it has, according to the control plane; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// The earlier polls, see [what is counted](self#what-is-counted).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// The replica that answered the last poll; empty if none counted it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// Milliseconds since that answer; 0 without a replica.
    #[serde(default)]
    pub answered_ms: u64,
    /// Milliseconds that the counters cover, since the last counted report. Absent: since the proxy
    /// started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_ms: Option<u64>,
}

/// What a proxy reports of one service that it serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServiceLoad {
    /// The service.
    pub service: String,
    /// Requests in flight.
    pub in_flight: u64,
    /// The capacity in force, in requests; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Requests answered, from which the control plane computes a rate.
    #[serde(default)]
    pub departed: u64,
    /// Requests that arrived and were not rejected at once. One that is held and rejected later
    /// counts as both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub arrived: u64,
    /// The service rate of the server when it is busy, in requests per second; absent: not known
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rate: Option<f64>,
    /// Other events.
    #[serde(default)]
    pub events: ServiceEvents,
    /// How long its requests took since the last counted report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<ServerLatency>,
}

/// How long requests to a service took at one server, and how their arrivals varied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerLatency {
    /// From arrival to response, including the time in the sidecar's queue.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub response: Histogram,
    /// The time in the application, up to the response.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub execution: Histogram,
    /// Arrivals in blocks of 10 s: the number of blocks, of arrivals, and the sums of squared
    /// arrivals per 100 ms, 1 s and 10 s (see [`dispersion`](crate::sync::latency::dispersion)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<u64>,
}

/// One proxy's calls to a service, as their users see them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServiceCalls {
    /// The service that is called.
    pub service: String,
    /// See [`Calls`].
    pub requests: u64,
    /// See [`Calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// See [`Calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exhausted: u64,
    /// See [`Calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overflowed: u64,
    /// See [`Calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retried: u64,
    /// See [`Calls`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// From the choice of a server to the last attempt's response, including retries; without
    /// refused requests.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub latency: Histogram,
}

impl ServiceCalls {
    /// A report of these calls.
    pub fn new(service: &str, calls: Calls, latency: Histogram) -> Self {
        let Calls { requests, failed, exhausted, overflowed, retried, refused } = calls;
        Self { service: service.to_owned(), requests, failed, exhausted, overflowed, retried, refused, latency }
    }

    /// The counts.
    pub fn calls(&self) -> Calls {
        let Self { requests, failed, exhausted, overflowed, retried, refused, .. } = *self;
        Calls { requests, failed, exhausted, overflowed, retried, refused }
    }
}

/// Counters of one service at one proxy, from which the control plane computes rates. They lag by
/// up to a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceEvents {
    /// Requests answered by a server that had been busy since they arrived.
    pub departed_confident: u64,
    /// Answers with a chip.
    pub chips_granted: u64,
    /// Answers without one.
    pub chips_withheld: u64,
    /// Requests rejected because the server was at its capacity.
    pub rejected_capacity: u64,
    /// Requests rejected because they would have exceeded their bid.
    pub rejected_bid: u64,
    /// Requests rejected because they would have missed their deadline, or were held too long.
    pub rejected_deadline: u64,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The answer of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncResponse {
    /// The version of this state, never empty.
    pub version: String,
    /// Everything that the proxy subscribed to. A missing service is not configured.
    pub services: BTreeMap<String, ServiceSpec>,
    /// What the control plane found out about the routes to these services, apart from what users
    /// configure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routes: BTreeMap<String, Routes>,
    /// The CPU of the proxy's pod; absent: no information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<ServerCpu>,
}

fn one(name: &str, json: &RawValue, routes: Option<Routes>) -> Result<Services, ConfigError> {
    let spec: ServiceSpec =
        ConfigError::read_json(json.get().as_bytes()).map_err(|error| error.under(&format!("services.{name}")))?;
    let spec = spec.or(routes.map(ServiceSpec::from).unwrap_or_default());
    ServicesSpec { services: [(name.to_owned(), spec)].into() }.validate()
}

/// How often routes to a service retry, which proxies cannot see. Applies where the user sets
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routes {
    /// The default, see [`ServiceSpec::route_retries`].
    pub retries: i64,
    /// Those of VirtualServices, see [`ServiceSpec::virtual_service_retries`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub virtual_services: BTreeMap<String, i64>,
}

impl From<Routes> for ServiceSpec {
    fn from(routes: Routes) -> Self {
        let Routes { retries, virtual_services } = routes;
        Self { route_retries: Some(retries), virtual_service_retries: virtual_services, ..Self::default() }
    }
}

/// The state in an answer, as a proxy reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Its version.
    pub version: String,
    /// The services, combined with what is known about their routes.
    pub services: Services,
    /// The services that could not be read, and why. Normally none: the control plane sends only
    /// what the proxy understands.
    pub unread: Vec<(String, ConfigError)>,
}

/// What a proxy reads from an answer; at least one member is present.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The state; none: the answer is only about CPU.
    pub state: Option<State>,
    /// The CPU of the pod; none: no information.
    pub cpu: Option<ServerCpu>,
}

impl Answer {
    /// Reads the body of an answer. Leaves out services that cannot be read, and treats unreadable
    /// CPU as unknown.
    pub fn read(body: &[u8]) -> Result<Self, ConfigError> {
        let members: Members = read(body)?;
        let member = |name| members.get(name).map(|json| json.get().as_bytes());
        let version = read(member("version").unwrap_or_default())?;
        let cpu = member("cpu").filter(|json| *json != b"null").map(ServerCpu::read);
        let Some(services) = member("services") else {
            return match cpu {
                Some(_) => Ok(Self { state: None, cpu }),
                None => Err(ConfigError::malformed(".", "neither `services` nor `cpu`")),
            };
        };
        let mut routes: BTreeMap<String, Routes> = member("routes").map_or_else(|| Ok(BTreeMap::new()), read)?;
        let mut state = State { version, ..State::default() };
        for (name, json) in read::<Members>(services)? {
            match one(&name, json, routes.remove(&name)) {
                Ok(services) => state.services.extend(services),
                Err(error) => state.unread.push((name, error)),
            }
        }
        Ok(Self { state: Some(state), cpu })
    }
}

impl State {
    /// Reads the state of an answer.
    ///
    /// # Errors
    /// The body is no answer, or has no state.
    pub fn read(body: &[u8]) -> Result<Self, ConfigError> {
        Answer::read(body)?.state.ok_or_else(|| ConfigError::malformed(".", "no `services`"))
    }
}

#[cfg(test)]
mod tests;
