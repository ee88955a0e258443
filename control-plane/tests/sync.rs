//! The protocol over real HTTP.
#![allow(missing_docs, reason = "tests")]

mod common;

use common::{LIMIT, Server, clock_at, metric, state};
use reqwest::StatusCode;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

const TWO: &str = "services: {a: {}, b: {endpoints: ['127.0.0.1:1']}}";

#[tokio::test]
async fn the_first_poll_is_answered_with_the_full_state() {
    let server = Server::start(TWO).await;
    let state = server.state("p", 0, &["b", "none"]).await;
    assert_eq!(state.services.len(), 1);
    assert_eq!(state.services["b"].endpoints.as_deref(), Some(&["127.0.0.1:1".to_owned()][..]));
    assert_eq!(server.state("q", 0, &["none"]).await.services, BTreeMap::new());
    server.stop().await;
}

#[tokio::test]
async fn a_poll_ends_with_304_when_its_wait_is_over() {
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let start = Instant::now();
    let body = format!(r#"{{"proxy":"p","version":{version},"services":["a"],"wait":"1ms"}}"#);
    assert_eq!(server.post(body).await, (StatusCode::NOT_MODIFIED, String::new()));
    let elapsed = start.elapsed();
    assert!((Duration::from_millis(950)..LIMIT).contains(&elapsed), "1s at least: {elapsed:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_the_file_reaches_held_polls_within_a_second() {
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let other = server.state("q", 0, &["b"]).await.version;
    let (poll, unconcerned) = (server.hold("p", version, &["a"]).await, server.hold("q", other, &["b"]).await);
    let start = Instant::now();
    server.write("services: {a: {retries: 7}, b: {endpoints: ['127.0.0.1:1']}}");
    let state = state(poll).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(state.version > version);
    assert_eq!(state.services["a"].retries, Some(7));
    assert!(!unconcerned.is_finished());
    assert_eq!(server.store.counts().polls_held, 1);
    server.stop().await;
    assert_eq!(unconcerned.await.unwrap().status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn a_newer_poll_ends_the_older_with_304() {
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let older = server.hold("p", version, &["a"]).await;
    let newer = server.poll("p", version, &["a"]);
    let older = timeout(LIMIT, older).await.unwrap().unwrap();
    assert_eq!(older.status(), StatusCode::NOT_MODIFIED);
    server.until(|server| server.store.counts().polls_held == 1).await;
    assert!(!newer.is_finished());
    server.stop().await;
}

#[tokio::test]
async fn a_restart_reaches_proxies_whatever_its_clock_says() {
    let first = Server::start_at(TWO, clock_at(1_000_000)).await;
    let old = first.state("p", 0, &["a", "b"]).await.version;
    first.stop().await;
    for millis in [2_000_000, 1_000_000, 10] {
        let second = Server::start_at("services: {a: {retries: 9}}", clock_at(millis)).await;
        let before = if millis == 1_000_000 { old - 1 } else { old };
        let state = second.state("p", before, &["a", "b"]).await;
        assert!(state.version > before, "clock at {millis}");
        assert_eq!(state.services.keys().collect::<Vec<_>>(), ["a"]);
        let poll = second.hold("p", state.version, &["a", "b"]).await;
        second.write("services: {}");
        let next = common::state(poll).await;
        assert!(next.version > state.version && next.services.is_empty());
        second.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_forgotten() {
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let poll = server.hold("p", version, &["a"]).await;
    poll.abort();
    server.until(|server| server.store.counts().polls_held == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn garbage_is_refused_with_a_reason() {
    let server = Server::start(TWO).await;
    for (body, reason) in [
        ("", ".: EOF"),
        ("[1", ""),
        ("{\"version\":1}", "missing field `proxy`"),
        (r#"{"proxy":"p","version":-1}"#, "version: "),
        (r#"{"proxy":"p","version":9007199254740993}"#, "version: 9007199254740993 is not allowed, only 0 to"),
        (r#"{"proxy":"","version":0}"#, "proxy: \"\" is not allowed"),
        (r#"{"proxy":"p","version":0,"services":["a b"]}"#, "services[0]: \"a b\" is not allowed"),
        (r#"{"proxy":"p","version":0,"wait":"soon"}"#, "wait: \"soon\" is not allowed"),
        (r#"{"proxy":"p","version":0,"nonsense":1}"#, "nonsense: unknown field"),
        (r#"{"proxy":"p","version":0} x"#, "trailing"),
        ("\u{0}\u{fffd}", ""),
    ] {
        let (status, text) = server.post(body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
        let error: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
        assert!(error["error"].contains(reason), "{body}: {text}");
    }
    assert_eq!(server.post(vec![0xff; 100]).await.0, StatusCode::BAD_REQUEST);
    let (status, text) = server.post(vec![b' '; (64 << 10) + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert_eq!(server.post(format!(r#"{{"proxy":"p","version":0}}{}"#, " ".repeat(60 << 10))).await.0, StatusCode::OK);
    assert_eq!(server.get("/v1/sync").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.get("/nowhere").await.0, StatusCode::NOT_FOUND);
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metric(&metrics, r#"bloc_sync_answers_total{answer="refused"}"#), 13.0);
    server.stop().await;
}

#[tokio::test]
async fn bytes_that_are_no_http_do_no_harm() {
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
async fn operators_can_look() {
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let poll = server.hold("p", version, &["a"]).await;
    let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let overview = json(server.get("/v1/services").await.1);
    assert_eq!(overview["version"], version);
    assert_eq!(overview["services"]["b"]["spec"]["endpoints"][0], "127.0.0.1:1");
    assert_eq!((&overview["proxies"][0]["proxy"], &overview["proxies"][0]["version"]), (&"p".into(), &version.into()));
    assert_eq!(overview["proxies"][0]["connected"], true);
    assert_eq!(overview["refusal"], serde_json::Value::Null);
    let service = json(server.get("/v1/services/a").await.1);
    assert_eq!((&service["name"], service["proxies"].as_array().map(Vec::len)), (&"a".into(), Some(1)));
    assert_eq!(json(server.get("/v1/services/b").await.1)["proxies"].as_array().map(Vec::len), Some(0));
    assert_eq!(server.get("/v1/services/none").await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/readyz").await.0, StatusCode::OK);
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metric(&metrics, "bloc_polls_held"), 1.0);
    assert_eq!(metric(&metrics, "bloc_proxies_connected"), 1.0);
    assert_eq!(metric(&metrics, "bloc_config_services"), 2.0);
    assert_eq!(metric(&metrics, "bloc_config_version"), version as f64);
    assert_eq!(metric(&metrics, "bloc_config_accepted_total"), 1.0);
    assert_eq!(metric(&metrics, r#"bloc_sync_answers_total{answer="changed"}"#), 1.0);
    server.stop().await;
    assert_eq!(poll.await.unwrap().status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_held_polls_get_a_change() {
    rlimit::increase_nofile_limit(4_096).unwrap();
    let server = Server::start(TWO).await;
    let version = server.state("p", 0, &["a"]).await.version;
    let polls: Vec<_> = (0..1_000).map(|i| server.poll(&format!("p{i}"), version, &["a"])).collect();
    server.until(|server| server.store.counts().polls_held == 1_000).await;
    let start = Instant::now();
    server.write("services: {a: {retries: 1}, b: {endpoints: ['127.0.0.1:1']}}");
    for poll in polls {
        assert_eq!(state(poll).await.services["a"].retries, Some(1));
    }
    println!("1,000 polls were answered {:?} after the file was written", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(server.store.counts().polls_held, 0);
    server.stop().await;
}
