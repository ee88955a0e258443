//! The validated configuration.

use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::pods::Pod;
use crate::{cpu, memory, qos};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Whether quotas and limits are written, or only shown in the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    #[default]
    Observe,
    Enforce,
}

/// An application: `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppName(pub(super) String);

impl AppName {
    pub fn namespace(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which containers of a pod belong to the application: `name`, `*` or `!name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers(pub(super) Vec<String>);

impl Containers {
    pub fn has(&self, name: &str) -> bool {
        let without = |text: &String| text.strip_prefix('!') == Some(name);
        !self.0.iter().any(without) && self.0.iter().any(|text| text == "*" || text == name)
    }
}

/// One application. A resource that is `None` is left alone; at least one is set.
#[derive(Clone, Debug, PartialEq)]
pub struct AppConfig {
    pub(super) labels: BTreeMap<String, String>,
    pub containers: Containers,
    /// CPU quotas.
    pub cpu: Option<CpuConfig>,
    /// CPU shares, instead of quotas.
    pub qos: Option<qos::Rule>,
    pub memory: Option<MemoryConfig>,
}

/// What a CPU limit covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Over {
    /// Each node has the whole limit.
    #[default]
    Node,
    /// All nodes share the limit: each holds a part, which the control plane leases.
    Cluster,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CpuConfig {
    pub limit: Cores,
    pub over: Over,
    /// The guaranteed minimum of a container whose `requests` are lower.
    pub floor: Cores,
    pub rule: cpu::Rule,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemoryConfig {
    pub limit: Bytes,
    pub rule: memory::Rule,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub mode: Mode,
    /// Whether a limit may exceed the sum of the containers' own limits.
    pub override_limits: bool,
    pub apps: BTreeMap<AppName, AppConfig>,
}

impl Config {
    /// The application of a pod: the first by name if several select it.
    pub fn app_of(&self, pod: &Pod) -> Option<(&AppName, &AppConfig)> {
        self.apps.iter().find(|(name, app)| {
            name.namespace() == pod.namespace
                && app.labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value))
        })
    }
}
