//! A node made of files.

use super::super::status::{ContainerCpu, Status};
use super::super::{Agent, Capacity, JOIN_STEPS, STEP};
use crate::bytes::Bytes;
use crate::cgroup::{Bandwidth, Tree};
use crate::config::Config;
use crate::cores::Cores;
use crate::pods::Container;
use crate::pods::Pod;
use crate::state::State;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    cpu: {limit: 1, floor: 50m, grow: 0.5, shrink: 0.8, slack: 125m, window: 2}
";
const PERIOD: u64 = 100_000;

/// A node: its files, the pods on it, and the agent.
pub(super) struct Stand {
    directory: TempDir,
    pub(super) agent: Agent,
    pub(super) pods: Vec<Pod>,
    now: Duration,
    /// By uid: use in cores, and the share of periods that are throttled.
    pub(super) load: BTreeMap<&'static str, (f64, f64)>,
    pub(super) counted: BTreeMap<&'static str, (f64, f64, f64)>,
}

impl Stand {
    /// Pods with one container each: their uid, and their quota in cores.
    pub(super) fn new(pods: &[(&'static str, f64)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("tree/burstable")).unwrap();
        fs::write(directory.path().join("tree/cgroup.controllers"), "cpu\n").unwrap();
        let agent = agent(directory.path());
        let (load, counted) = (BTreeMap::new(), BTreeMap::new());
        let mut stand = Self { directory, agent, pods: Vec::new(), now: Duration::ZERO, load, counted };
        for (uid, quota) in pods {
            stand.add(uid, *quota);
        }
        stand.configure(CONFIG);
        stand.tell();
        stand
    }

    pub(super) fn add(&mut self, uid: &'static str, quota: f64) {
        let container =
            Container { name: "app".to_owned(), id: format!("c{uid}"), requests: Cores::ZERO, memory: Bytes::ZERO };
        let labels = BTreeMap::from([("app".to_owned(), "checkout".to_owned())]);
        let (namespace, name) = ("shop".to_owned(), format!("checkout-{uid}"));
        self.pods.push(Pod { namespace, name, uid: uid.to_owned(), labels, containers: vec![container] });
        fs::create_dir_all(self.group(uid)).unwrap();
        self.write(uid, quota);
        self.load.insert(uid, (0.0, 0.0));
        self.counted.insert(uid, (0.0, 0.0, 0.0));
        self.count();
    }

    /// Adds another container to a pod.
    pub(super) fn second(&mut self, uid: &'static str, quota: f64) -> PathBuf {
        let group = self.pod(uid).join("second");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.max"), max(quota)).unwrap();
        fs::write(group.join("cpu.stat"), "usage_usec 0\nnr_periods 0\nnr_throttled 0\n").unwrap();
        let container = Container {
            name: "second".to_owned(),
            id: "second".to_owned(),
            requests: Cores::ZERO,
            memory: Bytes::ZERO,
        };
        self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap().containers.push(container);
        group
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.path(&format!("tree/burstable/pod{uid}"))
    }

    pub(super) fn group(&self, uid: &str) -> PathBuf {
        self.pod(uid).join(format!("c{uid}"))
    }

    /// Writes quotas of a container and its pod, which has 50m more.
    pub(super) fn write(&self, uid: &str, quota: f64) {
        fs::write(self.group(uid).join("cpu.max"), max(quota)).unwrap();
        fs::write(self.pod(uid).join("cpu.max"), max(quota + 0.05)).unwrap();
        fs::write(self.pod(uid).join("cpu.stat"), "usage_usec 0\nnr_periods 0\nnr_throttled 0\n").unwrap();
    }

    pub(super) fn configure(&mut self, yaml: &str) {
        self.agent.set_config(Config::read(yaml).unwrap());
    }

    pub(super) fn tell(&mut self) {
        self.agent.set_pods(Arc::new(self.pods.clone()));
    }

    /// Writes what the kernel has counted.
    pub(super) fn count(&self) {
        for (uid, (used, periods, throttled)) in &self.counted {
            let text = format!("usage_usec {used:.0}\nnr_periods {periods:.0}\nnr_throttled {throttled:.0}\n");
            let _ = fs::write(self.group(uid).join("cpu.stat"), text);
        }
    }

    pub(super) fn steps(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now += STEP;
            for (uid, (cores, throttled)) in &self.load {
                let counted = self.counted.get_mut(uid).unwrap();
                counted.0 += cores * 100_000.0;
                counted.1 += 10.0;
                counted.2 += throttled * 10.0;
            }
            self.count();
            self.agent.step(self.now);
        }
    }

    /// Steps until containers come under the limit.
    pub(super) fn join(&mut self) {
        self.steps(JOIN_STEPS + 2);
    }

    /// The quotas of a container and of its pod, in thousandths of a core.
    pub(super) fn quotas(&self, uid: &str) -> [i64; 2] {
        [self.group(uid), self.pod(uid)].map(|group| read(&group))
    }

    pub(super) fn status(&mut self) -> Status {
        self.agent.status()
    }

    pub(super) fn container(&mut self, uid: &str) -> ContainerCpu {
        let pod = format!("checkout-{uid}");
        let status = self.status();
        status.cpu["shop/checkout"].containers.iter().find(|container| container.which.pod == pod).unwrap().clone()
    }

    pub(super) fn errors(&mut self, kind: &str) -> u64 {
        self.status().errors.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn originals(&self) -> String {
        fs::read_to_string(self.path("state/originals.json")).unwrap_or_default()
    }

    /// Starts another agent with the same state, however the last one ended.
    pub(super) fn restart(&mut self) {
        self.agent = agent(self.directory.path());
        self.configure(CONFIG);
        self.tell();
    }
}

pub(super) fn agent(directory: &Path) -> Agent {
    let tree = Tree::open(&directory.join("tree"), None).unwrap();
    Agent::new(
        tree,
        State::open(&directory.join("state")).unwrap(),
        Capacity { cores: Cores::new(2.0), memory: Bytes::mebi(4_096) },
    )
}

pub(super) fn max(cores: f64) -> String {
    Bandwidth::of(Cores::new(cores), PERIOD).to_max()
}

pub(super) fn read(group: &Path) -> i64 {
    read_file(&group.join("cpu.max"))
}

pub(super) fn read_file(file: &Path) -> i64 {
    let text = fs::read_to_string(file).unwrap();
    let quota = Bandwidth::from_max(&text).unwrap().quota;
    quota.map_or(-1, |quota| (quota as f64 / 100.0).round() as i64)
}
