//! The pods of this node, as a [source](crate::source) tells them.

use crate::bytes::Bytes;
use crate::cores::Cores;
use std::collections::BTreeMap;

/// A pod that runs on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; its cgroup is named after it.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its containers that run, sidecars too.
    pub containers: Vec<Container>,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Its name in the pod.
    pub name: String,
    /// The runtime's id, without `containerd://`; its cgroup is named after it.
    pub id: String,
    /// The CPU that its pod requests for it; 0 if none.
    pub requests: Cores,
    /// The memory that its pod requests for it; 0 if none.
    pub memory: Bytes,
}
