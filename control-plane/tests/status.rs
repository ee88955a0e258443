//! The JSON behind the page, and the page's headers, over real HTTP.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::ReportInterval;
use common::Server;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use serde_json::{Value, json};
use std::time::Duration;

const THREE: &str = "services: {alpha: {}, Beta: {retries: 1}, gamma: {endpoints: ['127.0.0.1:1']}}";

async fn json(server: &Server, path: &str) -> Value {
    let (status, text) = server.get(path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

fn names(status: &Value) -> Vec<&str> {
    status["services"].as_array().unwrap().iter().map(|service| service["name"].as_str().unwrap()).collect()
}

/// Reports of a service with 60 answers, 30 rejections and 10 in flight each second.
async fn report(server: &Server, service: &str, version: &str) {
    let events = json!({"departedConfident": 45, "rejectedCapacity": 20, "rejectedDeadline": 10, "rejectedBid": 7});
    let load = json!([{"service": service, "inFlight": 10, "capacity": 12, "departed": 60, "serviceRate": 50.0, "events": events}]);
    let last = json!({"reportedMs": 1_000});
    let body =
        json!({"proxy": "server", "version": version, "serves": [service], "wait": "1s", "load": load, "last": last});
    assert_eq!(server.post(body.to_string()).await.0, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn serves_the_page_with_a_content_security_policy() {
    let server = Server::start(THREE).await;
    let response = server.client.get(&server.url).send().await.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    for part in ["default-src 'none'", "connect-src 'self'", "script-src 'sha256-", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(response.text().await.unwrap().starts_with("<!doctype html>"));
    assert_eq!(server.post_to("/", "{}").await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.post_to("/v1/status", "{}").await, StatusCode::METHOD_NOT_ALLOWED);
    server.stop().await;
}

#[tokio::test]
async fn filters_sorts_and_limits_the_status() {
    let server = Server::start(THREE).await;
    let status = json(&server, "/v1/status").await;
    assert_eq!(names(&status), ["Beta", "alpha", "gamma"], "in byte order, since all are in the same condition");
    assert_eq!((&status["total"], &status["matching"], &status["ready"]), (&json!(3), &json!(3), &json!(true)));
    assert_eq!(status["conditions"], json!({"unreported": 3}));
    assert_eq!(names(&json(&server, "/v1/status?filter=BETA").await), ["Beta"]);
    let cut = json(&server, "/v1/status?limit=1&sort=name&filter=a").await;
    assert_eq!((names(&cut), &cut["matching"]), (vec!["Beta"], &json!(3)));
    assert_eq!(server.get("/v1/status?sort=colour").await.0, StatusCode::BAD_REQUEST);
    server.stop().await;
}

#[tokio::test]
async fn answers_304_while_the_history_is_unchanged() {
    let server = Server::start(THREE).await;
    let url = format!("{}/v1/status/history", server.url);
    let first = server.client.get(&url).send().await.unwrap();
    let tag = first.headers()[ETAG].clone();
    let again = || server.client.get(&url).header(IF_NONE_MATCH, tag.clone()).send();
    assert_eq!(again().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    server.write("services: {alpha: {}}");
    server.until(|server| server.store.counts().services == 1).await;
    let changed = again().await.unwrap();
    assert_eq!(changed.status(), StatusCode::OK);
    let events: Value = changed.json().await.unwrap();
    let event = &events["events"][0];
    assert_eq!(
        (&event["kind"], &event["changed"], &event["services"][0]["what"]),
        (&json!("change"), &json!(2), &json!(["removed"]))
    );
    server.stop().await;
}

#[tokio::test]
async fn shows_a_refusal_until_it_is_fixed() {
    let server = Server::start(THREE).await;
    server.write("services: {alpha: {headroom: 2}}");
    server.until(|server| server.store.counts().refused == 1).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await; // the status may be a second old
    let refusals = json(&server, "/v1/status").await["refusals"].clone();
    assert!(
        refusals[0]["message"].as_str().unwrap().contains("services.alpha.headroom: 2 is not allowed"),
        "{refusals}"
    );
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(common::metric(&metrics, "bloc_config_refused"), 1.0);
    server.write(THREE);
    server.until(|server| server.store.counts().refused == 0).await;
    let events = json(&server, "/v1/status/history").await["events"].clone();
    assert_eq!((&events[0]["kind"], &events[0]["resolved"]), (&json!("refusal"), &json!(true)), "{events}");
    server.stop().await;
}

#[tokio::test]
async fn a_service_lists_its_servers_and_senders() {
    let interval: ReportInterval = "1s".parse().unwrap();
    let server = Server::start_with(THREE, interval).await;
    let version = server.state("caller", "", &["gamma", "alpha"]).await.version;
    let calling = server.hold("caller", &version, &["gamma", "alpha"]).await;
    let version = server.state("server", "", &["gamma"]).await.version;
    report(&server, "gamma", &version).await;
    let gamma = json(&server, "/v1/status/services/gamma").await;
    assert_eq!(gamma["condition"], "rejecting");
    let share = gamma["rejectedShare"].as_f64().unwrap();
    assert!((share - 1.0 / 3.0).abs() < 1e-9, "{gamma}");
    let shown = &gamma["servers"][0];
    assert_eq!((&shown["proxy"], &shown["queue"], &shown["capacity"]), (&json!("server"), &json!(10), &json!(12)));
    assert!((shown["confidence"].as_f64().unwrap() - 0.75).abs() < 1e-9, "{shown}");
    assert_eq!((&gamma["serverCount"], &gamma["senderCount"], &gamma["senders"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(
        (&gamma["senderList"][0]["proxy"], &gamma["senderList"][0]["state"]),
        (&json!("caller"), &json!("current"))
    );
    assert_eq!((&gamma["endpoints"], &gamma["addresses"]), (&json!(1), &json!(["127.0.0.1:1"])));
    let status = json(&server, "/v1/status").await;
    assert_eq!((names(&status)[0], &status["troubled"][0]["name"]), ("gamma", &json!("gamma")));
    let alpha = json(&server, "/v1/status/services/alpha").await;
    assert_eq!(
        (&alpha["condition"], &alpha["load"], &alpha["addresses"]),
        (&json!("unreported"), &Value::Null, &Value::Null)
    );
    assert_eq!(server.get("/v1/status/services/none").await.0, StatusCode::NOT_FOUND);
    assert_eq!((&status["replica"], &status["proxies"]["connected"]), (&json!(server.store.replica()), &json!(2)));
    server.stop().await;
    assert_eq!(calling.await.unwrap().status(), StatusCode::NOT_MODIFIED);
}
