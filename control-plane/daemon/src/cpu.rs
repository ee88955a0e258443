//! The messages of node agents to each replica of the control plane (`POST /v1/cpu`), and the
//! answers with response times.
//!
//! A message has the pods that changed, and every 5 s all pods. Long messages are split. Unknown
//! members are ignored.

use crate::ranges::{app, count, label, name, within};
use bloc_policy::config::ConfigError;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// The path of these messages.
pub const CPU_PATH: &str = "/v1/cpu";
/// The fraction by which cores must change to be reported at once.
const STEP: f64 = 0.05;
/// Most pods or questions in a message: more than a node runs.
const MAX_PODS: usize = 1_000;
const MAX_APPS: usize = 100;
/// The largest number of cores in any member.
pub const MOST_CORES: f64 = 10_000.0;
/// The longest CPU time: a year on all these cores.
const MOST_SECONDS: f64 = 3.2e11;
/// The longest name of a replica, in bytes.
const MOST_REPLICA: usize = 100;

/// A message from the agent of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuMessage {
    pub node: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodCpu>,
    /// Applications with containers on the node, for the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<AppCpu>,
    /// Pods whose response times the agent asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<PodName>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

impl PodName {
    /// The pod's name as in a proxy's node id.
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{name}.{namespace}")
}

/// The CPU of a pod: sums over the containers that the agent manages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCpu {
    pub namespace: String,
    pub name: String,
    /// The quotas in cores; absent or 0: unknown, or unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// The containers' CPU time since they started, in seconds.
    pub used_seconds: f64,
}

impl PodCpu {
    /// The pod's name as in a proxy's node id.
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

/// The CPU of an application on a node, in cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AppCpu {
    /// `namespace/name`.
    pub name: String,
    /// Whether the agent only observes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    pub limit: f64,
    /// The part of `limit` that no container has.
    pub free: f64,
    #[serde(default)]
    pub containers: Vec<ContainerCpu>,
}

/// The CPU of a container, in cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerCpu {
    pub pod: String,
    pub container: String,
    /// Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    pub used: f64,
    /// The share of the periods in which it was throttled.
    pub throttled: f64,
}

/// A replica's answer to a question about pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuAnswer {
    /// The name of the replica, which changes with each start; 1 to 100 bytes.
    pub replica: String,
    /// The pods that the replica knows.
    pub answers: Vec<PodAnswers>,
}

/// What a pod has answered since the replica was first asked about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodAnswers {
    #[serde(flatten)]
    pub pod: PodName,
    /// The number of requests.
    pub count: u64,
    /// The sum of their times from arrival at the server to the response.
    pub seconds: f64,
}

impl CpuAnswer {
    /// Reads and checks an answer.
    pub fn read(body: &[u8]) -> Result<Self, ConfigError> {
        let answer: Self = ConfigError::read_json(body)?;
        within("the length of replica", answer.replica.len(), 1, MOST_REPLICA)?;
        Ok(answer)
    }
}

impl CpuMessage {
    /// Reads and checks a message.
    pub fn read(body: &[u8]) -> Result<Self, ConfigError> {
        let message: Self = ConfigError::read_json(body)?;
        name("node", &message.node)?;
        count("pods", message.pods.len(), MAX_PODS)?;
        count("apps", message.apps.len(), MAX_APPS)?;
        count("asks", message.asks.len(), MAX_PODS)?;
        for (i, pod) in message.pods.iter().enumerate() {
            label(format_args!("pods[{i}].namespace"), &pod.namespace)?;
            name(format_args!("pods[{i}].name"), &pod.name)?;
            cores(format_args!("pods[{i}].cores"), pod.cores)?;
            within(format_args!("pods[{i}].usedSeconds"), pod.used_seconds, 0.0, MOST_SECONDS)?;
        }
        for (i, app) in message.apps.iter().enumerate() {
            app.check(&format!("apps[{i}]"))?;
        }
        for (i, pod) in message.asks.iter().enumerate() {
            label(format_args!("asks[{i}].namespace"), &pod.namespace)?;
            name(format_args!("asks[{i}].name"), &pod.name)?;
        }
        Ok(message)
    }
}

impl AppCpu {
    fn check(&self, path: &str) -> Result<(), ConfigError> {
        app(format_args!("{path}.name"), &self.name)?;
        cores(format_args!("{path}.limit"), Some(self.limit))?;
        cores(format_args!("{path}.free"), Some(self.free))?;
        for (i, of) in self.containers.iter().enumerate() {
            name(format_args!("{path}.containers[{i}].pod"), &of.pod)?;
            label(format_args!("{path}.containers[{i}].container"), &of.container)?;
            cores(format_args!("{path}.containers[{i}].quota"), of.quota)?;
            cores(format_args!("{path}.containers[{i}].used"), Some(of.used))?;
            within(format_args!("{path}.containers[{i}].throttled"), of.throttled, 0.0, 1.0)?;
        }
        Ok(())
    }
}

/// Whether a change of cores is reported at once: if it is at least 5% of the known value.
pub fn differs(knows: Option<f64>, is: Option<f64>) -> bool {
    match (knows, is) {
        (Some(knows), Some(is)) => (is - knows).abs() >= STEP * knows,
        (knows, is) => knows != is,
    }
}

fn cores(path: impl Display, value: Option<f64>) -> Result<(), ConfigError> {
    value.map_or(Ok(()), |value| within(path, value, 0.0, MOST_CORES).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(message: &Value) -> Result<CpuMessage, String> {
        CpuMessage::read(message.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn pod(member: &str, value: Value) -> Value {
        let mut pod = json!({"namespace": "shop", "name": "checkout-0", "cores": 0.35, "usedSeconds": 812.4});
        pod[member] = value;
        json!({"node": "n1", "pods": [pod]})
    }

    fn container(member: &str, value: Value) -> Value {
        let mut container = json!({"pod": "checkout-0", "container": "app", "quota": 1, "used": 0.5, "throttled": 1});
        container[member] = value;
        json!({"node": "n1", "apps": [{"name": "shop/checkout", "limit": 4, "free": 1.2, "containers": [container]}]})
    }

    fn asks(member: &str, value: Value) -> Value {
        let mut pod = json!({"namespace": "shop", "name": "checkout-0"});
        pod[member] = value;
        json!({"node": "n1", "asks": [{"namespace": "a", "name": "b"}, pod]})
    }

    #[test]
    fn reads_pods_and_applications_and_passes_over_what_it_does_not_know() {
        let message = read(&pod("later", json!(1))).unwrap();
        assert_eq!(read(&serde_json::to_value(&message).unwrap()), Ok(message.clone()));
        assert_eq!((&*message.node, &*message.pods[0].key()), ("n1", "checkout-0.shop"));
        assert_eq!((message.pods[0].cores, message.pods[0].used_seconds), (Some(0.35), 812.4));
        let message = read(&container("later", json!(1))).unwrap();
        assert_eq!(read(&serde_json::to_value(&message).unwrap()), Ok(message.clone()));
        let app = &message.apps[0];
        assert_eq!((&*app.name, app.limit, app.free), ("shop/checkout", 4.0, 1.2));
        let of = &app.containers[0];
        assert_eq!(
            (&*of.pod, &*of.container, of.quota, of.used, of.throttled),
            ("checkout-0", "app", Some(1.0), 0.5, 1.0)
        );
        let asks = read(&asks("later", json!(1))).unwrap().asks;
        assert_eq!(asks.iter().map(PodName::key).collect::<Vec<_>>(), ["b.a", "checkout-0.shop"]);
        assert_eq!(read(&json!({"node": "n1"})).unwrap(), CpuMessage { node: "n1".into(), ..CpuMessage::default() });
    }

    #[test]
    fn names_may_be_as_long_as_kubernetes_allows_and_numbers_within_their_ranges() {
        let (name, label) = ("a".repeat(253), "a-9".repeat(21));
        for good in [
            pod("name", json!(name)),
            pod("name", json!("a.b-9")),
            pod("namespace", json!(label)),
            pod("cores", json!(10_000)),
            pod("cores", json!(0)),
            pod("cores", Value::Null),
            pod("usedSeconds", json!(3.2e11)),
            container("pod", json!(name)),
            container("container", json!(label)),
            container("quota", Value::Null),
            json!({"node": name, "pods": vec![json!({"namespace": "a", "name": "a", "usedSeconds": 0}); 1_000]}),
            json!({"node": "n", "apps": vec![json!({"name": "a/a", "limit": 0, "free": 10_000}); 100]}),
            asks("name", json!(name)),
            asks("namespace", json!(label)),
            json!({"node": "n", "asks": vec![json!({"namespace": "a", "name": "a"}); 1_000]}),
        ] {
            assert_eq!(read(&good).err(), None);
        }
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        let (name, label) = ("a".repeat(254), "a".repeat(64));
        let (names, labels) = ("1 to 253 of a to z, 0 to 9, '-' and '.'", "1 to 63 of a to z, 0 to 9 and '-'");
        let app = |member: &str, value: Value| {
            let mut app = json!({"name": "shop/checkout", "limit": 4, "free": 1.2});
            app[member] = value;
            json!({"node": "n1", "apps": [app]})
        };
        for (message, path, value, allowed) in [
            (json!({"node": ""}), "node", "\"\"", names),
            (json!({"node": "N"}), "node", "\"N\"", names),
            (pod("name", json!(name)), "pods[0].name", &format!("{name:?}"), names),
            (pod("name", json!("a b")), "pods[0].name", "\"a b\"", names),
            (pod("namespace", json!(label)), "pods[0].namespace", &format!("{label:?}"), labels),
            (pod("namespace", json!("a.b")), "pods[0].namespace", "\"a.b\"", labels),
            (pod("cores", json!(-0.1)), "pods[0].cores", "-0.1", "0 to 10000"),
            (pod("cores", json!(10_000.5)), "pods[0].cores", "10000.5", "0 to 10000"),
            (pod("usedSeconds", json!(-1)), "pods[0].usedSeconds", "-1", "0 to 320000000000"),
            (app("name", json!("checkout")), "apps[0].name", "\"checkout\"", "namespace/name"),
            (app("name", json!("a.b/c")), "apps[0].name", "\"a.b/c\"", "namespace/name"),
            (app("name", json!("a/")), "apps[0].name", "\"a/\"", "namespace/name"),
            (app("limit", json!(-1)), "apps[0].limit", "-1", "0 to 10000"),
            (app("free", json!(1e9)), "apps[0].free", "1000000000", "0 to 10000"),
            (container("pod", json!("")), "apps[0].containers[0].pod", "\"\"", names),
            (container("container", json!("")), "apps[0].containers[0].container", "\"\"", labels),
            (container("quota", json!(-1)), "apps[0].containers[0].quota", "-1", "0 to 10000"),
            (container("used", json!(-1)), "apps[0].containers[0].used", "-1", "0 to 10000"),
            (container("throttled", json!(1.5)), "apps[0].containers[0].throttled", "1.5", "0 to 1"),
            (
                json!({"node": "n", "pods": vec![json!({"namespace": "a", "name": "a", "usedSeconds": 0}); 1_001]}),
                "pods",
                "a list of 1001 entries",
                "at most 1000",
            ),
            (
                json!({"node": "n", "apps": vec![json!({"name": "a/a", "limit": 0, "free": 0}); 101]}),
                "apps",
                "a list of 101 entries",
                "at most 100",
            ),
            (asks("name", json!(name)), "asks[1].name", &format!("{name:?}"), names),
            (asks("namespace", json!(label)), "asks[1].namespace", &format!("{label:?}"), labels),
            (asks("namespace", json!("a.b")), "asks[1].namespace", "\"a.b\"", labels),
            (
                json!({"node": "n", "asks": vec![json!({"namespace": "a", "name": "a"}); 1_001]}),
                "asks",
                "a list of 1001 entries",
                "at most 1000",
            ),
        ] {
            let expected = ConfigError::out_of_range(path.into(), value, allowed).to_string();
            let error = read(&message).unwrap_err();
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(read(&asks("name", Value::Null)).unwrap_err().starts_with("asks[1].name: invalid type"));
        assert!(read(&pod("usedSeconds", Value::Null)).unwrap_err().starts_with("pods[0].usedSeconds: invalid type"));
    }

    #[test]
    fn five_percent_is_a_difference() {
        assert!(differs(Some(20.0), Some(21.0)) && differs(Some(20.0), Some(19.0)));
        assert!(!differs(Some(20.0), Some(20.9)) && !differs(Some(20.0), Some(19.1)));
        assert!(differs(None, Some(1.0)) && differs(Some(1.0), None) && !differs(None, None));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let answer = |answers: &str| format!(r#"{{"replica":"r","answers":[{answers}]}}"#);
        for (text, why) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "invalid length"),
            (r#"{"answers":[]}"#.to_owned(), "missing field `replica`"),
            (r#"{"replica":"r"}"#.to_owned(), "missing field `answers`"),
            (answer(r#"{"namespace":"shop","name":"a","count":-1,"seconds":1}"#), "invalid value"),
            (answer(r#"{"namespace":"shop","name":"a","count":1.5,"seconds":1}"#), "invalid type"),
            (answer(r#"{"namespace":"shop","name":"a","count":1e30,"seconds":1}"#), "invalid type"),
            (answer(r#"{"namespace":"shop","name":"a","count":1,"seconds":NaN}"#), "expected value"),
            (answer(r#"{"namespace":"shop","name":"a","count":1,"seconds":1e999}"#), "number out of range"),
            (answer(r#"{"namespace":"shop","name":"a","count":1,"seconds":null}"#), "invalid type"),
            (answer(r#"{"name":"a","count":1,"seconds":1}"#), "missing field `namespace`"),
            (r#"{"replica":"","answers":[]}"#.to_owned(), "the length of replica: 0 is not allowed; allowed: 1 to 100"),
            (json!({"replica": "r".repeat(101), "answers": []}).to_string(), "the length of replica: 101"),
        ] {
            let error = CpuAnswer::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let longest = json!({"replica": "r".repeat(100), "answers": [], "later": 1}).to_string();
        assert_eq!(CpuAnswer::read(longest.as_bytes()).map(|said| said.replica.len()), Ok(100));
    }
}
