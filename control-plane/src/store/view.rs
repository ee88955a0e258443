//! The JSON for operators: `GET /v1/services` and `GET /v1/services/{name}`.

use super::modules::ModuleView;
use super::subscription::Name;
use crate::load::Signals;
use bloc_policy::config::ServiceSpec;
use bloc_policy::features::Feature;
use bloc_policy::sync::{ServerCpu, ServiceLoad};
use serde::Serialize;
use std::collections::BTreeMap;

/// The services in force, their source, and the proxies of this replica.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The version of everything in force.
    pub version: String,
    /// Where the services come from, such as `file:services.yaml`.
    pub source: String,
    /// The name by which proxies know the replica that answers. Its proxies and load are those that
    /// it counts now; other replicas count the others.
    pub replica: String,
    /// When the services in force were accepted (RFC 3339).
    pub loaded: Option<String>,
    /// The last content of the source that was refused.
    pub refusal: Option<Refusal>,
    /// All refusals that are not resolved yet.
    pub refused: Vec<Refusal>,
    /// The services in force by name.
    pub services: BTreeMap<String, ServiceView>,
    /// The proxies that this replica has heard of within the last minute, by id.
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
    /// Whether good content has come from the same place since.
    pub resolved: bool,
}

/// One service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// Identifies its content: the same in all replicas.
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
    /// The sums of the reports of the proxies that this replica counts; `null` if it has never
    /// heard of one.
    pub load: Option<Signals>,
    /// The proxies that call or serve it, by id.
    pub proxies: Vec<ProxyView>,
}

/// One proxy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyView {
    /// Its id.
    pub proxy: String,
    /// The version that it presented with its last poll; empty: none.
    pub version: String,
    /// Whether that is the state in force of its subscription.
    pub current: bool,
    /// Whether it counts at this replica: exactly one replica counts a proxy that polls.
    pub connected: bool,
    /// When it was last heard of (RFC 3339).
    pub last_seen: String,
    /// The services that it calls.
    pub services: Vec<Name>,
    /// The services that it serves.
    pub serves: Vec<Name>,
    /// The load that it reported.
    pub load: Vec<ServiceLoad>,
    /// What is known of the CPU of its pod, also if its module does not follow it; `null`: nothing.
    pub cpu: Option<ServerCpu>,
    /// What it runs.
    #[serde(flatten)]
    pub module: ModuleView,
}

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
    /// Those of them that have not taken the state in force for a while.
    pub proxies_stale: usize,
    /// Those of them that lack a feature which their services use, for each such feature.
    pub proxies_lacking: Vec<(Feature, usize)>,
    /// Those of them that could not read the parameters of a service.
    pub proxies_unread: usize,
    /// Refusals that are not resolved yet.
    pub refused: usize,
    /// Reports that were dropped because the service is not in force or there are too many
    /// services.
    pub load_reports_dropped: u64,
    /// Node agents that were heard of lately.
    pub node_agents: usize,
    /// Pods whose response times agents ask for.
    pub node_agent_asks: usize,
    /// When the services in force were accepted, in seconds since 1970.
    pub loaded_unix_seconds: Option<u64>,
}
