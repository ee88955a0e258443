//! Leases over nodes: two replicas that write the same objects, with the rights as shipped; tokens
//! of the node agent; nodes that go.

use super::cluster::{Cluster, ControlPlane, LIMIT, until};
use bloc_leases::{Asks, Holder, Part, Tolds};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const APP: &str = "shop/checkout";
const OBJECT: &str = "cpu.shop.checkout";
const AGENT: &str = "spiffe://cluster.local/ns/bloc-node/sa/bloc-node-agent";

/// A node agent by hand.
pub struct LeaseHolder {
    node: String,
    holder: Holder,
    pub wants: u32,
}

impl LeaseHolder {
    pub fn new(node: impl Into<String>, wants: u32) -> Self {
        Self { node: node.into(), holder: Holder::new(1, BTreeMap::new()), wants }
    }

    pub fn part(&self) -> u32 {
        self.holder.lease(APP).part.get()
    }

    /// Gives what others need; returns what to ask.
    fn asks(&mut self) -> Asks {
        let goal = self.holder.lease(APP).goal;
        self.holder.lower(APP, goal);
        let ask = self.holder.ask(APP, Part::millionths(self.wants), Part::millionths(1_000), None);
        Asks { node: self.node.clone(), life: self.holder.life(), apps: vec![ask] }
    }

    /// Asks one replica; returns whether it has said something.
    pub async fn step(&mut self, replica: &ControlPlane) -> bool {
        let tolds = ask(replica, &self.asks()).await;
        tolds.apps.iter().for_each(|told| self.holder.receive(told));
        !tolds.apps.is_empty()
    }
}

async fn ask(replica: &ControlPlane, asks: &Asks) -> Tolds {
    let (status, text) = replica.post("/v1/lease", &[], &serde_json::to_value(asks).unwrap()).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn objects(cluster: &Cluster) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), "bloc-system")
}

/// The parts in the object, by node.
async fn parts(cluster: &Cluster) -> BTreeMap<String, u64> {
    let object = objects(cluster).get(OBJECT).await.unwrap();
    let record: Value = serde_json::from_str(&object.metadata.annotations.unwrap()["bloc.dev/parts"]).unwrap();
    let nodes = record["nodes"].as_object().unwrap();
    nodes.iter().map(|(node, entry)| (node.clone(), entry["part"].as_u64().unwrap())).collect()
}

async fn ready(replica: &ControlPlane) {
    let nobody = json!({"node": "n", "life": 1, "apps": []});
    until("the records", async || replica.post("/v1/lease", &[], &nobody).await.0 == 200).await;
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Serialize + DeserializeOwned + Clone + Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

async fn create_node(cluster: &Cluster, name: &str) {
    create(&Api::<Node>::all(cluster.client.clone()), json!({"metadata": {"name": name}})).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn two_replicas_that_are_asked_at_once_never_give_more_than_the_limit() {
    let cluster = Cluster::start().await;
    let (one, two) = tokio::join!(cluster.control_plane("one"), cluster.control_plane("two"));
    let replicas = [&one, &two];
    for replica in replicas {
        ready(replica).await;
    }
    let mut agents: Vec<LeaseHolder> = (0..6).map(|nth| LeaseHolder::new(format!("n{nth}"), 0)).collect();
    let (mut moves, mut before) = (0, Vec::new());
    for round in 0..150 {
        for (nth, agent) in agents.iter_mut().enumerate() {
            agent.wants = if (round / 5 + nth) % 3 == 0 { 500_000 } else { 40_000 };
        }
        let asks: Vec<Asks> = agents.iter_mut().map(LeaseHolder::asks).collect();
        let asking = asks
            .iter()
            .enumerate()
            .flat_map(|(nth, asks)| replicas.map(|replica| async move { (nth, ask(replica, asks).await) }));
        for (nth, tolds) in futures_util::future::join_all(asking).await {
            tolds.apps.iter().for_each(|told| agents[nth].holder.receive(told));
        }
        let held: Vec<u32> = agents.iter().map(LeaseHolder::part).collect();
        assert!(held.iter().sum::<u32>() <= 1_000_000, "{round}: {held:?}");
        let written = parts(&cluster).await;
        assert!(written.values().sum::<u64>() <= 1_000_000, "{round}: {written:?}");
        for agent in &agents {
            let known = written.get(&agent.node).copied().unwrap_or(0);
            assert!(u64::from(agent.part()) <= known, "{round}: {} holds more than {written:?}", agent.node);
        }
        moves += usize::from(held != before);
        before = held;
        sleep(Duration::from_millis(200)).await;
    }
    let mut counts = [0.0, 0.0];
    for replica in replicas {
        for (count, result) in counts.iter_mut().zip(["written", "conflict"]) {
            let metric = format!("bloc_lease_writes_total{{result=\"{result}\"}}");
            *count += replica.metric(&metric).await.unwrap_or(0.0);
        }
        assert_eq!(replica.metric(r#"bloc_lease_writes_total{result="failed"}"#).await, None);
    }
    assert!(counts[0] > 0.0 && counts[1] > 0.0, "written, conflicts: {counts:?}");
    assert!(moves > 20, "parts move: {moves}, {counts:?}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_record_that_somebody_breaks_is_named_and_left_and_one_that_is_deleted_is_made_anew() {
    let mut cluster = Cluster::start().await;
    let one = cluster.control_plane("one").await;
    ready(&one).await;
    let mut agent = LeaseHolder::new("n1", 600_000);
    until("a part", async || agent.step(&one).await && agent.part() > 0).await;
    let held = agent.part();
    let broken = r#"{"nodes":{"n1":{"life":1,"number":0,"part":1000001}}}"#;
    let annotation = |text: &str| Patch::Merge(json!({"metadata": {"annotations": {"bloc.dev/parts": text}}}));
    objects(&cluster).patch(OBJECT, &PatchParams::default(), &annotation(broken)).await.unwrap();
    until("the refusal", async || one.metric("bloc_lease_records_unread").await == Some(1.0)).await;
    for _ in 0..10 {
        assert!(!agent.step(&one).await, "nothing is said");
    }
    assert_eq!(agent.part(), held, "it keeps what it holds");
    let log = cluster.log("one");
    assert!(log.contains("cpu.shop.checkout") && log.contains("a sum of parts of 1000001 is not allowed"), "{log}");
    let text = &objects(&cluster).get(OBJECT).await.unwrap().metadata.annotations.unwrap()["bloc.dev/parts"];
    assert_eq!(text, broken);

    objects(&cluster).delete(OBJECT, &DeleteParams::default()).await.unwrap();
    until("another record", async || agent.step(&one).await).await;
    assert_eq!(parts(&cluster).await, BTreeMap::from([("n1".to_owned(), u64::from(held))]));

    // Without the API server, what needs no write is said.
    cluster.kill_server().await;
    assert!(agent.step(&one).await);
    let mut new = LeaseHolder::new("n2", 100_000);
    assert!(!new.step(&one).await);
    assert!(one.metric(r#"bloc_lease_writes_total{result="failed"}"#).await.unwrap() > 0.0);
    cluster.restart_server().await;
    until("the new node", async || new.step(&one).await).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_silent_node_that_the_cluster_no_longer_has_is_freed_by_a_replica_that_has_just_started() {
    let cluster = Cluster::start().await;
    for node in ["here", "silent"] {
        create_node(&cluster, node).await;
    }
    let one = cluster.control_plane("one").await;
    ready(&one).await;
    let mut agents = ["here", "silent", "gone"].map(|node| LeaseHolder::new(node, 300_000));
    let begin = Instant::now();
    while agents.iter().any(|agent| agent.part() == 0) {
        assert!(begin.elapsed() < LIMIT, "no parts");
        for agent in &mut agents {
            agent.step(&one).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
    one.terminate().await;
    let two = cluster.control_plane("two").await;
    ready(&two).await;
    let begin = Instant::now();
    while parts(&cluster).await.contains_key("gone") {
        assert!(begin.elapsed() < 2 * LIMIT, "not freed");
        agents[0].step(&two).await;
        sleep(Duration::from_millis(500)).await;
    }
    assert!(begin.elapsed() > Duration::from_secs(30), "it was not silent for long");
    let left = parts(&cluster).await;
    assert_eq!(left.keys().collect::<Vec<_>>(), ["here", "silent"], "{left:?}");
}

/// A token of a service account, bound to a pod if there is one.
async fn token(cluster: &Cluster, account: &str, pod: Option<&Pod>, audience: &str) -> String {
    let bound =
        pod.map(|pod| json!({"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}));
    let request = json!({"spec": {"audiences": [audience], "boundObjectRef": bound}});
    let request: TokenRequest = serde_json::from_value(request).unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), "bloc-node");
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn only_a_token_of_the_agents_pod_on_a_node_may_ask_for_that_node() {
    let cluster = Cluster::start().await;
    let client = || cluster.client.clone();
    create(&Api::<Namespace>::all(client()), json!({"metadata": {"name": "bloc-node"}})).await;
    let mut pods = BTreeMap::new();
    for (account, node) in [("bloc-node-agent", "n1"), ("bloc-node-agent", "n2"), ("other", "n1")] {
        let (name, accounts) = (format!("{account}-{node}"), Api::<ServiceAccount>::namespaced(client(), "bloc-node"));
        let _ = accounts
            .create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": account}})).unwrap())
            .await;
        let containers = json!([{"name": "a", "image": "a"}]);
        let spec = json!({"nodeName": node, "serviceAccountName": account, "containers": containers});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        pods.insert(name, create(&Api::<Pod>::namespaced(client(), "bloc-node"), pod).await);
    }
    for node in ["n1", "n2"] {
        create_node(&cluster, node).await;
    }
    let own = "bloc-control-plane";
    let tokens = [
        ("its own", token(&cluster, "bloc-node-agent", pods.get("bloc-node-agent-n1"), own).await, 200),
        ("another node's", token(&cluster, "bloc-node-agent", pods.get("bloc-node-agent-n2"), own).await, 403),
        ("another account's", token(&cluster, "other", pods.get("other-n1"), own).await, 403),
        ("of no pod", token(&cluster, "bloc-node-agent", None, own).await, 403),
        ("for others", token(&cluster, "bloc-node-agent", pods.get("bloc-node-agent-n1"), "vault").await, 401),
        ("the administrator's", "admin".to_owned(), 401),
        ("none", "x".to_owned(), 401),
    ];
    let one = cluster.control_plane_with("one", &["--identity", "spiffe"]).await;
    let certificate = format!("By=spiffe://cluster.local/ns/bloc-system/sa/bloc-control-plane;URI={AGENT}");
    let ask = json!({"name": APP, "number": 0, "part": 0, "wants": 5, "least": 0});
    let of = |node: &str| json!({"node": node, "life": 1, "apps": [ask]});
    let send = async |token: &str, certificate: &str, node: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("x-forwarded-client-cert", certificate), ("authorization", &bearer)];
        one.post("/v1/lease", &headers, &of(node)).await
    };
    until("the records", async || send(&tokens[0].1, &certificate, "n1").await.0 == 200).await;
    for (nth, (whose, token, expected)) in tokens.iter().enumerate() {
        // Each node has one new token a second.
        let node = if *expected == 200 { "n1".to_owned() } else { format!("other{nth}") };
        let (status, text) = send(token, &certificate, &node).await;
        assert_eq!(status, *expected, "{whose}: {text}");
        assert!(!text.contains(&**token) || token.len() < 10, "{text}");
    }
    let (status, text) = one.post("/v1/lease", &[("x-forwarded-client-cert", &certificate)], &of("n1")).await;
    assert_eq!(status, 401, "{text}");
    let other = certificate.replace("ns/bloc-node/", "ns/shop/");
    assert_eq!(send(&tokens[0].1, &other, "n1").await.0, 403);
    let written = parts(&cluster).await;
    assert_eq!(written.keys().collect::<Vec<_>>(), ["n1"], "{written:?}");
    let log = cluster.log("one");
    assert!(log.contains("refused a node agent's message") && !log.contains(&tokens[1].1), "{log}");
}
