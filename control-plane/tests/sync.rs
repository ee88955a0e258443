//! The sync protocol over real HTTP.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::ReportInterval;
use bloc_control_plane::http::identity::Identity;
use bloc_control_plane::server::Serving;
use bloc_daemon::server::Limits;
use bloc_policy::config::features::{FEATURES_HEADER, Features, MODULE_HEADER};
use bloc_policy::proxy::roster::{self, Added};
use bloc_policy::proxy::shared::{Cas, Shared};
use bloc_policy::sync::latency::{Calls, Histogram};
use bloc_policy::sync::{Last, ServiceCalls, ServiceEvents, ServiceLoad, SyncRequest};
use common::{LIMIT, Server, metric, state};
use reqwest::StatusCode;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

const TWO: &str = "services: {a: {}, b: {endpoints: ['127.0.0.1:1']}}";

#[tokio::test]
async fn answers_the_first_poll_with_the_full_state() {
    let server = Server::start(TWO).await;
    let state = server.state("p", "", &["b", "none"]).await;
    assert_eq!(state.services.len(), 1);
    assert_eq!(state.services["b"].endpoints.as_deref(), Some(&["127.0.0.1:1".to_owned()][..]));
    assert_eq!(server.state("q", "", &["none"]).await.services, BTreeMap::new());
    server.stop().await;
}

#[tokio::test]
async fn a_poll_ends_with_304_when_its_wait_is_over() {
    let server = Server::start(TWO).await;
    let version = server.state("p", "", &["a"]).await.version;
    let start = Instant::now();
    let body = format!(r#"{{"proxy":"p","version":"{version}","services":["a"],"wait":"1ms"}}"#);
    assert_eq!(server.post(body.to_owned()).await, (StatusCode::NOT_MODIFIED, String::new()));
    let elapsed = start.elapsed();
    assert!((Duration::from_millis(950)..LIMIT).contains(&elapsed), "1s at least: {elapsed:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_newer_poll_ends_the_older_with_304() {
    let server = Server::start(TWO).await;
    let version = server.state("p", "", &["a"]).await.version;
    let older = server.hold("p", &version, &["a"]).await;
    let newer = server.poll("p", &version, &["a"]);
    let older = timeout(LIMIT, older).await.unwrap().unwrap();
    assert_eq!(older.status(), StatusCode::NOT_MODIFIED);
    server.until(|server| server.store.counts().polls_held == 1).await;
    assert!(!newer.is_finished());
    server.stop().await;
}

#[tokio::test]
async fn releases_the_poll_of_a_client_that_leaves() {
    let server = Server::start(TWO).await;
    let version = server.state("p", "", &["a"]).await.version;
    let poll = server.hold("p", &version, &["a"]).await;
    poll.abort();
    server.until(|server| server.store.counts().polls_held == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn refuses_invalid_polls_with_a_reason() {
    let server = Server::start(TWO).await;
    let long = format!(r#"{{"proxy":"p","version":"{}"}}"#, "0".repeat(300));
    for (body, reason) in [
        ("", ".: EOF"),
        ("[1", ""),
        ("{\"version\":\"\"}", "missing field `proxy`"),
        (r#"{"proxy":"p","version":1}"#, "version: invalid type: integer `1`, expected a string"),
        (&long, "version: a text of 300 bytes is not allowed; allowed: at most 200 bytes"),
        (r#"{"proxy":""}"#, "proxy: \"\" is not allowed"),
        (r#"{"proxy":"p","services":["a b"]}"#, "services[0]: \"a b\" is not allowed"),
        (r#"{"proxy":"p","wait":"soon"}"#, "wait: \"soon\" is not allowed"),
        (r#"{"proxy":"p","unread":["a b"]}"#, "unread[0]: \"a b\" is not allowed"),
        (r#"{"proxy":"p"} x"#, "trailing"),
        ("\u{0}\u{fffd}", ""),
    ] {
        let (status, text) = server.post(body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
        let error: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
        assert!(error["error"].contains(reason), "{body}: {text}");
    }
    assert_eq!(server.post(vec![0xff; 100]).await.0, StatusCode::BAD_REQUEST);
    let (status, text) = server.post(vec![b' '; (96 << 10) + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert_eq!(server.post(format!(r#"{{"proxy":"p"}}{}"#, " ".repeat(60 << 10))).await.0, StatusCode::OK);
    assert_eq!(server.get("/v1/sync").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.get("/nowhere").await.0, StatusCode::NOT_FOUND);
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metric(&metrics, r#"bloc_sync_answers_total{answer="refused"}"#), 13.0);
    server.stop().await;
}

/// Of a newer proxy, which may have met a newer replica before.
#[tokio::test]
async fn passes_over_members_that_it_does_not_know() {
    let server = Server::start(TWO).await;
    let load = r#"[{"service":"a","inFlight":3,"later":1,"events":{"later":1}}]"#;
    let body = format!(r#"{{"proxy":"p","serves":["a"],"load":{load},"last":{{"later":1}},"later":{{}}}}"#);
    let (status, text) = server.post(body).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let detail: serde_json::Value = serde_json::from_str(&server.get("/v1/status/services/a").await.1).unwrap();
    assert_eq!(detail["load"]["demandRequests"], 3);
    server.stop().await;
}

#[tokio::test]
async fn each_answer_names_the_features_and_each_proxy_shows_its_module() {
    let server = Server::start(TWO).await;
    let own = Features::own().to_string();
    let poll = |body: &'static str| {
        let request = server.client.post(format!("{}/v1/sync", server.url)).body(body);
        request.header(FEATURES_HEADER, "later").header(MODULE_HEADER, "9.9.9").send()
    };
    let held = r#"{"proxy":"p","services":["a"],"wait":"1s","version":"VERSION"}"#;
    let version = server.state("p", "", &["a"]).await.version;
    let held: &'static str = held.replace("VERSION", &version).leak();
    for (body, status) in [(r#"{"proxy":"q","unread":["a"],"services":["a"]}"#, 200), (held, 304), ("{}", 400)] {
        let answer = poll(body).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{body}");
        assert_eq!(answer.headers()[FEATURES_HEADER], own, "{body}");
    }
    let report: serde_json::Value = serde_json::from_str(&server.get("/v1/status/services/a").await.1).unwrap();
    for (proxy, unread) in [(0, json!([])), (1, json!(["a"]))] {
        let shown = &report["senderList"][proxy];
        assert_eq!((&shown["module"], &shown["features"], &shown["unread"]), (&"9.9.9".into(), &json!([]), &unread));
    }
    server.stop().await;
}

#[tokio::test]
async fn survives_bytes_that_are_not_http() {
    let server = Server::start(TWO).await;
    let mut stream = tokio::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(b"\x16\x03\x01 nonsense\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    assert_eq!(server.get("/healthz").await.0, StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn serves_the_status_and_metrics_to_operators() {
    let server = Server::start(TWO).await;
    let version = server.state("p", "", &["a"]).await.version;
    let poll = server.hold("p", &version, &["a"]).await;
    let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await; // the status may be a second old
    let status = read(server.get("/v1/status").await.1);
    assert_eq!((&status["version"], &status["refusals"]), (&server.version().into(), &json!([])));
    let counted = json!({"connected": 1, "current": 1, "stale": 0, "elsewhere": 0});
    assert_eq!(status["proxies"], counted);
    let service = read(server.get("/v1/status/services/a").await.1);
    let sender = &service["senderList"][0];
    assert_eq!((&sender["proxy"], &sender["version"]), (&"p".into(), &version.into()));
    assert_eq!(read(server.get("/v1/status/services/b").await.1)["addresses"], json!(["127.0.0.1:1"]));
    assert_eq!(server.get("/readyz").await.0, StatusCode::OK);
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metric(&metrics, "bloc_polls_held"), 1.0);
    assert_eq!(metric(&metrics, "bloc_proxies_connected"), 1.0);
    assert_eq!(metric(&metrics, "bloc_config_services"), 2.0);
    let digest = u64::from_str_radix(&server.version(), 16).unwrap();
    assert_eq!(metric(&metrics, "bloc_config_version"), (digest >> 12) as f64);
    assert_eq!(metric(&metrics, "bloc_proxies_stale"), 0.0);
    assert_eq!(metric(&metrics, "bloc_proxies_unread"), 0.0);
    assert_eq!(metric(&metrics, "bloc_config_accepted_total"), 1.0);
    assert_eq!(metric(&metrics, r#"bloc_sync_answers_total{answer="changed"}"#), 1.0);
    server.stop().await;
    assert_eq!(poll.await.unwrap().status(), StatusCode::NOT_MODIFIED);
}

/// The shared data of one thread.
#[derive(Default)]
struct Data(RefCell<BTreeMap<String, Vec<u8>>>);

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        (self.0.borrow().get(key).cloned(), Cas::new(1))
    }

    fn set(&self, key: &str, value: &[u8], _: Cas) -> bool {
        self.overwrite(key, value);
        true
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        self.0.borrow_mut().insert(key.to_owned(), value.to_vec());
    }
}

/// A proxy that calls and serves more than a poll can carry leaves the rest out, and is served.
#[tokio::test]
async fn takes_the_largest_poll_that_a_proxy_sends() {
    let server = Server::start(TWO).await;
    for length in [20, 44, 100, 253] {
        let names = |kind: char| (0..2_000).map(|i| format!("{kind}{i:0width$}", width = length - 1)).collect();
        let data = Data::default();
        assert_eq!(roster::announce(&data, &names('c')), Added::NoRoom);
        assert_eq!(roster::serve(&data, &names('s')), Added::NoRoom);
        let many = 1_000_000_000_000;
        let events = ServiceEvents {
            departed_confident: many,
            chips_granted: many,
            chips_withheld: many,
            rejected_capacity: many,
            rejected_bid: many,
            rejected_deadline: many,
        };
        let load = |service| ServiceLoad {
            service,
            in_flight: 1_000_000,
            capacity: Some(1_000_000),
            departed: many,
            arrived: many,
            service_rate: Some(123_456.789_012_345),
            events,
            latency: None,
        };
        // What a report holds of latencies, in services with as many bytes as its histograms may
        // have.
        let mut room = 32 << 10;
        let calls = |service: &String| {
            let latency = Histogram { sum_us: many, counts: (0..146).map(|bucket| (bucket, 1_000_000)).collect() };
            let calls = ServiceCalls::new(service, Calls { requests: many, ..Calls::default() }, latency);
            let bytes = serde_json::to_vec(&calls).unwrap().len();
            (bytes <= room).then(|| {
                room -= bytes;
                calls
            })
        };
        let serves: Vec<String> = roster::served(&data).into_iter().collect();
        let request = SyncRequest {
            proxy: "p".to_owned(),
            calls: roster::seen(&data).iter().map_while(calls).collect(),
            services: roster::seen(&data).into_iter().collect(),
            load: serves.iter().cloned().map(load).collect(),
            serves,
            last: Some(Last { replica: "r".repeat(60), answered_ms: many, reported_ms: Some(many) }),
            ..SyncRequest::default()
        };
        let (status, text) = server.post(serde_json::to_vec(&request).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "names of {length} bytes: {text}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_answers_a_thousand_held_polls() {
    rlimit::increase_nofile_limit(4_096).unwrap();
    let server = Server::start(TWO).await;
    let version = server.state("p", "", &["a"]).await.version;
    let polls: Vec<_> = (0..1_000).map(|i| server.poll(&format!("p{i}"), &version, &["a"])).collect();
    server.until(|server| server.store.counts().polls_held == 1_000).await;
    let start = Instant::now();
    server.write("services: {a: {retries: 1}, b: {endpoints: ['127.0.0.1:1']}}");
    for poll in polls {
        assert_eq!(state(poll).await.services["a"].retries, Some(1));
    }
    println!("1,000 polls were answered {:?} after the file was written", start.elapsed());
    assert_eq!(server.store.counts().polls_held, 0);
    server.stop().await;
}

#[tokio::test]
async fn closes_a_connection_that_sends_no_request() {
    let limits = Limits { head_timeout: Duration::from_millis(100), connections: 1, connections_of_one: 1_000 };
    let serving = Serving { limits, ..Serving::default() };
    let server = Server::start_serving(TWO, ReportInterval::default(), serving).await;
    let address = server.url.strip_prefix("http://").unwrap();
    // Nothing, and the beginning of HTTP/2: the server does not know the version of HTTP yet.
    for begin in ["", "PRI "] {
        let mut silent = tokio::net::TcpStream::connect(address).await.unwrap();
        silent.write_all(begin.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = timeout(LIMIT, silent.read_to_end(&mut rest)).await.expect("the connection ends");
    }
    assert_eq!(server.get("/healthz").await.0, StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn closes_a_connection_whose_head_comes_too_slowly() {
    let limits = Limits { head_timeout: Duration::from_millis(100), connections: 1, connections_of_one: 1_000 };
    let serving = Serving { limits, ..Serving::default() };
    let server = Server::start_serving(TWO, ReportInterval::default(), serving).await;
    let mut slow = tokio::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ").await.unwrap();
    // There is room for one connection: the other waits until the slow one is closed.
    assert_eq!(server.get("/healthz").await.0, StatusCode::OK);
    let mut rest = Vec::new();
    timeout(LIMIT, slow.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_proxy_with_a_certificate_may_poll_only_under_its_own_id() {
    let serving = Serving { identity: Identity::Spiffe(None), ..Serving::default() };
    let server = Server::start_serving(TWO, ReportInterval::default(), serving).await;
    let post = async |proxy: &str, account: Option<&str>| {
        let mut request = server.client.post(format!("{}/v1/sync", server.url));
        if let Some(account) = account {
            let sidecar = "By=spiffe://cluster.local/ns/bloc-system/sa/bloc-control-plane";
            request = request.header("x-forwarded-client-cert", format!("{sidecar};URI=spiffe://{account}"));
        }
        let response = request.body(format!(r#"{{"proxy":"{proxy}","services":["a"]}}"#)).send().await.unwrap();
        response.status()
    };
    let own = "sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local";
    assert_eq!(post(own, None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(post(own, Some("cluster.local/ns/shop/sa/checkout")).await, StatusCode::OK);
    assert_eq!(post(own, Some("cluster.local/ns/bank/sa/vault")).await, StatusCode::FORBIDDEN);
    assert_eq!(
        post(own, Some("cluster.local/ns/shop/sa/other")).await,
        StatusCode::FORBIDDEN,
        "the id belongs to checkout"
    );
    assert_eq!(post(own, Some("other.example/ns/shop/sa/checkout")).await, StatusCode::FORBIDDEN, "trust domain");
    assert_eq!(post("somebody", Some("cluster.local/ns/shop/sa/checkout")).await, StatusCode::FORBIDDEN);
    assert_eq!(server.store.status().proxies.connected, 1);
    server.stop().await;
}
