//! Bodies of requests that are bounced or held.

use crate::support::{App, Connection, PATIENCE, Place, Pod, eventually, inbound, request, send};
use bloc_mesh::envoy::{Envoy, SERVICE};
use hyper::Request;
use hyper::http::request::Builder;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

const KIB: usize = 1 << 10;

fn body(size: usize) -> &'static str {
    "x".repeat(size).leak()
}

fn post(path: &str) -> Builder {
    Request::post(path).header("host", SERVICE).header("x-bloc-bid", bloc_policy::wire::bid::ANY)
}

/// A pod at its capacity.
async fn full(place: &Place) -> (Pod, tokio::task::JoinHandle<()>) {
    let pod = Pod::with_capacity(place, "pod", 1).await;
    let to = pod.address;
    let inside = tokio::spawn(async move { drop(send(to, request("/hold"), "").await) });
    eventually("one inside", async || (pod.app.at_once() == 1).then_some(())).await;
    (pod, inside)
}

/// What a server's sidecar answers to `bytes` on a connection of its own.
async fn says(to: SocketAddr, bytes: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    for bytes in bytes {
        stream.write_all(bytes).await.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
    let mut buffer = vec![0; 64 * KIB];
    let count = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// Stock Envoy's own early answers close the connection. Bounces do so only if the body never
/// arrives completely.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounced_http_1_request_keeps_its_connection() {
    let place = Place::new();
    let (pod, inside) = full(&place).await;
    for size in [1, KIB, 16 * KIB, 100 * KIB, 1024 * KIB] {
        let mut connection = Connection::open(pod.address).await;
        for n in 0..10 {
            let answer = connection.send(post("/x"), body(size)).await;
            let answer = answer.unwrap_or_else(|error| panic!("{size} bytes, request {n}: {error}"));
            assert_eq!((answer.status.as_u16(), answer.header("x-bloc-reject")), (429, Some("capacity")));
            assert_eq!(answer.header("connection"), None);
        }
    }
    let head = "POST /x HTTP/1.1\r\nhost: backend\r\nx-bloc-bid: any\r\ncontent-length: 10\r\n\r\n".as_bytes();
    let closes = |said: &str| said.contains("connection: close");
    let said = says(pod.address, &[head, b"12345", b"67890"]).await;
    assert!(said.starts_with("HTTP/1.1 429") && !closes(&said), "a body in pieces: {said}");
    let began = Instant::now();
    let said = says(pod.address, &[head, b"12345"]).await;
    assert!(said.starts_with("HTTP/1.1 429") && closes(&said), "a body that never arrives completely: {said}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!((pod.app.seen("/x").len(), pod.metric("in_flight").await), (0, 1));
    pod.app.release();
    inside.await.unwrap();
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    let served = send(pod.address, post("/x"), body(100 * KIB)).await.unwrap();
    assert_eq!(served.body.len(), 100 * KIB);
}

/// Envoy would answer 413 if it had to buffer the body.
#[tokio::test(flavor = "multi_thread")]
async fn holds_or_bounces_a_body_beyond_envoys_buffer_without_a_413() {
    let place = Place::new();
    let spec = json!({"concurrency": 1, "hold": true, "capacity": {"estimator": "static", "limit": 2}});
    let pod = pod_with(&place, &spec, |listener| {
        listener["per_connection_buffer_limit_bytes"] = json!(32 * KIB);
    })
    .await;
    let address = pod.address;
    let inside = tokio::spawn(send(address, request("/hold"), ""));
    eventually("one inside", async || (pod.app.at_once() == 1).then_some(())).await;
    let held = tokio::spawn(send(address, post("/held"), body(500 * KIB)));
    eventually("one held", async || (pod.metric("in_flight").await == 2).then_some(())).await;
    let bounced = send(address, post("/x"), body(500 * KIB)).await.unwrap();
    assert_eq!((bounced.status.as_u16(), bounced.header("x-bloc-reject")), (429, Some("capacity")));
    pod.app.release();
    assert_eq!(inside.await.unwrap().unwrap().status.as_u16(), 200);
    assert_eq!(held.await.unwrap().unwrap().body.len(), 500 * KIB);
}

/// A pod whose listener is changed by `change`.
async fn pod_with(place: &Place, spec: &Value, change: impl FnOnce(&mut Value)) -> Pod {
    let app = App::start("pod").await;
    let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
    let mut bootstrap = inbound(place, app.address, &configuration, None);
    change(&mut bootstrap["static_resources"]["listeners"][0]);
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 1).await.unwrap();
    let address = sidecar.listener("inbound").unwrap();
    Pod { app, sidecar, address }
}

/// A pod at its capacity whose connection manager is changed by `change`.
async fn full_with(place: &Place, change: impl FnOnce(&mut Value)) -> (Pod, tokio::task::JoinHandle<()>) {
    let pod = pod_with(place, &json!({"capacity": {"estimator": "static", "limit": 1}}), |listener| {
        change(&mut listener["filter_chains"][0]["filters"][0]["typed_config"]);
    })
    .await;
    let address = pod.address;
    let inside = tokio::spawn(async move { drop(send(address, request("/hold"), "").await) });
    eventually("one inside", async || (pod.app.at_once() == 1).then_some(())).await;
    (pod, inside)
}

/// As behind an external authorization or a rate limit, part of the body has arrived when our
/// filter sees the headers.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounced_request_that_another_filter_delayed_keeps_its_connection() {
    let place = Place::new();
    let (pod, inside) = full_with(&place, |manager| {
        let fault = json!({
            "name": "fault",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
                "delay": {"fixed_delay": "0.05s", "percentage": {"numerator": 100}},
            },
        });
        manager["http_filters"].as_array_mut().unwrap().insert(0, fault);
    })
    .await;
    let mut connection = Connection::open(pod.address).await;
    for _ in 0..2 {
        let answer = connection.send(post("/x"), body(KIB)).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-bloc-reject")), (429, Some("capacity")));
    }
    pod.app.release();
    inside.await.unwrap();
}

/// With `proxy_100_continue` the client sends its body only after an answer.
#[tokio::test(flavor = "multi_thread")]
async fn bounces_a_request_with_expect_100_continue_before_its_body() {
    let place = Place::new();
    let (pod, inside) = full_with(&place, |manager| manager["proxy_100_continue"] = json!(true)).await;
    let head =
        "POST /x HTTP/1.1\r\nhost: backend\r\nx-bloc-bid: any\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n";
    let said = says(pod.address, &[head.as_bytes()]).await;
    assert!(said.starts_with("HTTP/1.1 429"), "{said}");
    pod.app.release();
    inside.await.unwrap();
}
