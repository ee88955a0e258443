//! What an operator sees: the JSON of `GET /v1/services` and `GET /v1/services/{name}`.

use super::subscription::Name;
use crate::load::Signals;
use bloc_policy::config::ServiceSpec;
use bloc_policy::sync::ServiceLoad;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything: the services in force, where they come from, and who listens to this replica.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The version of all that is in force.
    pub version: String,
    /// Where the services come from, such as `file:services.yaml`.
    pub source: String,
    /// Which replica says so, as the proxies know it. What it says of proxies and load covers those
    /// that it counts now; the other replicas have theirs.
    pub replica: String,
    /// When the services in force were accepted (RFC 3339).
    pub loaded: Option<String>,
    /// The last content of the source that was refused.
    pub refusal: Option<Refusal>,
    /// Everything that was refused and was not made good yet.
    pub refused: Vec<Refusal>,
    /// The services in force by name.
    pub services: BTreeMap<String, ServiceView>,
    /// The proxies that this replica has heard of within the last hour, by id.
    pub proxies: Vec<ProxyView>,
}

/// Content of the source that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Path, value and allowed range.
    pub message: String,
    /// When it was refused (RFC 3339).
    pub at: String,
    /// Whether good content has come since.
    pub resolved: bool,
}

/// One service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// Stands for its content: the same in all replicas.
    pub version: String,
    /// What proxies are sent.
    pub spec: ServiceSpec,
}

/// One service and the proxies that subscribed to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDetail {
    /// Its name.
    pub name: String,
    /// The service.
    #[serde(flatten)]
    pub service: ServiceView,
    /// What the proxies that this replica counts report of it, added up; `null` if it never heard
    /// of one.
    pub load: Option<Signals>,
    /// Who calls it or stands in front of it, by id.
    pub proxies: Vec<ProxyView>,
}

/// One proxy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyView {
    /// Its id.
    pub proxy: String,
    /// The version that it presented with its last poll; empty if it has nothing.
    pub version: String,
    /// Whether that is what is in force of what it subscribed to.
    pub current: bool,
    /// Whether it counts at this replica: exactly one replica counts a proxy that asks.
    pub connected: bool,
    /// When it was last heard of (RFC 3339).
    pub last_seen: String,
    /// The services that it calls.
    pub services: Vec<Name>,
    /// The services that it stands in front of.
    pub serves: Vec<Name>,
    /// The load that it reported.
    pub load: Vec<ServiceLoad>,
}

/// Numbers for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Stands for the content of all that is in force.
    pub digest: u64,
    /// Services in force.
    pub services: usize,
    /// Polls that are held.
    pub polls_held: usize,
    /// Proxies that count at this replica.
    pub proxies_connected: usize,
    /// Those of them that have not taken what is in force for a while.
    pub proxies_stale: usize,
    /// Contents of the source that were refused and not made good yet.
    pub refused: usize,
    /// Reports of services that are not in force, or beyond the bound.
    pub load_reports_dropped: u64,
    /// When the services in force were accepted, in seconds since 1970.
    pub loaded_unix_seconds: Option<u64>,
}
