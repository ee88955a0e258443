//! A control plane of the next version, which has a parameter with a feature, and proxies of this
//! version and of the next.

use super::cluster::{Cluster, LIMIT, until};
use super::replicas::build;
use super::{A, ips};
use bloc_policy::config::features::{FEATURES_HEADER, Features};
use serde_json::{Value, json};

/// Polls once with these features, and returns the service in the answer.
async fn given(client: &reqwest::Client, url: &str, proxy: &str, features: &str) -> Value {
    let body = json!({"proxy": proxy, "services": [A]}).to_string();
    let answer = client.post(format!("{url}/v1/sync")).header(FEATURES_HEADER, features).body(body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 200);
    let named = answer.headers()[FEATURES_HEADER].to_str().unwrap().to_owned();
    assert!(named.split(',').any(|name| name == "spare"), "{named}");
    let state: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    state["services"][A].clone()
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn proxies_of_two_versions_are_given_what_each_knows() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {spare: true, retries: 2}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..1)).await;
    let control_plane = cluster.control_plane_of("next", &build("BLOC_BUILD_AFTER")).await;
    until("the service", async || control_plane.metric("bloc_config_services").await == Some(1.0)).await;
    let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
    let this = Features::own().to_string();
    let old = given(&client, &control_plane.url, "this", &this).await;
    let new = given(&client, &control_plane.url, "next", &format!("{this},spare")).await;
    assert_eq!((&old["spare"], &old["retries"]), (&Value::Null, &json!(2)));
    assert_eq!((&new["spare"], &new["retries"]), (&json!(true), &json!(2)));
    assert_eq!(control_plane.metric("bloc_proxies_lacking{feature=\"spare\"}").await, Some(1.0));
    let lacking = json!([{"feature": "spare", "proxies": 1, "named": ["this"], "services": [A]}]);
    // The status may be a second old.
    until("the page", async || {
        let status: Value = serde_json::from_str(&control_plane.get("/v1/status").await).unwrap();
        status["modules"]["lacking"] == lacking
    })
    .await;
}
