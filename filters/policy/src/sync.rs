//! The messages between a proxy and the control plane: `POST /v1/sync`, a long poll.
//!
//! The answer is 200 with a [`SyncResponse`] as soon as something that the proxy subscribed to has changed after the version
//! that it has, or 304 without a body after `wait`. Versions only grow; an answer with a version below the one a proxy holds
//! is to be ignored by the proxy.

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
    /// The version that it has; 0 if it has nothing.
    pub version: u64,
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
}

/// What the control plane answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncResponse {
    /// The version of this state.
    pub version: u64,
    /// All that the proxy subscribed to and that exists; a service that is missing here is not configured (any more).
    pub services: BTreeMap<String, ServiceSpec>,
}
