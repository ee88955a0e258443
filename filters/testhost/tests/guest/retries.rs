//! A rejection, and the retry elsewhere.

use crate::support::{GET, admitted, caller, metric, process, server};
use bloc_testhost::{Headers, Response};
use serde_json::json;
use std::time::Duration;

const FULL: &str = "10.0.0.1:80";
const FREE: &str = "10.0.0.2:80";

#[test]
fn a_rejected_request_reaches_another_server_and_nobody_sees_a_header_of_ours() {
    let spec = json!({"capacity": {"estimator": "static", "limit": 1}});
    let (full, free, sender) = (process(1), process(2), process(3));
    let (full_server, free_server) = (server(&full, &spec), server(&free, &spec));
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE]}), &[FULL, FREE]);
    let held = admitted(full_server.root());
    let mut rejections = 0;
    for _ in 0..20 {
        let request = Headers::new(&[&GET[..], &[("x-bloc-bid", "1"), ("x-bloc-endpoints", "9.9.9.9:9")]].concat());
        let outcome = caller.send(request, |address, request| {
            let server = if address == FULL { &full_server } else { &free_server };
            Some(server.handle(request, |request| {
                assert_eq!(address, FREE, "the full server's application saw nothing of it");
                assert_eq!(request.borrow().names("x-bloc"), Vec::<String>::new());
                assert_eq!(request.borrow().names("x-envoy-retr"), Vec::<String>::new());
                Response::new(200, &[("x-app", "free")], b"body")
            }))
        });
        assert_eq!(outcome.response.status(), 200);
        assert_eq!(outcome.response.body, b"body");
        assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
        assert_eq!(outcome.tried.last().map(String::as_str), Some(FREE));
        rejections += outcome.tried.len() - 1;
        sender.advance(Duration::from_millis(100));
    }
    assert!(rejections > 0, "the full server was tried at least once");
    sender.advance(Duration::from_secs(1));
    full.advance(Duration::from_secs(1));
    assert_eq!(metric(&sender, "outbound", "rejections"), Some(rejections as u64));
    assert_eq!(metric(&full, "inbound", "rejected_capacity"), Some(rejections as u64));
    assert_eq!(metric(&sender, "outbound", "requests"), Some(20));
    drop(held);
}

#[test]
fn with_every_server_full_the_caller_gets_a_plain_429_after_three_retries() {
    let spec = json!({"capacity": {"estimator": "static", "limit": 1}});
    let (one, sender) = (process(1), process(2));
    let server = server(&one, &spec);
    let _held = admitted(server.root());
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE], "retries": 3}), &[FULL, FREE]);
    let outcome = caller.send(GET, |_, request| Some(server.handle(request, |_| unreachable!("it is full"))));
    assert_eq!((outcome.response.status(), outcome.tried.len()), (429, 4));
    assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
    sender.advance(Duration::from_secs(1));
    assert_eq!(metric(&sender, "outbound", "retries_exhausted"), Some(1));
}

#[test]
fn an_applications_own_429_is_passed_on_and_not_retried() {
    let (one, sender) = (process(1), process(2));
    let server = server(&one, &json!({}));
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE]}), &[FULL, FREE]);
    let lie = [("x-bloc-reject", "capacity")];
    let outcome = caller.send(GET, |_, request| Some(server.handle(request, |_| Response::new(429, &lie, b"my own"))));
    assert_eq!((outcome.response.status(), outcome.tried.len()), (429, 1));
    assert_eq!(outcome.response.body, b"my own");
}

#[test]
fn a_server_without_a_connection_is_left_alone() {
    let (one, sender) = (process(1), process(2));
    let server = server(&one, &json!({}));
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE], "resetInterval": "1h"}), &[FULL, FREE]);
    let mut lost = 0;
    for _ in 0..20 {
        let outcome = caller.send(GET, |address, request| {
            (address == FREE).then(|| server.handle(request, |_| Response::new(200, &[], b"")))
        });
        assert_eq!(outcome.response.status(), 200);
        lost += outcome.tried.len() - 1;
    }
    assert_eq!(lost, 1, "it is tried once and then not within the reset interval");
}

/// What a server says may be any bytes: the attempt counts as answered by somebody who does not speak BLOC.
#[test]
fn a_load_report_of_odd_bytes_is_stripped_and_ignored() {
    let sender = process(5);
    let caller = caller(&sender, &json!({"endpoints": [FULL]}), &[FULL]);
    for value in [b"\xff\xfe".as_slice(), b"chip=1, queue=\x80", b"", b"chip=99999999999999999999", &[b'a'; 70_000]] {
        let outcome = caller.send(GET, |_, _| {
            let response = Response::new(200, &[("x-bloc-reject", "capacity")], b"");
            response.headers.edit(|map| map.add("x-bloc-load", value));
            Some(response)
        });
        assert_eq!(outcome.tried.len(), 1, "no valid report, no rejection");
        assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
    }
    sender.advance(Duration::from_secs(1));
    assert_eq!(metric(&sender, "outbound", "attempts"), Some(5));
}

#[test]
fn failures_are_retried_as_far_as_the_budget_goes_and_rejections_always() {
    let (one, sender) = (process(6), process(7));
    let spec = json!({"endpoints": [FULL, FREE], "retries": 3, "retryBudget": 0.1, "resetInterval": "1ms"});
    let caller = caller(&sender, &spec, &[FULL, FREE]);
    let own: Vec<(&str, &str)> =
        [&GET[..], &[("x-envoy-retry-on", "connect-failure"), ("x-envoy-max-retries", "9")]].concat();
    let mut retries = 0;
    for _ in 0..200 {
        retries += caller.send(own.as_slice(), |_, _| None).tried.len() - 1;
    }
    assert!((20..=20 + 10 + 9).contains(&retries), "{retries} retries of 200 requests");
    let server = server(&one, &json!({"capacity": {"estimator": "static", "limit": 1}}));
    let _held = admitted(server.root());
    let outcome = caller.send(GET, |_, request| Some(server.handle(request, |_| unreachable!("it is full"))));
    assert_eq!((outcome.response.status(), outcome.tried.len()), (429, 4));
}
