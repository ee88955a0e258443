//! The messages between a proxy and the control plane: `POST /v1/sync`, a long poll.
//!
//! The answer is 200 with a [`SyncResponse`] as soon as what the proxy subscribed to is something else than what it has, or 304
//! without a body after `wait`. A version is text that only the control plane can read: a proxy presents the one that it has, and
//! takes over the answer if it still has that one then. That the answer is not older is the control plane's business, which may be several
//! replicas: they give the same state the same version, and one that knows less than a proxy says nothing. An answer with a `retry-after`
//! asks the proxy to come back at a random moment within so many seconds.

use crate::config::ServiceSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a proxy asks.
pub const SYNC_PATH: &str = "/v1/sync";

/// What a proxy says when it asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncRequest {
    /// Who asks: the proxy's id, the same for all of its threads (Envoy's `node.id`).
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
}

/// What a proxy reports of one service that it stands in front of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceLoad {
    /// The service.
    pub service: String,
    /// Requests in flight.
    pub in_flight: u64,
    /// The capacity in force, in requests; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Requests answered since the proxy started; the control plane makes a rate of it.
    #[serde(default)]
    pub departed: u64,
    /// What the server finishes when it is busy, in requests per second; absent: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_rate: Option<f64>,
    /// What else has happened at it since the proxy started.
    #[serde(default)]
    pub events: ServiceEvents,
}

/// Counters of one service at one proxy since the proxy started; the control plane makes rates of them. They lag by a tick at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceEvents {
    /// Requests answered that left a server that had been busy all the time since they came.
    pub departed_confident: u64,
    /// Answers with a chip.
    pub chips_granted: u64,
    /// Answers without one.
    pub chips_withheld: u64,
    /// Requests bounced because the server was at its capacity.
    pub rejected_capacity: u64,
    /// Requests bounced because they would have taken longer than their bid.
    pub rejected_bid: u64,
    /// Requests bounced because they would have missed their deadline, or were held for too long.
    pub rejected_deadline: u64,
}

/// What the control plane answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncResponse {
    /// The version of this state, never empty.
    pub version: String,
    /// All that the proxy subscribed to and that exists; a service that is missing here is not configured (any more).
    pub services: BTreeMap<String, ServiceSpec>,
}
