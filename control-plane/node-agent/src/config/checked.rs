//! The configuration, checked.

use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::pods::Pod;
use crate::{cpu, memory, qos};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Whether quotas and limits are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No: the metrics show what would be.
    #[default]
    Observe,
    /// Yes.
    Enforce,
}

/// An application: `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl AppName {
    /// The namespace of its pods.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which containers of a pod belong to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    pub(super) all: bool,
    pub(super) with: BTreeSet<String>,
    pub(super) without: BTreeSet<String>,
}

impl Containers {
    /// Whether a container of this name belongs to it.
    pub fn has(&self, name: &str) -> bool {
        !self.without.contains(name) && (self.all || self.with.contains(name))
    }
}

/// What one application may have.
#[derive(Clone, Debug, PartialEq)]
pub struct AppConfig {
    pub(super) labels: BTreeMap<String, String>,
    /// Which containers of its pods.
    pub containers: Containers,
    /// Their CPU quotas; none: they are left alone. One of the three is there.
    pub cpu: Option<CpuConfig>,
    /// Their CPU shares, if not the quotas; none: they are left alone.
    pub qos: Option<QosConfig>,
    /// Their memory; none: it is left alone.
    pub memory: Option<MemoryConfig>,
}

/// Over what a limit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Each node by itself.
    #[default]
    Node,
    /// All nodes together: each holds a part of it, which the control plane leases.
    Cluster,
}

/// What one application may have of CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuConfig {
    /// What all containers may use together.
    pub limit: Cores,
    /// Which containers these are.
    pub over: Over,
    /// What each keeps at least, if its `requests` are not more.
    pub floor: Cores,
    /// How it moves between them.
    pub rule: cpu::Rule,
}

/// What one application may have of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryConfig {
    /// What all containers may use together on a node.
    pub limit: Bytes,
    /// How it moves between them.
    pub rule: memory::Rule,
}

/// How the CPU shares of an application move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QosConfig {
    /// How they move between the containers.
    pub rule: qos::Rule,
}

/// All that the operator wrote, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Whether quotas and limits are written.
    pub mode: Mode,
    /// Whether a limit may exceed the sum of the containers' own limits.
    pub override_limits: bool,
    /// The applications.
    pub apps: BTreeMap<AppName, AppConfig>,
}

impl Config {
    /// The application of a pod: the first one by name, if several select it.
    pub fn app_of(&self, pod: &Pod) -> Option<(&AppName, &AppConfig)> {
        self.apps.iter().find(|(name, app)| {
            name.namespace == pod.namespace
                && app.labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
        })
    }
}
