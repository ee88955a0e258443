//! `x-bloc-why`: who is told why a request was rejected.

use crate::support::{GET, admitted, caller, inbound, process, refused, server};
use bloc_testhost::{Flow, Outcome, Response, Root};
use serde_json::{Value, json};
use std::time::Duration;

const FULL: &str = "10.0.0.1:80";
const WHY: &str = "x-bloc-why";

/// A server whose only place is taken.
fn full(debug: bool) -> Value {
    json!({"capacity": {"estimator": "static", "limit": 1}, "debugHeaders": debug})
}

/// A request that the only server rejects, and that is not retried; each side has the switch or
/// not.
fn rejected(caller_tells: bool, server_tells: bool) -> Outcome {
    let (one, sender) = (process(1), process(2));
    let server = server(&one, &full(server_tells));
    let _held = admitted(server.root());
    let spec = json!({"endpoints": [FULL], "retries": 1, "debugHeaders": caller_tells});
    let caller = caller(&sender, &spec, &[FULL]);
    caller.send(GET, |_, request| {
        sender.advance(Duration::from_micros(1_500));
        Some(server.handle(request, |_| unreachable!("it is full")))
    })
}

#[test]
fn a_caller_with_debug_headers_says_why_its_attempt_was_rejected() {
    for server_tells in [false, true] {
        let outcome = rejected(true, server_tells);
        assert_eq!(outcome.response.status(), 429);
        assert_eq!(outcome.response.headers.borrow().names("x-bloc"), [WHY]);
        let why = outcome.response.headers.text(WHY).unwrap();
        assert_eq!(why, format!("capacity;queue=1;limit=1;attempt=1;server=\"{FULL}\";took=1.5"));
    }
}

#[test]
fn a_caller_without_debug_headers_gives_no_reason() {
    for server_tells in [false, true] {
        let outcome = rejected(false, server_tells);
        assert_eq!(outcome.response.status(), 429);
        assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
    }
}

#[test]
fn a_successful_retry_carries_no_rejection_reason() {
    let sender = process(3);
    let servers = [FULL, "10.0.0.2:80"];
    let caller = caller(&sender, &json!({"endpoints": servers, "debugHeaders": true}), &servers);
    let mut rejects = true;
    let outcome = caller.send(GET, |_, _| {
        let headers: &[_] = if rejects { &[("x-bloc-load", "chip=0"), ("x-bloc-reject", "capacity")] } else { &[] };
        let status = if rejects { 429 } else { 200 };
        rejects = false;
        Some(Response::new(status, headers, b""))
    });
    assert_eq!((outcome.response.status(), outcome.tried.len()), (200, 2));
    assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
}

/// A request from a caller without these filters.
fn why_without_filters(root: &Root, extra: &[(&str, &str)]) -> Option<String> {
    let mut stream = root.stream();
    match stream.request_headers([&GET, extra].concat().as_slice(), true) {
        Flow::Reply(reply) => {
            assert_eq!(reply.status(), 429);
            reply.headers.text(WHY)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_tells_the_reason_only_to_callers_without_our_filters() {
    for tells in [false, true] {
        let process = process(4);
        let root = inbound(&process, &full(tells));
        let _held = admitted(&root);
        assert_eq!(why_without_filters(&root, &[]).as_deref(), tells.then_some("capacity;queue=1;limit=1"));
        assert_eq!(refused(&root, &[]).headers.text(WHY), None, "a caller with our filters adds the reason itself");
    }
}

#[test]
fn a_deadline_rejection_names_the_deadline_and_the_expected_time() {
    let process = process(5);
    let root = inbound(&process, &json!({"concurrency": 1, "hold": false, "debugHeaders": true}));
    // The server learns that a request takes 100 ms.
    for _ in 0..200 {
        let mut stream = admitted(&root);
        process.advance(Duration::from_millis(100));
        assert!(stream.response_headers(&Response::new(200, &[], b"").headers, true).continues());
        stream.done();
    }
    let _queue = [admitted(&root), admitted(&root)];
    let why = why_without_filters(&root, &[("x-envoy-expected-rq-timeout-ms", "250")]);
    assert_eq!(why.as_deref(), Some("deadline;queue=2;expected=300;deadline=250"));
}

#[test]
fn an_slo_refusal_names_the_expected_time_only_with_debug_headers() {
    for tells in [false, true] {
        let sender = process(6);
        let spec = json!({"routing": "mu", "slo": "1s", "endpoints": [FULL], "debugHeaders": tells});
        let caller = caller(&sender, &spec, &[FULL]);
        let ask = || {
            caller.send(GET, |_, _| Some(Response::new(200, &[("x-bloc-load", "chip=1, queue=14, service=10")], b"")))
        };
        assert_eq!(ask().response.status(), 200);
        let outcome = ask();
        assert_eq!(outcome.response.status(), 503);
        assert_eq!(outcome.response.headers.text("retry-after").as_deref(), Some("1"), "0.5 s, rounded up");
        assert_eq!(outcome.response.headers.text(WHY).as_deref(), tells.then_some("slo;expected=1500;slo=1000"));
    }
}
