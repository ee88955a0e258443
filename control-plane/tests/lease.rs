//! Leases over real HTTP, with records in a file.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::ReportInterval;
use bloc_control_plane::agents::Agents;
use bloc_control_plane::agents::leases::{FileLeases, Leases, Tokens};
use bloc_control_plane::http::identity::{Identity, NodeAgent};
use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::server::Serving;
use bloc_leases::{Asks, Holder, Part, Tolds};
use common::{LIMIT, Server, metric};
use futures_util::FutureExt;
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ONE: &str = "services: {a: {}}";
const APP: &str = "shop/checkout";
const AGENT: &str = "spiffe://cluster.local/ns/bloc-node/sa/bloc-node-agent";

/// A control plane that keeps its records in this file.
async fn start(file: &Path, metrics: &Arc<Metrics>) -> Server {
    let store = FileLeases::open(file.to_owned()).unwrap();
    let leases = Leases::new(Arc::new(store), Arc::clone(metrics));
    let serving = Serving { agents: Agents { leases: Some(leases), ..Agents::default() }, ..Serving::default() };
    Server::start_serving(ONE, ReportInterval::default(), serving).await
}

async fn send(
    server: &Server,
    body: impl Into<reqwest::Body>,
    certificate: Option<&str>,
    token: Option<&str>,
) -> (StatusCode, String) {
    let mut request = server.client.post(format!("{}/v1/lease", server.url)).body(body);
    if let Some(id) = certificate {
        request = request.header("x-forwarded-client-cert", format!("By=spiffe://cluster.local/x;URI={id}"));
    }
    if let Some(token) = token {
        request = request.header("authorization", token);
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

/// A node agent by hand: what it holds, as if it were on its disk.
struct LeaseHolder {
    node: &'static str,
    holder: Holder,
    wants: u32,
}

impl LeaseHolder {
    fn new(node: &'static str, wants: u32) -> Self {
        Self { node, holder: Holder::new(1, BTreeMap::new()), wants }
    }

    fn part(&self) -> u32 {
        self.holder.lease(APP).part.get()
    }

    /// Gives what others need, asks, and hears.
    async fn step(&mut self, server: &Server) {
        let goal = self.holder.lease(APP).goal;
        self.holder.lower(APP, goal);
        let ask = self.holder.ask(APP, Part::millionths(self.wants), Part::millionths(1_000), None);
        let asks = Asks { node: self.node.into(), life: self.holder.life(), apps: vec![ask] };
        let (status, text) = send(server, serde_json::to_string(&asks).unwrap(), None, None).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let tolds: Tolds = serde_json::from_str(&text).unwrap();
        tolds.apps.iter().for_each(|told| self.holder.receive(told));
    }
}

/// Both agents ask until they hold what is expected; never is it more than the limit.
async fn until(server: &Server, agents: &mut [LeaseHolder; 2], expected: impl Fn(u32, u32) -> bool) {
    let start = Instant::now();
    loop {
        for nth in 0..2 {
            agents[nth].step(server).await;
            assert!(agents[0].part() + agents[1].part() <= 1_000_000);
        }
        if expected(agents[0].part(), agents[1].part()) {
            return;
        }
        assert!(start.elapsed() < 3 * LIMIT, "{} {}", agents[0].part(), agents[1].part());
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn parts_move_to_where_they_are_needed_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (file, metrics) = (folder.path().join("leases.json"), Arc::default());
    let server = start(&file, &metrics).await;
    let mut agents = [LeaseHolder::new("n1", 900_000), LeaseHolder::new("n2", 100_000)];
    until(&server, &mut agents, |one, two| one >= 890_000 && two >= 98_000).await;
    agents[0].wants = 200_000;
    agents[1].wants = 700_000;
    until(&server, &mut agents, |one, two| one >= 200_000 && two >= 690_000).await;
    let (_, text) = server.get("/metrics").await;
    let of = |name: &str| metric(&text, &format!("{name}{{app=\"{APP}\"}}"));
    assert!(of("bloc_lease_held_ratio") > 0.89);
    assert_eq!((of("bloc_lease_silent_nodes"), of("bloc_lease_silent_ratio")), (0.0, 0.0));
    assert_eq!(metric(&text, "bloc_lease_records_unread"), 0.0);
    server.stop().await;

    // Another one knows what they hold. One agent has lost its disk, and begins a later life.
    let server = start(&file, &metrics).await;
    let before = [agents[0].part(), agents[1].part()];
    agents[0].holder = Holder::new(0, BTreeMap::new());
    agents[0].step(&server).await;
    assert_eq!((agents[0].holder.life(), agents[0].part()), (2, 0), "it hears that it had a later one");
    until(&server, &mut agents, |one, two| one >= before[0] && two >= before[1]).await;
    let record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(record[APP]["nodes"]["n1"]["life"], 2);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_has_what_the_contract_says() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("leases.json"), &Arc::default()).await;
    let ask = |name: &str, number: u64| json!({"name": name, "number": number, "part": 250_000, "wants": 300_000, "least": 50_000, "own": 400_000});
    let body = |life: u64, apps: &[Value]| json!({"node": "n1", "life": life, "apps": apps}).to_string();
    let (status, text) = send(&server, body(7, &[ask(APP, 3), ask("shop/pay", 0)]), None, None).await;
    let told =
        |name: &str, number: u64| json!({"name": name, "life": 7, "number": number, "part": 250_000, "goal": 250_000});
    assert_eq!(status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"apps": [told(APP, 3), told("shop/pay", 0)]}));
    // Late: what the record has, and no part.
    let late = json!({"name": APP, "life": 7, "number": 3, "part": 0, "goal": 0});
    let (status, text) = send(&server, body(7, &[ask(APP, 2), ask("shop/pay", 0)]), None, None).await;
    assert_eq!(
        (status, serde_json::from_str::<Value>(&text).unwrap()),
        (StatusCode::OK, json!({"apps": [late, told("shop/pay", 0)]}))
    );
    server.stop().await;
}

#[tokio::test]
async fn refuses_bad_messages_with_path_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("leases.json"), &Arc::default()).await;
    for (body, reason) in [
        ("", ".: EOF"),
        ("{}", "missing field `node`"),
        (r#"{"node":"n1","life":1,"apps":[],"more":1}"#, "more: unknown field"),
        (r#"{"node":"N1","life":1,"apps":[]}"#, "node: \\\"N1\\\" is not allowed; allowed: 1 to 253 of a to z"),
        (
            r#"{"node":"n1","life":1,"apps":[{"name":"a/b","number":1,"part":1000001,"wants":0,"least":0}]}"#,
            "apps[0].part: 1000001 is not allowed; allowed: 0 to 1000000",
        ),
        (
            r#"{"node":"n1","life":1,"apps":[{"name":"a","number":1,"part":0,"wants":0,"least":0}]}"#,
            "apps[0].name: \\\"a\\\" is not allowed; allowed: namespace/name",
        ),
    ] {
        let (status, text) = send(&server, body, None, None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
        assert!(text.contains(reason), "{body}: {text}");
    }
    assert_eq!(send(&server, vec![b' '; (96 << 10) + 1], None, None).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(server.get("/v1/lease").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!folder.path().join("leases.json").exists(), "nothing was written");
    server.stop().await;
}

#[tokio::test]
async fn without_a_store_the_path_does_not_exist() {
    let server = Server::start(ONE).await;
    let (status, text) = send(&server, r#"{"node":"n1","life":1,"apps":[]}"#, None, None).await;
    assert_eq!((status, &*text), (StatusCode::NOT_FOUND, r#"{"error":"no leases: no store is configured"}"#));
    server.stop().await;
}

#[tokio::test]
async fn only_the_agent_of_a_node_may_ask_for_it() {
    let review = |token: String| {
        let (_, node) = token.split_once('-').unwrap_or_default();
        let user = json!({
            "username": "system:serviceaccount:bloc-node:bloc-node-agent",
            "extra": {"authentication.kubernetes.io/node-name": [node]},
        });
        let status = json!({"authenticated": !node.is_empty(), "audiences": ["bloc-control-plane"], "user": user});
        std::future::ready(Ok(serde_json::from_value(status).unwrap())).boxed()
    };
    let folder = tempfile::tempdir().unwrap();
    let (file, metrics) = (folder.path().join("leases.json"), Arc::default());
    let store = || Arc::new(FileLeases::open(file.clone()).unwrap());
    let serving = |identity| Serving {
        identity,
        agents: Agents {
            tokens: Some(Tokens::with(&NodeAgent::default(), review)),
            leases: Some(Leases::new(store(), Arc::clone(&metrics))),
            ..Agents::default()
        },
        ..Serving::default()
    };
    let server = Server::start_serving(ONE, ReportInterval::default(), serving(Identity::Spiffe(None))).await;
    let body = r#"{"node":"n1","life":1,"apps":[]}"#;
    let cases = [
        (Some(AGENT), Some("Bearer token-n1"), 200),
        (Some(AGENT), Some("bearer token-n1"), 200),
        (Some(AGENT), Some("Bearer token-n2"), 403),
        (Some(AGENT), Some("Bearer another"), 401),
        (Some(AGENT), Some("Basic token-n1"), 401),
        (Some(AGENT), Some("Bearer "), 401),
        (Some(AGENT), None, 401),
        (None, Some("Bearer token-n1"), 401),
        (Some("spiffe://cluster.local/ns/shop/sa/checkout"), Some("Bearer token-n1"), 403),
        (Some("spiffe://other/ns/bloc-node/sa/bloc-node-agent"), Some("Bearer token-n1"), 403),
    ];
    for (nth, (certificate, token, expected)) in cases.into_iter().enumerate() {
        // Each node has one new token a second.
        let node = if expected == 200 { "n1".to_owned() } else { format!("other{nth}") };
        let body = body.replace("n1", &node);
        let (status, text) = send(&server, body, certificate, token).await;
        assert_eq!(status.as_u16(), expected, "{certificate:?} {token:?} {text}");
        assert!(!text.contains("another"), "{text}");
    }
    server.stop().await;
    // Whoever reaches the port may ask.
    let server = Server::start_serving(ONE, ReportInterval::default(), serving(Identity::None)).await;
    assert_eq!(send(&server, body, None, None).await.0, StatusCode::OK);
    server.stop().await;
}
