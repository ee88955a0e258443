//! What the agent shows: a copy, so that nobody who looks delays a step.

use crate::cores::Cores;
use std::collections::BTreeMap;

/// The agent at one moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// By name.
    pub apps: BTreeMap<String, AppStatus>,
    /// Whether quotas are written.
    pub enforcing: bool,
    /// Steps since the start.
    pub steps: u64,
    /// Writes since the start.
    pub writes: u64,
    /// Errors since the start, by kind.
    pub errors: BTreeMap<&'static str, u64>,
}

/// An application.
#[derive(Clone, Debug, PartialEq)]
pub struct AppStatus {
    /// The limit in force.
    pub limit: Cores,
    /// What no container has of it.
    pub free: Cores,
    /// Its containers.
    pub containers: Vec<ContainerStatus>,
}

/// A container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// What it may use; when observing, what it would. None: as much as there is.
    pub quota: Option<Cores>,
    /// Its use.
    pub used: Cores,
    /// The share of periods in which it was throttled.
    pub throttled: f64,
    /// Whether it is under the limit; if not, it has just come, somebody else has changed its
    /// quota, or the limit leaves no room.
    pub managed: bool,
    /// How often somebody else has written its quota.
    pub foreign: u64,
}

impl ContainerStatus {
    /// Quota that is not used.
    pub fn slack(&self) -> Option<Cores> {
        self.quota.map(|quota| quota - self.used)
    }
}
