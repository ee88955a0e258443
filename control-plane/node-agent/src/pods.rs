//! The pods of this node, as a [source](crate::source) reports them.

use crate::bytes::Bytes;
use crate::cores::Cores;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// The pod's cgroup is named after it.
    pub uid: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The running containers, sidecars included.
    pub containers: Vec<Container>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping")]
pub struct Container {
    pub name: String,
    /// The runtime's id, without `containerd://`; the container's cgroup is named after it.
    pub id: String,
    /// The requested CPU.
    #[serde(default)]
    pub requests: Cores,
    /// The requested memory.
    #[serde(default)]
    pub memory: Bytes,
}
