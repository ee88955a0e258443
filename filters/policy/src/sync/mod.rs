//! The messages between a proxy and the control plane: `POST /v1/sync`, a long poll.
//!
//! | file | decides |
//! |---|---|
//! | [`polls`] | when a proxy asks the control plane |
//! | [`follower`] | which of the answers counts, for all threads |
//! | [`reports`] | what a poll reports of the load, so that each event counts once |
//! | [`latency`] | nothing: how long requests take, in buckets that add up |
//!
//! The answer is 200 with a [`SyncResponse`] as soon as the state that the proxy subscribed to
//! differs from what it has, or 304 without a body after `wait`. A version is text that only the
//! control plane can read. A proxy presents the one that it has, and takes over the answer if it
//! still has that one then. The control plane, which may be several replicas, makes sure that the
//! answer is not older: replicas give the same state the same version, and one that knows less than
//! a proxy says nothing. An answer with a `retry-after` asks the proxy to come back at a random
//! moment within so many seconds.
//!
//! # What is counted
//!
//! Polls of one proxy may go to any replica of the control plane, and each event must count at one
//! of them. An answer with [`REPLICA_HEADER`] says that its replica has counted the report of this
//! poll. The counters say what happened since the last counted report: what a poll without an
//! answer reported is in the next one again.
//!
//! # CPU
//!
//! A node agent may move CPU to the pod of a proxy, and away from it. That changes several times a
//! second, so it is no part of the state and its version. A proxy says in its poll what it
//! [has](SyncRequest::cpu). If that is wrong, the control plane answers with the version that the
//! proxy presented and [what it has now](SyncResponse::cpu), without `services`: services and
//! version stay. The proxy forgets it after [90 s](crate::proxy::cpu::KEPT) without an answer that
//! has `cpu`, and at once when that is `{}`. So the end of each poll says it again.
//!
//! # Versions
//!
//! Both sides may be of different versions, see [`features`](crate::config::features). Neither
//! refuses members that it does not know, except those of a service.

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

/// In an answer: this replica has counted what the poll reported. Its value is the replica's name.
pub const REPLICA_HEADER: &str = "x-bloc-replica";

/// What a poll sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SyncRequest {
    /// The proxy's id, the same for all of its threads (Envoy's `node.id`).
    pub proxy: String,
    /// The version that it has; absent or empty if it has nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The services that it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// The services that it stands in front of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// How long the answer may be held, such as `30s`; `1s` to `60s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The load of the services that it stands in front of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<ServiceLoad>,
    /// What became of its last polls; absent: nothing that it knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Last>,
    /// The services of `version` whose parameters it could not read. The last good ones stay, if
    /// there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// How its calls ended, and how long they took: those since the reports that were counted, of
    /// some of the services that it calls, in turn. The certificate says who the caller is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ServiceCalls>,
    /// The cores that it has, as the control plane has said; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// The polls before this one, see [what is counted](self#what-is-counted).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// The replica that answered the last poll; empty if none did, or without counting it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// Milliseconds since that answer; 0 if there is no replica.
    #[serde(default)]
    pub answered_ms: u64,
    /// Milliseconds that the counters cover: since the report that was counted last. Absent: since
    /// the proxy started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_ms: Option<u64>,
}

/// What a proxy reports of one service that it stands in front of.
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
    /// Requests answered; the control plane makes a rate of it.
    #[serde(default)]
    pub departed: u64,
    /// Requests that came and were not rejected at once; one that is held and rejected later counts
    /// as both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub arrived: u64,
    /// What the server finishes when it is busy, in requests per second; absent: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rate: Option<f64>,
    /// Other events at it.
    #[serde(default)]
    pub events: ServiceEvents,
    /// How long its requests took, since the reports that were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<ServerLatency>,
}

/// How long requests to a service took at one server, and how their arrivals varied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerLatency {
    /// From the arrival to the response, the time in the sidecar's queue included.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub response: Histogram,
    /// From when the application got it to the response.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub execution: Histogram,
    /// Arrivals in blocks of 10 s: the number of blocks, that of arrivals, and the sums of the
    /// squares of the arrivals in 100 ms, 1 s and 10 s (see
    /// [`dispersion`](crate::sync::latency::dispersion)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<u64>,
}

/// The calls of one proxy to a service, as their users see them.
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
    /// From the choice of a server to the last attempt's response, retries included; of requests
    /// that were not refused.
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

/// Counters of one service at one proxy; the control plane makes rates of them. They lag by a tick
/// at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceEvents {
    /// Requests answered that left a server that had been busy all the time since they came.
    pub departed_confident: u64,
    /// Answers with a chip.
    pub chips_granted: u64,
    /// Answers without one.
    pub chips_withheld: u64,
    /// Requests rejected because the server was at its capacity.
    pub rejected_capacity: u64,
    /// Requests rejected because they would have taken longer than their bid.
    pub rejected_bid: u64,
    /// Requests rejected because they would have missed their deadline, or were held for too long.
    pub rejected_deadline: u64,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What the control plane answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncResponse {
    /// The version of this state, never empty.
    pub version: String,
    /// All that the proxy subscribed to and that exists; a service that is missing here is not
    /// configured (any more).
    pub services: BTreeMap<String, ServiceSpec>,
    /// What the control plane has found out about the routes to these services, apart from what
    /// users write.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routes: BTreeMap<String, Routes>,
    /// The CPU of the proxy's pod; absent: nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<ServerCpu>,
}

fn one(name: &str, json: &RawValue, routes: Option<Routes>) -> Result<Services, ConfigError> {
    let spec: ServiceSpec =
        ConfigError::read_json(json.get().as_bytes()).map_err(|error| error.under(&format!("services.{name}")))?;
    let spec = spec.or(routes.map(ServiceSpec::from).unwrap_or_default());
    ServicesSpec { services: [(name.to_owned(), spec)].into() }.validate()
}

/// How often routes to a service retry, which no proxy sees. Used where the user sets nothing.
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

/// The state of the control plane, as a proxy takes it from an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Its version.
    pub version: String,
    /// The services, with what is known of the routes to them.
    pub services: Services,
    /// The services that could not be read, and why. The control plane sends what a proxy knows, so
    /// there is none unless it is wrong about that.
    pub unread: Vec<(String, ConfigError)>,
}

/// What a proxy takes from an answer; not both are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// A state; none: the answer is only about CPU.
    pub state: Option<State>,
    /// The CPU of the pod; none: nothing is said of it.
    pub cpu: Option<ServerCpu>,
}

impl Answer {
    /// Reads the body of an answer. A service that cannot be read is left out; the others count.
    /// CPU that cannot be read is not known.
    ///
    /// # Errors
    /// The body is no answer.
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
