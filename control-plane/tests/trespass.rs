//! Hostile callers: whatever they send, others are served.
#![allow(missing_docs, reason = "tests")]

mod common;

use common::{LIMIT, Server};
use reqwest::StatusCode;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ONE: &str = "services: {a: {}}";

async fn connect(server: &Server) -> TcpStream {
    let address: SocketAddr = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// Another proxy gets the state, its poll is held, and a change of the file ends the poll. `round`
/// is the new value of `retries`; it must be new each time, and not the default.
async fn others_are_served(server: &Server, round: u8) {
    let version = server.state("honest", "", &["a"]).await.version;
    let poll = server.hold("honest", &version, &["a"]).await;
    server.write(&format!("services: {{a: {{retries: {round}}}}}"));
    assert_eq!(common::state(poll).await.services["a"].retries, Some(i64::from(round)));
    assert_eq!(server.get("/healthz").await.0, StatusCode::OK);
}

/// The rest of a response, until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("the connection ends");
    String::from_utf8_lossy(&rest).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_and_bodies_do_not_delay_other_callers() {
    let server = Server::start(ONE).await;
    let mut slow = Vec::new();
    for i in 0..200 {
        let mut stream = connect(&server).await;
        let begin: &[u8] = match i % 3 {
            0 => b"POST /v1/sync HTTP/1.1\r\nhost: x\r\nx-slow: ",
            1 => b"POST /v1/sync HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{",
            _ => b"POST /v1/sync HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
        };
        stream.write_all(begin).await.unwrap();
        slow.push(stream);
    }
    others_are_served(&server, 1).await;
    // A byte now and then does not help: the time limit is for the whole body.
    let mut trickle = slow.swap_remove(1);
    let answer = timeout(LIMIT, async {
        let mut answer = [0; 64];
        loop {
            let _ = trickle.write_all(b" ").await;
            if let Ok(Ok(n)) = timeout(Duration::from_millis(200), trickle.read(&mut answer)).await {
                return String::from_utf8_lossy(&answer[..n]).into_owned();
            }
        }
    });
    let answer = answer.await.expect("an end");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer:?}");
    others_are_served(&server, 2).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_huge_or_deeply_nested_bodies_and_serves_the_others() {
    let server = Server::start(ONE).await;
    // With and without a content-length: refused with the first byte beyond 96 KiB.
    let too_much = " ".repeat(0x18001);
    let chunks = format!("18000\r\n{}\r\n1\r\n \r\n", &too_much[1..]);
    for (head, body) in [("content-length: 1000000000000", &too_much), ("transfer-encoding: chunked", &chunks)] {
        let mut stream = connect(&server).await;
        let request = format!("POST /v1/sync HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest(stream).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{head}: {answer:?}");
    }
    let nested = |open: &str, close: &str| {
        let depth = 30_000 / open.len();
        format!(r#"{{"proxy":"p","services":{}{}}}"#, open.repeat(depth), close.repeat(depth))
    };
    for body in [nested("[", "]"), nested(r#"{"a":"#, "}"), "[".repeat(60_000), r#"{"proxy":"#.repeat(6_000)] {
        assert_eq!(server.post(body).await.0, StatusCode::BAD_REQUEST);
    }
    for (length, status) in [(6_000, StatusCode::NOT_FOUND), (30_000, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)] {
        assert_eq!(server.get(&format!("/{}", "a".repeat(length))).await.0, status, "{length}");
    }
    for path in ["//v1//sync", "/v1/sync/../../etc/passwd", "/v1/status/services/%00%ff%2e%2e%2f", "/v1/sync?x=%00"] {
        let status = server.get(path).await.0;
        assert!(status.is_client_error(), "{path}: {status}");
    }
    others_are_served(&server, 6).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_polls_and_connections_keeps_no_other_proxy_out() {
    rlimit::increase_nofile_limit(4_096).unwrap();
    let server = Server::start(ONE).await;
    // Many silent connections, many ids, and one id with many polls, each of which ends the one
    // before.
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(connect(&server).await);
    }
    let flood: Vec<_> = (0..500).map(|i| server.poll(&format!("made-up-{i}"), "0000000000000000", &["a"])).collect();
    let version = server.state("one", "", &["a"]).await.version;
    let again: Vec<_> = (0..200).map(|_| server.poll("one", &version, &["a"])).collect();
    others_are_served(&server, 4).await;
    for poll in flood.into_iter().chain(again) {
        poll.abort();
    }
    others_are_served(&server, 5).await;
    server.stop().await;
}
