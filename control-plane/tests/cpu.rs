//! What node agents say, over real HTTP, and what proxies and operators get of it.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::ReportInterval;
use bloc_control_plane::agents::Agents;
use bloc_control_plane::http::identity::Identity;
use bloc_control_plane::server::Serving;
use common::{LIMIT, Server, metric};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const ONE: &str = "services: {a: {}}";
const ASKS: &str = r#"{"node":"n1","asks":[{"namespace":"shop","name":"checkout-0"}]}"#;
const PROXY: &str = "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local";

async fn tell(server: &Server, body: impl Into<reqwest::Body>, certificate: Option<&str>) -> (StatusCode, String) {
    let mut request = server.client.post(format!("{}/v1/cpu", server.url)).body(body);
    if let Some(id) = certificate {
        request = request.header("x-forwarded-client-cert", format!("By=spiffe://cluster.local/x;URI={id}"));
    }
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

fn message(cores: f64) -> String {
    let pod = json!({"namespace": "shop", "name": "checkout-0", "cores": cores, "usedSeconds": 812.4});
    let container = json!({"pod": "checkout-0", "container": "app", "quota": cores, "used": 0.25, "throttled": 0.5});
    let app = json!({"name": "shop/checkout", "limit": 4, "free": 1.2, "containers": [container]});
    json!({"node": "n1", "pods": [pod], "apps": [app]}).to_string()
}

/// Sends a poll of the proxy of `checkout-0`.
fn poll(server: &Server, version: &str, cpu: Option<f64>) -> JoinHandle<Response> {
    let body = json!({"proxy": PROXY, "version": version, "services": ["a"], "wait": "60s", "cpu": cpu});
    let request = server.client.post(format!("{}/v1/sync", server.url)).json(&body);
    tokio::spawn(async move { request.send().await.unwrap() })
}

async fn answer(poll: JoinHandle<Response>) -> Value {
    let response = timeout(LIMIT, poll).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers().contains_key("x-bloc-replica"), "its report counts");
    response.json().await.unwrap()
}

#[tokio::test]
async fn a_held_poll_gets_the_cores_of_its_pod_and_operators_see_them() {
    let server = Server::start(ONE).await;
    let version = answer(poll(&server, "", None)).await["version"].as_str().unwrap().to_owned();
    let held = poll(&server, &version, None);
    server.until(|server| server.store.counts().polls_held == 1).await;
    assert_eq!(tell(&server, message(0.5), None).await, (StatusCode::NO_CONTENT, String::new()));
    assert_eq!(answer(held).await, json!({"version": version, "cpu": {"cores": 0.5}}));
    let serves = json!({"proxy": PROXY, "serves": ["a"], "load": [{"service": "a", "inFlight": 1}]});
    assert_eq!(server.post(serves.to_string()).await.0, StatusCode::OK);
    let detail: Value = serde_json::from_str(&server.get("/v1/status/services/a").await.1).unwrap();
    assert_eq!((&detail["servers"][0]["proxy"], &detail["servers"][0]["cpu"]), (&json!(PROXY), &json!({"cores": 0.5})));
    tokio::time::sleep(Duration::from_millis(1_100)).await; // the status may be a second old
    let status: Value = serde_json::from_str(&server.get("/v1/status").await.1).unwrap();
    let container =
        json!({"pod": "checkout-0", "container": "app", "quota": 0.5, "used": 0.25, "slack": 0.25, "throttled": 0.5});
    let app = json!({
        "name": "shop/checkout", "node": "n1", "observed": false, "limit": 4.0, "free": 1.2, "quota": 0.5, "used": 0.25, "slack": 0.25,
        "containerCount": 1, "containers": [container],
    });
    assert_eq!((&status["apps"], &status["appCount"]), (&json!([app]), &json!(1)));
    let (_, text) = server.get("/metrics").await;
    assert_eq!(metric(&text, "bloc_node_agents"), 1.0);
    assert_eq!(metric(&text, r#"bloc_sync_answers_total{answer="cpu"}"#), 1.0);
    assert_eq!(metric(&text, r#"bloc_sync_answers_total{answer="changed"}"#), 2.0);
    assert_eq!(metric(&text, r#"bloc_node_agent_messages_total{answer="accepted"}"#), 1.0);
    server.stop().await;
}

/// Asks a replica for pods of `shop`: its name and what it says.
async fn ask(server: &Server, pods: &[&str]) -> (String, Value) {
    let pods: Vec<Value> = pods.iter().map(|name| json!({"namespace": "shop", "name": name})).collect();
    let (status, text) = tell(server, json!({"node": "n1", "asks": pods}).to_string(), None).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(2), "{text}");
    (answer["replica"].as_str().unwrap().to_owned(), answer["answers"].take())
}

/// A poll of the proxy of `checkout-0`, which serves `a`: so many requests took so many
/// microseconds. Returns the replica that has counted them.
async fn report(server: &Server, version: &str, count: u64, micros: u64) -> (StatusCode, String) {
    let latency = json!({"response": {"sumUs": micros, "counts": [[80, count]]}});
    let load = json!({"service": "a", "inFlight": 0, "departed": count, "latency": latency});
    let body = json!({
        "proxy": PROXY, "version": version, "services": ["a"], "serves": ["a"], "wait": "60s", "load": [load],
        "last": {"answeredMs": 0, "reportedMs": 1_000},
    });
    let response = server.client.post(format!("{}/v1/sync", server.url)).json(&body).send().await.unwrap();
    (response.status(), response.headers()["x-bloc-replica"].to_str().unwrap().to_owned())
}

#[tokio::test]
async fn what_two_replicas_count_of_a_pod_that_is_asked_for_adds_up() {
    let replicas = [Server::start(ONE).await, Server::start(ONE).await];
    report(&replicas[0], "", 100, 100).await;
    let mut names = Vec::new();
    for server in &replicas {
        let (name, answers) = ask(server, &["checkout-1", "checkout-0"]).await;
        let none = |name: &str| json!({"namespace": "shop", "name": name, "count": 0, "seconds": 0.0});
        assert_eq!(answers, json!([none("checkout-1"), none("checkout-0")]));
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
    let mut sent = [(0, 0), (0, 0)];
    for nth in 0..9 {
        let (count, micros) = (10 + nth, 123_457 * (nth + 1));
        // Not in turn.
        let to = usize::from(nth % 3 == 1);
        assert_eq!(report(&replicas[to], "", count, micros).await, (StatusCode::OK, names[to].clone()));
        sent[to] = (sent[to].0 + count, sent[to].1 + micros);
    }
    assert_eq!((sent[0].0 + sent[1].0, sent[0].1 + sent[1].1), (126, 45 * 123_457));
    for (server, (count, micros)) in replicas.iter().zip(sent) {
        let said = json!([{"namespace": "shop", "name": "checkout-0", "count": count, "seconds": micros as f64 / 1e6}]);
        assert_eq!(ask(server, &["checkout-0"]).await.1, said);
        let (_, text) = server.get("/metrics").await;
        assert_eq!(metric(&text, "bloc_node_agent_asks"), 2.0);
    }
    for server in replicas {
        server.stop().await;
    }
}

#[tokio::test]
async fn the_poll_of_a_pod_that_is_asked_for_is_held_for_a_second() {
    // Without the question it would not be answered within the time that a test waits.
    let server = Server::start_with(ONE, "60s".parse().unwrap()).await;
    let version = answer(poll(&server, "", None)).await["version"].as_str().unwrap().to_owned();
    let (replica, _) = ask(&server, &["checkout-0"]).await;
    let start = Instant::now();
    assert_eq!(report(&server, &version, 20, 5_000_000).await, (StatusCode::NOT_MODIFIED, replica));
    assert!((1..30).contains(&start.elapsed().as_secs()));
    let said = json!([{"namespace": "shop", "name": "checkout-0", "count": 20, "seconds": 5.0}]);
    assert_eq!(ask(&server, &["checkout-0"]).await.1, said);
    server.stop().await;
}

#[tokio::test]
async fn refuses_bad_messages_with_path_and_value() {
    let server = Server::start(ONE).await;
    for (body, reason) in [
        ("", ".: EOF"),
        ("{}", "missing field `node`"),
        (
            r#"{"node":"n1","pods":[{"namespace":"a","name":"b","usedSeconds":-1}]}"#,
            "pods[0].usedSeconds: -1 is not allowed",
        ),
        (r#"{"node":"n1","pods":[{"namespace":"a","name":"b","usedSeconds":1e999}]}"#, "number out of range"),
        (
            r#"{"node":"n1","pods":[{"namespace":"a","name":"b","usedSeconds":1,"cores":"1"}]}"#,
            "pods[0].cores: invalid type",
        ),
        (r#"{"node":"n1","asks":[{"namespace":"a","name":"b"},{"namespace":"a","name":"B"}]}"#, "asks[1].name: "),
        (r#"{"node":"n1","asks":[{"namespace":"a.b","name":"b"}]}"#, "asks[0].namespace: "),
        (r#"{"node":"n1","asks":[{"namespace":"a"}]}"#, "asks[0]: missing field `name`"),
        (r#"{"node":"n1","asks":"a"}"#, "asks: invalid type"),
    ] {
        let (status, text) = tell(&server, body, None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
        assert!(text.contains(reason), "{body}: {text}");
    }
    assert_eq!(tell(&server, vec![b' '; (96 << 10) + 1], None).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(server.get("/v1/cpu").await.0, StatusCode::METHOD_NOT_ALLOWED);
    let (_, text) = server.get("/metrics").await;
    assert_eq!(metric(&text, r#"bloc_node_agent_messages_total{answer="refused"}"#), 10.0);
    assert_eq!(metric(&text, "bloc_node_agents"), 0.0);
    server.stop().await;
}

#[tokio::test]
async fn only_the_node_agent_may_tell_where_identities_are_required() {
    let serving = Serving { identity: Identity::Spiffe(None), ..Serving::default() };
    let server = Server::start_serving(ONE, ReportInterval::default(), serving).await;
    let agent = "spiffe://cluster.local/ns/bloc-node/sa/bloc-node-agent";
    assert_eq!(tell(&server, message(1.0), Some(agent)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(tell(&server, message(1.0), None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(tell(&server, ASKS, None).await.0, StatusCode::UNAUTHORIZED);
    let (_, text) = server.get("/metrics").await;
    assert_eq!(metric(&text, "bloc_node_agent_asks"), 0.0);
    assert_eq!(tell(&server, ASKS, Some(agent)).await.0, StatusCode::OK);
    for other in [
        "spiffe://cluster.local/ns/shop/sa/checkout",
        "spiffe://other/ns/bloc-node/sa/bloc-node-agent",
        "spiffe://cluster.local/x",
    ] {
        assert_eq!(tell(&server, message(1.0), Some(other)).await.0, StatusCode::FORBIDDEN, "{other}");
        assert_eq!(tell(&server, ASKS, Some(other)).await.0, StatusCode::FORBIDDEN, "{other}");
    }
    server.stop().await;
    let serving = Serving {
        identity: Identity::Spiffe(None),
        agents: Agents { account: "ns/shop/sa/checkout".parse().unwrap(), ..Agents::default() },
        ..Serving::default()
    };
    let server = Server::start_serving(ONE, ReportInterval::default(), serving).await;
    assert_eq!(tell(&server, message(1.0), Some(agent)).await.0, StatusCode::FORBIDDEN);
    let other = "spiffe://cluster.local/ns/shop/sa/checkout";
    assert_eq!(tell(&server, message(1.0), Some(other)).await.0, StatusCode::NO_CONTENT);
    server.stop().await;
}

#[tokio::test]
async fn says_that_there_is_no_room_for_all_of_it() {
    let server = Server::start(ONE).await;
    // Each message is of other pods, until their names fill the memory.
    let mut statuses = Vec::new();
    for round in 0..40 {
        let pods: Vec<Value> = (0..250)
            .map(|i| json!({"namespace": "shop", "name": format!("{}{round}-{i}", "a".repeat(240)), "usedSeconds": 0}))
            .collect();
        let (status, text) = tell(&server, json!({"node": "n1", "pods": pods}).to_string(), None).await;
        assert!(status == StatusCode::NO_CONTENT || text.contains("out of memory"), "{status} {text}");
        statuses.push(status);
    }
    assert_eq!((statuses[0], statuses[39]), (StatusCode::NO_CONTENT, StatusCode::SERVICE_UNAVAILABLE));
    let (_, text) = server.get("/metrics").await;
    assert!(metric(&text, r#"bloc_node_agent_messages_total{answer="no_room"}"#) > 0.0);
    server.stop().await;
}
