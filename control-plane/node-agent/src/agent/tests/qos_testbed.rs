//! A node made of files, for CPU shares.

use crate::agent::status::{AppQos, ContainerQos};
use crate::agent::{Agent, CHECK_STEPS, Capacity, STEP};
use crate::bytes::Bytes;
use crate::cgroup::{Tree, Version};
use crate::config::Config;
use crate::cores::Cores;
use crate::pods::{Container, Pod};
use crate::qos::Answers;
use crate::report::PodName;
use crate::state::State;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    qos: {target: 200ms}
";

/// The target is 200 ms: a container with one core asks for more than [`IN_TIME`] offers.
pub(super) const LATE: Duration = Duration::from_millis(300);
/// A container with one core offers 10 shares.
pub(super) const IN_TIME: Duration = Duration::from_nanos(180_468_750);

/// A pod: its uid, the parent of its group, and what its container requests, in thousandths of a
/// core. The version 2 file has the same number.
pub(super) type Given = (&'static str, &'static str, u32);

/// A node: its files, the pods on it, and the agent.
pub(super) struct Stand {
    directory: TempDir,
    version: Version,
    pub(super) agent: Agent,
    pub(super) pods: Vec<Pod>,
    parents: BTreeMap<&'static str, &'static str>,
    now: Duration,
    /// By uid: the mean response time of 20 answers each second.
    pub(super) load: BTreeMap<&'static str, Duration>,
}

impl Stand {
    /// A node with 4 cores.
    pub(super) fn new(pods: &[Given]) -> Self {
        Self::with(Version::V2, pods)
    }

    pub(super) fn with(version: Version, pods: &[Given]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        let files: &[&str] = match version {
            Version::V1 => &["cpu.cfs_quota_us", "cpuacct.usage"],
            Version::V2 => &["cgroup.controllers"],
        };
        for file in files {
            fs::write(tree.join(file), "cpu\n").unwrap();
        }
        let mut stand = Self {
            agent: agent(directory.path(), 4.0),
            directory,
            version,
            pods: Vec::new(),
            parents: BTreeMap::new(),
            now: Duration::ZERO,
            load: BTreeMap::new(),
        };
        for pod in pods {
            stand.add(*pod);
        }
        stand.configure(CONFIG);
        stand.tell();
        stand
    }

    pub(super) fn add(&mut self, (uid, parent, milli): Given) {
        self.parents.insert(uid, parent);
        let labels = BTreeMap::from([("app".to_owned(), "checkout".to_owned())]);
        let (namespace, name) = ("shop".to_owned(), format!("checkout-{uid}"));
        let containers = vec![container("app", &format!("c{uid}"), milli)];
        self.pods.push(Pod { namespace, name, uid: uid.to_owned(), labels, containers });
        for group in [self.pod(uid), self.group(uid)] {
            self.make(&group, milli);
        }
    }

    /// Adds a container to a pod, whose group then has both.
    pub(super) fn second(&mut self, uid: &str, name: &str, milli: u32) -> PathBuf {
        let group = self.pod(uid).join("second");
        self.make(&group, milli);
        let pod = self.pods.iter_mut().find(|pod| pod.uid == uid).unwrap();
        pod.containers.push(container(name, "second", milli));
        let all = number(&self.file(&self.pod(uid))) + number(&self.file(&group));
        fs::write(self.file(&self.pod(uid)), all.to_string()).unwrap();
        group
    }

    fn make(&self, group: &Path, milli: u32) {
        fs::create_dir_all(group).unwrap();
        let shares = (f64::from(milli) * 1.024).max(2.0).round() as u64;
        let number = if self.version == Version::V1 { shares } else { u64::from(milli.max(1)) };
        fs::write(self.file(group), format!("{number}\n")).unwrap();
    }

    /// The file of the shares of a group.
    pub(super) fn file(&self, group: &Path) -> PathBuf {
        group.join(if self.version == Version::V1 { "cpu.shares" } else { "cpu.weight" })
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.path("tree").join(self.parents[uid]).join(format!("pod{uid}"))
    }

    pub(super) fn group(&self, uid: &str) -> PathBuf {
        self.pod(uid).join(format!("c{uid}"))
    }

    pub(super) fn configure(&mut self, yaml: &str) {
        self.agent.set_config(Config::read(yaml).unwrap());
    }

    pub(super) fn tell(&mut self) {
        self.agent.set_pods(Arc::new(self.pods.clone()));
    }

    /// Seconds in which all pods answer as their load says.
    pub(super) fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for (uid, mean) in &self.load {
                let answers = Answers { count: 20, time: *mean * 20 };
                self.agent.answered(&name(uid), answers);
            }
            for _ in 0..CHECK_STEPS {
                self.now += STEP;
                self.agent.step(self.now);
            }
        }
    }

    /// The numbers in the files of a container and its pod.
    pub(super) fn numbers(&self, uid: &str) -> [u64; 2] {
        [self.group(uid), self.pod(uid)].map(|group| self.number(&group))
    }

    /// The number in the file of a group.
    pub(super) fn number(&self, group: &Path) -> u64 {
        number(&self.file(group))
    }

    /// A foreign write.
    pub(super) fn write(&self, group: &Path, number: u64) {
        fs::write(self.file(group), number.to_string()).unwrap();
    }

    pub(super) fn app(&mut self) -> AppQos {
        self.agent.status().qos["shop/checkout"].clone()
    }

    pub(super) fn container(&mut self, uid: &str) -> ContainerQos {
        let pod = format!("checkout-{uid}");
        self.app().containers.into_iter().find(|container| container.which.pod == pod).unwrap()
    }

    /// The shares of all containers, rounded to a millionth. Checks that they sum up to the
    /// requests.
    #[track_caller]
    pub(super) fn shares(&mut self) -> Vec<f64> {
        let containers = self.app().containers;
        let sum: f64 = containers.iter().map(|container| container.shares - container.requested).sum();
        assert!(sum.abs() < 1e-6, "{containers:?}");
        containers.iter().map(|container| (container.shares * 1e6).round() / 1e6).collect()
    }

    pub(super) fn errors(&mut self, kind: &str) -> u64 {
        self.agent.status().errors.get(kind).copied().unwrap_or(0)
    }

    pub(super) fn originals(&self) -> String {
        fs::read_to_string(self.path("state/shares.json")).unwrap_or_default()
    }

    /// Starts another agent with the same state, on a node with this many cores, however the last
    /// one ended.
    pub(super) fn restart(&mut self, cores: f64) {
        self.agent = agent(self.directory.path(), cores);
        self.configure(CONFIG);
        self.tell();
    }
}

/// The name of a pod.
pub(super) fn name(uid: &str) -> PodName {
    PodName { namespace: "shop".to_owned(), name: format!("checkout-{uid}") }
}

fn container(name: &str, id: &str, milli: u32) -> Container {
    Container { name: name.to_owned(), id: id.to_owned(), requests: Cores::milli(milli), memory: Bytes::ZERO }
}

fn agent(directory: &Path, cores: f64) -> Agent {
    let tree = Tree::open(&directory.join("tree"), None).unwrap();
    let capacity = Capacity { cores: Cores::new(cores), memory: Bytes::mebi(4_096) };
    Agent::new(tree, State::open(&directory.join("state")).unwrap(), capacity)
}

fn number(file: &Path) -> u64 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}
