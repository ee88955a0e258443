//! Latencies in reports: who the caller is, and what operators see.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::ReportInterval;
use bloc_control_plane::http::identity::Identity;
use bloc_control_plane::server::Serving;
use bloc_policy::sync::latency::histogram::bucket;
use common::{Server, metric};
use reqwest::StatusCode;
use serde_json::{Value, json};

const TWO: &str = "services: {a: {}, b: {}}";

async fn server(identity: Identity) -> Server {
    Server::start_serving(TWO, ReportInterval::default(), Serving { identity, ..Serving::default() }).await
}

/// Polls with these members; the answer counts the report.
async fn poll(server: &Server, account: Option<&str>, members: Value) -> (StatusCode, String) {
    let mut body = json!({"proxy": "sidecar~10.0.0.1~frontend-1.shop~shop.svc.cluster.local", "last": {}});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let mut request = server.client.post(format!("{}/v1/sync", server.url)).body(body.to_string());
    if let Some(account) = account {
        let by = "By=spiffe://cluster.local/ns/bloc-system/sa/bloc-control-plane";
        request = request.header("x-forwarded-client-cert", format!("{by};URI=spiffe://cluster.local/{account}"));
    }
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

fn calls(service: &str, requests: u64) -> Value {
    json!({"service": service, "requests": requests, "latency": {"sumUs": 1000 * requests, "counts": [[bucket(1_000_000), requests]]}})
}

async fn status(server: &Server) -> Value {
    // The page's status may be a second old.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    serde_json::from_str(&server.get("/v1/status").await.1).unwrap()
}

/// Whatever a proxy writes, its certificate says who calls, and it reports only calls to services
/// that it asks for.
#[tokio::test]
async fn a_proxy_cannot_report_calls_of_others() {
    let server = server(Identity::Spiffe(None)).await;
    let forged = json!({
        "services": ["a"], "caller": "bank/vault", "identity": "spiffe://cluster.local/ns/bank/sa/vault",
        "calls": [
            {"service": "a", "requests": 30, "caller": "bank/vault", "latency": {"sumUs": 0, "counts": [[40, 30]]}},
            calls("b", 1_000),
        ],
    });
    assert_eq!(poll(&server, Some("ns/shop/sa/frontend"), forged.clone()).await.0, StatusCode::OK);
    for (account, refused) in [("ns/bank/sa/vault", StatusCode::FORBIDDEN), ("ns/shop/sa/cart", StatusCode::FORBIDDEN)]
    {
        assert_eq!(poll(&server, Some(account), forged.clone()).await.0, refused, "another's proxy id");
    }
    let edges = status(&server).await["edges"].clone();
    assert_eq!(
        (edges.as_array().map(Vec::len), &edges[0]["caller"], &edges[0]["service"]),
        (Some(1), &json!("shop/frontend"), &json!("a"))
    );
    let text = server.get("/metrics").await.1;
    assert_eq!(metric(&text, r#"bloc_calls_total{caller="shop/frontend",service="a"}"#), 30.0);
    assert!(!text.contains("vault"), "{text}");
    assert_eq!(metric(&text, r#"bloc_service_call_seconds_count{service="a"}"#), 30.0);
    assert!(!text.contains(r#"bloc_service_call_seconds_count{service="b"}"#));
    // A workload of the same name in another trust domain is another one.
    let server_of = |domain: &str| {
        format!("By=spiffe://{domain}/ns/bloc-system/sa/bloc-control-plane;URI=spiffe://{domain}/ns/shop/sa/cart")
    };
    let body = json!({"proxy": "sidecar~10.0.0.2~cart-1.shop~shop.svc.cluster.local", "last": {}, "services": ["a"], "calls": [calls("a", 7)]});
    let request = server.client.post(format!("{}/v1/sync", server.url)).body(body.to_string());
    assert_eq!(
        request.header("x-forwarded-client-cert", server_of("other.example")).send().await.unwrap().status(),
        StatusCode::OK
    );
    let text = server.get("/metrics").await.1;
    assert_eq!(metric(&text, r#"bloc_calls_total{caller="other.example/shop/cart",service="a"}"#), 7.0);
    server.stop().await;
}

#[tokio::test]
async fn each_report_is_counted_once_and_with_the_answer() {
    let server = server(Identity::None).await;
    let report = |version: &str| {
        let latency = json!({"response": {"sumUs": 80_000, "counts": [[59, 2]]}, "arrivals": [1, 2, 2, 4, 4]});
        let load = json!([{"service": "a", "inFlight": 1, "latency": latency}]);
        json!({"version": version, "serves": ["a"], "services": ["b"], "load": load, "calls": [calls("b", 3)], "wait": "1s"})
    };
    let (_, text) = poll(&server, None, report("")).await;
    let version = serde_json::from_str::<Value>(&text).unwrap()["version"].as_str().unwrap().to_owned();
    assert_eq!(poll(&server, None, report(&version)).await.0, StatusCode::NOT_MODIFIED);
    let text = server.get("/metrics").await.1;
    assert_eq!(metric(&text, r#"bloc_service_response_seconds_count{service="a"}"#), 4.0);
    assert_eq!(metric(&text, r#"bloc_service_response_seconds_sum{service="a"}"#), 0.16);
    assert_eq!(metric(&text, r#"bloc_calls_total{caller="a",service="b"}"#), 6.0, "the first service that it serves");
    let detail: Value = serde_json::from_str(&server.get("/v1/status/services/a").await.1).unwrap();
    let latency = &detail["latency"];
    assert!((latency["response"]["p99"].as_f64().unwrap() / 0.0404 - 1.0).abs() < 0.05, "{latency}");
    assert!(latency["dispersion"].is_array() && latency["callers"].is_null(), "{latency}");
    server.write("services: {b: {}}");
    server.until(|server| server.store.counts().services == 1).await;
    assert!(!server.get("/metrics").await.1.contains(r#"response_seconds_count{service="a"}"#));
    server.stop().await;
}

#[tokio::test]
async fn absurd_latencies_are_refused() {
    let server = server(Identity::None).await;
    let huge = 1_u64 << 60;
    let with = |calls: Value| json!({"services": ["a"], "calls": [calls]});
    let load = |latency: Value| json!({"serves": ["a"], "load": [{"service": "a", "inFlight": 1, "latency": latency}]});
    for (members, reason) in [
        (
            with(json!({"service": "a", "requests": huge})),
            "calls[0].requests: 1152921504606846976 is not allowed; allowed: 0 to",
        ),
        (with(json!({"service": "a", "requests": 1, "failed": huge})), "calls[0].failed"),
        (
            with(json!({"service": "a", "requests": 1, "latency": {"sumUs": 1, "counts": [[146, 1]]}})),
            "calls[0].latency.counts",
        ),
        (
            with(json!({"service": "a", "requests": 1, "latency": {"sumUs": 1, "counts": [[300, 1]]}})),
            "calls[0].latency.counts",
        ),
        (with(json!({"service": "a b", "requests": 1})), "calls[0]: \"a b\" is not allowed"),
        (
            json!({"services": ["a"], "calls": [calls("a", 1), calls("a", 1)]}),
            "calls[1].service: \"a\" is not allowed; allowed: each service once",
        ),
        (load(json!({"response": {"sumUs": 1, "counts": [[3, 1], [2, 1]]}})), "load[0].latency.response.counts"),
        (load(json!({"execution": {"sumUs": 1, "counts": [[3, huge]]}})), "load[0].latency.execution"),
        (load(json!({"arrivals": [1, 2]})), "load[0].latency.arrivals: 2 is not allowed; allowed: 5 numbers"),
    ] {
        let (status, text) = poll(&server, None, members.clone()).await;
        let error = serde_json::from_str::<Value>(&text).unwrap()["error"].as_str().unwrap_or_default().to_owned();
        assert!(status == StatusCode::BAD_REQUEST && error.starts_with(reason), "{members}: {text}");
    }
    server.stop().await;
}
