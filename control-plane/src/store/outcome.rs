//! The outcome of a poll.

use super::version::Version;
use crate::snapshot::Service;
use bloc_policy::sync::ServerCpu;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Services = BTreeMap<String, Arc<Service>>;

/// The state of a subscription. Serializes as [`bloc_policy::sync::SyncResponse`] without copying
/// the specs.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its version.
    #[serde(serialize_with = "as_text")]
    pub version: Version,
    /// The services that exist; others are absent.
    #[serde(flatten, serialize_with = "as_specs_and_routes")]
    pub services: Services,
    /// What is known of the CPU of the proxy's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<ServerCpu>,
}

/// What is known of the CPU of a proxy's pod, alone: the proxy keeps its services.
#[derive(Clone, Debug, Serialize)]
pub struct CpuAnswer {
    /// The version that the proxy has.
    #[serde(serialize_with = "as_text")]
    pub version: Version,
    /// What is known.
    pub cpu: ServerCpu,
}

fn as_text<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
}

fn as_specs_and_routes<S: Serializer>(all: &Services, serializer: S) -> Result<S::Ok, S::Error> {
    let routes = || all.iter().filter_map(|(name, service)| Some((name, service.routes()?)));
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("services", &Map(|| all.iter().map(|(name, service)| (name, service.spec()))))?;
    if routes().next().is_some() {
        map.serialize_entry("routes", &Map(routes))?;
    }
    map.end()
}

/// Serializes as a map of the items of an iterator.
struct Map<F>(F);

impl<K: Serialize, V: Serialize, I: Iterator<Item = (K, V)>, F: Fn() -> I> Serialize for Map<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}

/// How a poll ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A new state.
    Changed(Answer),
    /// The state is the same; the answer has only CPU.
    Cpu(CpuAnswer),
    /// The wait is over and nothing changed.
    Unchanged,
    /// The same proxy has sent a newer poll.
    Superseded,
    /// There is no room for the proxy.
    NoRoom,
    /// The control plane shuts down.
    Closing {
        /// The proxy comes back within this time, at least 1 s, at a random moment because a
        /// thousand others do too.
        within: Duration,
    },
}

/// Why a poll is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The proxy's id belongs to the identity that used it first.
    #[error("proxy: this id belongs to another certificate")]
    NotYours,
}
