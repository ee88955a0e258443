//! A node made of files, for memory.

use crate::agent::status::{AppMemory, ContainerMemory};
use crate::agent::{Agent, CHECK_STEPS, Capacity, STEP};
use crate::bytes::Bytes;
use crate::cgroup::Tree;
use crate::config::Config;
use crate::cores::Cores;
use crate::pods::{Container, Pod};
use crate::state::State;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    memory: {limit: 1000Mi, reserve: 0.2, margin: 50Mi, step: 16Mi}
";

/// A node: its files, the pods on it, and the agent.
pub(super) struct Stand {
    directory: TempDir,
    pub(super) agent: Agent,
    pub(super) pods: Vec<Pod>,
    now: Duration,
}

impl Stand {
    /// Pods with one container each: their uid, their own limit and their use in MiB.
    pub(super) fn new(pods: &[(&str, u64, u64)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("tree")).unwrap();
        fs::write(directory.path().join("tree/cgroup.controllers"), "cpu memory\n").unwrap();
        let agent = agent(directory.path());
        let mut stand = Self { directory, agent, pods: Vec::new(), now: Duration::ZERO };
        for (uid, own, used) in pods {
            stand.add(uid, *own);
            stand.uses(uid, *used, 0);
        }
        stand.configure(CONFIG);
        stand.tell();
        stand
    }

    pub(super) fn add(&mut self, uid: &str, own: u64) {
        let container = container("app", &format!("c{uid}"));
        let labels = BTreeMap::from([("app".to_owned(), "checkout".to_owned())]);
        let (namespace, name) = ("shop".to_owned(), format!("checkout-{uid}"));
        self.pods.push(Pod { namespace, name, uid: uid.to_owned(), labels, containers: vec![container] });
        for group in [self.pod(uid), self.group(uid)] {
            make(&group, own, 0);
        }
    }

    /// Adds another container to a pod.
    pub(super) fn second(&mut self, uid: &str, own: u64, used: u64) -> PathBuf {
        let group = self.pod(uid).join("second");
        make(&group, own, used);
        let pod = self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap();
        pod.containers.push(container("second", "second"));
        fs::write(self.pod(uid).join("memory.max"), ((2 * own) << 20).to_string()).unwrap();
        group
    }

    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.directory.path().join(format!("tree/pod{uid}"))
    }

    pub(super) fn group(&self, uid: &str) -> PathBuf {
        self.pod(uid).join(format!("c{uid}"))
    }

    /// Sets a container's use and its page cache, in MiB.
    pub(super) fn uses(&self, uid: &str, used: u64, cache: u64) {
        for group in [self.pod(uid), self.group(uid)] {
            uses(&group, used, cache);
        }
    }

    /// The kernel reports that a container is at its limit, and the agent has time to react.
    pub(super) fn asks(&mut self, uid: &str) {
        fs::write(self.group(uid).join("memory.events"), "high 1\noom_kill 3\n").unwrap();
        self.now += STEP;
        let began = Instant::now().checked_sub(self.now).unwrap();
        self.agent.wait(began, Instant::now() + Duration::from_millis(25));
        self.now = began.elapsed();
    }

    pub(super) fn configure(&mut self, yaml: &str) {
        self.agent.set_config(Config::read(yaml).unwrap());
    }

    pub(super) fn tell(&mut self) {
        self.agent.set_pods(Arc::new(self.pods.clone()));
    }

    pub(super) fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds * CHECK_STEPS {
            self.now += STEP;
            self.agent.step(self.now);
        }
    }

    /// `memory.high` and `memory.max` of a container, in MiB; 0: none.
    pub(super) fn limits(&self, uid: &str) -> [u64; 2] {
        let group = self.group(uid);
        ["memory.high", "memory.max"].map(|file| mebi(&group.join(file)))
    }

    /// `memory.max` of a pod.
    pub(super) fn of_pod(&self, uid: &str) -> u64 {
        mebi(&self.pod(uid).join("memory.max"))
    }

    pub(super) fn write(&self, uid: &str, file: &str, mebi: u64) {
        fs::write(self.group(uid).join(file), (mebi << 20).to_string()).unwrap();
    }

    pub(super) fn app(&mut self) -> AppMemory {
        self.agent.status().memory["shop/checkout"].clone()
    }

    pub(super) fn container(&mut self, uid: &str) -> ContainerMemory {
        let pod = format!("checkout-{uid}");
        self.app().containers.into_iter().find(|container| container.which.pod == pod).unwrap()
    }

    pub(super) fn errors(&mut self, kind: &str) -> u64 {
        self.agent.status().errors.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn originals(&self) -> String {
        fs::read_to_string(self.directory.path().join("state/memory.json")).unwrap_or_default()
    }

    /// Starts another agent with the same state, however the last one ended.
    pub(super) fn restart(&mut self) {
        self.agent = agent(self.directory.path());
        self.configure(CONFIG);
        self.tell();
    }
}

fn container(name: &str, id: &str) -> Container {
    Container { name: name.to_owned(), id: id.to_owned(), requests: Cores::ZERO, memory: Bytes::ZERO }
}

fn make(group: &Path, own: u64, used: u64) {
    fs::create_dir_all(group).unwrap();
    fs::write(group.join("memory.max"), (own << 20).to_string()).unwrap();
    fs::write(group.join("memory.high"), "max\n").unwrap();
    fs::write(group.join("memory.events"), "high 0\noom_kill 3\n").unwrap();
    uses(group, used, 0);
}

fn uses(group: &Path, used: u64, cache: u64) {
    fs::write(group.join("memory.current"), format!("{}\n", (used + cache) << 20)).unwrap();
    fs::write(group.join("memory.stat"), format!("anon 1\ninactive_file {}\n", cache << 20)).unwrap();
}

fn agent(directory: &Path) -> Agent {
    let tree = Tree::open(&directory.join("tree"), None).unwrap();
    let capacity = Capacity { cores: Cores::new(2.0), memory: Bytes::mebi(4_096) };
    Agent::new(tree, State::open(&directory.join("state")).unwrap(), capacity)
}

fn mebi(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    if text.trim() == "max" { 0 } else { text.trim().parse::<u64>().unwrap() >> 20 }
}
