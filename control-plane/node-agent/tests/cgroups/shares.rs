//! CPU shares of the kernel's groups: the files, and the agent in this process.

use crate::sandbox::{Sandbox, until};
use bloc_node_agent::agent::{Agent, CHECK_STEPS, Capacity, STEP};
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::cgroup::{Group, Version, Weight};
use bloc_node_agent::config::Config;
use bloc_node_agent::cores::Cores;
use bloc_node_agent::pods::{Container, Pod};
use bloc_node_agent::qos::Answers;
use bloc_node_agent::report::PodName;
use bloc_node_agent::state::State;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// So many shares, or the weight, in the file of a version.
fn weight(version: Version, shares: u64, weight: u64) -> Weight {
    match version {
        Version::V1 => Weight::Shares(shares),
        Version::V2 => Weight::Weight(weight),
    }
}

#[test]
fn shares_are_what_was_written_last_whoever_wrote_it() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let group = sandbox.make("pod1");
    assert_eq!(group.weight().unwrap(), weight(version, 1_024, 100), "as it was made");
    // The kernel rounds nothing, from end to end.
    let all: Vec<Weight> = match version {
        Version::V1 => [2, 3, 1_023, 1_025, 10_240, 262_144].map(Weight::Shares).to_vec(),
        Version::V2 => (1..=10_000).step_by(7).chain([10_000]).map(Weight::Weight).collect(),
    };
    for weight in all {
        group.set_weight(weight).unwrap();
        assert_eq!(group.weight().unwrap(), weight);
    }
    let file = if version == Version::V1 { "cpu.shares" } else { "cpu.weight" };
    fs::write(group.path().join(file), "70").unwrap();
    assert_eq!(sandbox.tree().group("pod1").weight().unwrap(), weight(version, 70, 70));
    sandbox.remove_idle("pod1");
    for error in [group.weight().unwrap_err(), group.set_weight(weight(version, 70, 70)).unwrap_err()] {
        assert!(error.is_gone(), "{error}");
        assert!(error.to_string().starts_with(group.path().join(file).to_str().unwrap()), "{error}");
    }
}

#[test]
fn who_has_more_shares_gets_more_of_a_processor_that_both_want() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let [many, few] = ["pod1", "pod2"].map(|path| sandbox.make(path));
    many.set_weight(weight(version, 4_096, 400)).unwrap();
    few.set_weight(weight(version, 512, 50)).unwrap();
    for path in ["pod1", "pod2"] {
        sandbox.keep_busy_on_one(path);
    }
    let used = |group: &Group| group.counters().unwrap().used;
    let before = [&many, &few].map(used);
    // However much others take of that processor, what is left goes to both by eight to one.
    until(&many, |counters| counters.used > before[0] + Duration::from_millis(800));
    let [many, few] = [used(&many) - before[0], used(&few) - before[1]];
    assert!(few > Duration::ZERO && many > few * 3, "{many:?} and {few:?}");
}

pub const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    qos: {target: 200ms}
";

/// What containers and pods have in the file at first; version 2: of a core as of 1,000 shares.
const OWN: u64 = 1_000;

struct Stand {
    sandbox: Sandbox,
    directory: tempfile::TempDir,
    containers: [Group; 2],
    pods: [Group; 2],
    agent: Agent,
    now: Duration,
}

impl Stand {
    fn new() -> Self {
        let mut sandbox = Sandbox::new();
        sandbox.make("burstable");
        let pods = [0, 1].map(|index| sandbox.make(&format!("burstable/podu{index}")));
        let containers = [0, 1].map(|index| sandbox.make(&format!("burstable/podu{index}/c{index}")));
        for group in pods.iter().chain(&containers) {
            group.set_weight(weight(sandbox.version(), OWN, OWN)).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let agent = agent(&sandbox, directory.path());
        Self { sandbox, directory, containers, pods, agent, now: Duration::ZERO }
    }

    fn seconds(&mut self, count: u64) {
        seconds(&mut self.agent, &mut self.now, count);
    }

    /// What is in the files of the containers and their pods.
    fn numbers(&self) -> [u64; 4] {
        let [first, second] = &self.containers;
        [first, second, &self.pods[0], &self.pods[1]].map(|group| group.weight().unwrap().get())
    }

    fn restart(&mut self) {
        self.agent = agent(&self.sandbox, self.directory.path());
    }
}

/// Seconds in which the first pod is late and the second one is not.
pub fn seconds(agent: &mut Agent, now: &mut Duration, seconds: u64) {
    for _ in 0..seconds {
        for (name, seconds) in [("checkout-0", 60), ("checkout-1", 18)] {
            let pod = PodName { namespace: "shop".to_owned(), name: name.to_owned() };
            agent.answered(&pod, Answers { count: 100, time: Duration::from_secs(seconds) });
        }
        for _ in 0..CHECK_STEPS {
            *now += STEP;
            agent.step(*now);
        }
    }
}

/// An agent on a node of four cores, of which two are requested.
pub fn agent(sandbox: &Sandbox, directory: &Path) -> Agent {
    let capacity = Capacity { cores: Cores::new(4.0), memory: Bytes::mebi(1_024) };
    let mut agent = Agent::new(sandbox.tree(), State::open(directory).unwrap(), capacity);
    let pod = |index| Pod {
        namespace: "shop".to_owned(),
        name: format!("checkout-{index}"),
        uid: format!("u{index}"),
        labels: BTreeMap::from([("app".to_owned(), "checkout".to_owned())]),
        containers: vec![Container {
            name: "app".to_owned(),
            id: format!("c{index}"),
            requests: Cores::new(1.0),
            memory: Bytes::ZERO,
        }],
    };
    agent.set_config(Config::read(CONFIG).unwrap());
    agent.set_pods(Arc::new([0, 1].map(pod).to_vec()));
    agent
}

#[test]
fn shares_move_to_the_pod_that_is_late_and_come_back() {
    let mut stand = Stand::new();
    stand.seconds(1);
    assert_eq!(stand.numbers(), [OWN; 4]);
    stand.seconds(10);
    // One per cent in each second, since it is a tenth below its target.
    let (more, less) = (1_100, 900);
    assert_eq!(stand.numbers(), [more, less, more, less]);
    assert!(stand.agent.release().is_empty());
    assert_eq!(stand.numbers(), [OWN; 4]);
    // The next one finds them as they were, and crashes.
    stand.restart();
    stand.seconds(11);
    assert_eq!(stand.numbers(), [more, less, more, less]);
    stand.restart();
    stand.agent.set_config(Config::default());
    stand.seconds(1);
    assert_eq!(stand.numbers(), [OWN; 4]);
}

#[test]
fn shares_that_somebody_else_has_written_stay_and_one_that_is_gone_leaves_the_others_their_own() {
    let mut stand = Stand::new();
    stand.seconds(11);
    stand.containers[1].set_weight(weight(stand.sandbox.version(), 777, 777)).unwrap();
    stand.seconds(2);
    assert_eq!(stand.numbers(), [OWN, 777, OWN, OWN]);
    stand.agent.restore();
    assert_eq!(stand.numbers(), [OWN, 777, OWN, OWN]);
    let mut stand = Stand::new();
    stand.seconds(11);
    stand.sandbox.remove_idle("burstable/podu1/c1");
    stand.seconds(1);
    let [first, gone, pod, other] = [&stand.containers[0], &stand.containers[1], &stand.pods[0], &stand.pods[1]];
    assert!(gone.weight().unwrap_err().is_gone());
    assert_eq!([first, pod, other].map(|group| group.weight().unwrap().get()), [OWN; 3]);
    assert_eq!(stand.agent.status().errors.get("write"), None);
}
