//! What the agent shows: a copy, so that nobody who looks delays a step.

use super::member::Member;
use crate::bytes::Bytes;
use crate::cores::Cores;
use bloc_leases::Part;
use std::collections::BTreeMap;
use std::time::Duration;

/// The agent at one moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The CPU of applications, by name.
    pub cpu: BTreeMap<String, AppCpu>,
    /// The memory of applications, by name.
    pub memory: BTreeMap<String, AppMemory>,
    /// The CPU shares of applications, by name.
    pub qos: BTreeMap<String, AppQos>,
    /// Whether quotas and limits are written.
    pub enforcing: bool,
    /// Steps since the start.
    pub steps: u64,
    /// Writes since the start.
    pub writes: u64,
    /// Errors since the start, by kind.
    pub errors: BTreeMap<&'static str, u64>,
}

/// The CPU of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodCpu {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The sum of the quotas of its containers in force; none: one may have as much as there is.
    pub quota: Option<Cores>,
    /// What they have used since they were found.
    pub used: Duration,
}

/// The CPU of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct AppCpu {
    /// The limit in force.
    pub limit: Cores,
    /// What no container has of it.
    pub free: Cores,
    /// With a limit over nodes: what this one holds.
    pub lease: Option<AppLease>,
    /// Its containers.
    pub containers: Vec<ContainerCpu>,
}

/// What a node holds of a limit over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppLease {
    /// What it may use.
    pub part: Part,
    /// What it is to keep of that: others need the rest.
    pub goal: Part,
    /// What is in force.
    pub held: Part,
    /// Since when the control plane has said nothing of it.
    pub age: Duration,
}

/// The memory of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct AppMemory {
    /// The limit in force.
    pub limit: Bytes,
    /// What no container has of it.
    pub pool: Bytes,
    /// Grants since the start.
    pub grants: u64,
    /// How often nobody had what a container asked for, since the start.
    pub refused_grants: u64,
    /// Processes that the kernel has killed for lack of memory since the pods exist, by pod.
    pub oom_kills: BTreeMap<String, u64>,
    /// Its containers.
    pub containers: Vec<ContainerMemory>,
}

/// The CPU shares of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct AppQos {
    /// The mean response time that is to be kept.
    pub target: Duration,
    /// Its containers.
    pub containers: Vec<ContainerQos>,
}

/// Which container it is, and whether the agent manages it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// Its pod.
    pub pod: String,
    /// Its name.
    pub container: String,
    /// Whether it is under the limit; if not, it has just come, somebody else has changed what it
    /// has, or the limit leaves no room.
    pub managed: bool,
    /// How often somebody else has written what it has.
    pub foreign: u64,
}

impl Which {
    pub(super) fn of<S, M>(member: &Member<S, M>) -> Self {
        Self {
            pod: member.pod.clone(),
            container: member.container.clone(),
            managed: member.is_managed(),
            foreign: member.foreign,
        }
    }
}

/// The CPU of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerCpu {
    /// Whose.
    pub which: Which,
    /// What it may use; when observing, what it would. None: as much as there is.
    pub quota: Option<Cores>,
    /// Its use.
    pub used: Cores,
    /// The share of periods in which it was throttled.
    pub throttled: f64,
}

impl ContainerCpu {
    /// Quota that is not used.
    pub fn slack(&self) -> Option<Cores> {
        self.quota.map(|quota| quota - self.used)
    }
}

/// The memory of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMemory {
    /// Whose.
    pub which: Which,
    /// What it may use; when observing, what it would. None: as much as there is.
    pub limit: Option<Bytes>,
    /// Its working set.
    pub used: Bytes,
}

impl ContainerMemory {
    /// Limit that is not used.
    pub fn slack(&self) -> Option<Bytes> {
        self.limit.map(|limit| limit - self.used)
    }
}

/// The CPU shares of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerQos {
    /// Whose.
    pub which: Which,
    /// What it has; when observing, what it would.
    pub shares: f64,
    /// What its `requests` give.
    pub requested: f64,
    /// The mean response time of its pod when it was last judged, in seconds.
    pub response: Option<f64>,
}
