//! What the agent shows: a copy, so that no reader delays a step.

use super::member::Member;
use crate::bytes::Bytes;
use crate::cores::Cores;
use bloc_leases::Part;
use std::collections::BTreeMap;
use std::time::Duration;

/// A snapshot. Applications are keyed by name; counters count since the start.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub cpu: BTreeMap<String, AppCpu>,
    pub memory: BTreeMap<String, AppMemory>,
    pub qos: BTreeMap<String, AppQos>,
    pub enforcing: bool,
    pub steps: u64,
    pub writes: u64,
    pub errors: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppCpu {
    /// The limit in force.
    pub limit: Cores,
    /// The part of `limit` that no container has.
    pub free: Cores,
    pub lease: Option<AppLease>,
    pub containers: Vec<ContainerCpu>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppLease {
    pub part: Part,
    /// The part to shrink to, because others need the rest.
    pub goal: Part,
    pub held: Part,
    /// How long no replica has confirmed it.
    pub age: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppMemory {
    /// The limit in force.
    pub limit: Bytes,
    /// The part of `limit` that no container has.
    pub pool: Bytes,
    pub grants: u64,
    pub refused_grants: u64,
    pub oom_kills: BTreeMap<String, u64>,
    pub containers: Vec<ContainerMemory>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppQos {
    pub target: Duration,
    pub containers: Vec<ContainerQos>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    pub pod: String,
    pub container: String,
    /// Whether it is under the limit.
    pub managed: bool,
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

#[derive(Clone, Debug, PartialEq)]
pub struct ContainerCpu {
    pub which: Which,
    /// When observing, what it would be. None: unlimited.
    pub quota: Option<Cores>,
    pub used: Cores,
    /// The share of periods in which it was throttled.
    pub throttled: f64,
}

impl ContainerCpu {
    pub fn slack(&self) -> Option<Cores> {
        self.quota.map(|quota| quota - self.used)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMemory {
    pub which: Which,
    /// When observing, what it would be. None: unlimited.
    pub limit: Option<Bytes>,
    /// Its working set.
    pub used: Bytes,
}

impl ContainerMemory {
    pub fn slack(&self) -> Option<Bytes> {
        self.limit.map(|limit| limit - self.used)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ContainerQos {
    pub which: Which,
    /// When observing, what they would be.
    pub shares: f64,
    /// The shares by its `requests`.
    pub requested: f64,
    /// The mean response time of its pod when it was last judged, in seconds.
    pub response: Option<f64>,
}
