//! The CPU of an application, as the metrics and the control plane see it.

use super::cpu_app::CpuApp;
use super::node::Node;
use super::status::{AppCpu, AppLease, ContainerCpu, PodCpu, Which};
use crate::cores::Cores;
use std::collections::BTreeMap;
use std::time::Duration;

impl CpuApp {
    /// The CPU of its pods now.
    pub(super) fn pods(&self, node: &Node) -> impl Iterator<Item = PodCpu> + use<> {
        let namespace = self.groups.app().split('/').next().unwrap_or_default();
        let mut pods: BTreeMap<&str, PodCpu> = BTreeMap::new();
        for (id, member) in &self.groups.members {
            let pod = pods.entry(&id.uid).or_insert_with(|| PodCpu {
                namespace: namespace.to_owned(),
                name: member.pod.clone(),
                quota: Some(Cores::ZERO),
                used: Duration::ZERO,
            });
            // What is in the files of an observer is nothing that an agent gives.
            let written = member.written.cores().filter(|_| node.enforcing);
            pod.quota = pod.quota.zip(written).map(|(quota, more)| quota + more);
            pod.used += member.more.readings.used();
        }
        pods.into_values().collect::<Vec<_>>().into_iter()
    }

    /// What the metrics show.
    pub(super) fn status(&mut self, node: &Node) -> AppCpu {
        let containers = self.groups.members.iter_mut().map(|(id, member)| {
            let interval = member.more.readings.show();
            ContainerCpu {
                quota: self.cpu.quota(id).filter(|_| !node.enforcing).or_else(|| member.written.cores()),
                used: interval.used,
                throttled: interval.throttled,
                which: Which::of(member),
            }
        });
        let containers = containers.collect();
        let lease = self.lease_use(node).map(|of| AppLease {
            part: of.under.part,
            goal: of.under.goal,
            held: of.held,
            age: node.leases.as_ref().map(|leases| leases.age(self.groups.app())).unwrap_or_default(),
        });
        AppCpu { containers, limit: self.cpu.limit(), free: self.cpu.free(), lease }
    }
}
