//! Rejections, and retries elsewhere.

use crate::support::{GET, SERVICE, admitted, caller, metric, process, server, worker};
use bloc_testhost::{Caller, Headers, Response, RetryPolicy};
use serde_json::{Value, json};
use std::time::Duration;

const FULL: &str = "10.0.0.1:80";
const FREE: &str = "10.0.0.2:80";

#[test]
fn retries_a_rejected_request_elsewhere_and_hides_our_headers() {
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
    assert_eq!(metric(&sender, "outbound", "retries_overflowed"), Some(0), "they were used up");
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
fn avoids_a_server_that_cannot_be_connected_to() {
    let (one, sender) = (process(1), process(2));
    let server = server(&one, &json!({}));
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE], "resetInterval": "1h"}), &[FULL, FREE])
        .with_policy(RetryPolicy { on: "connect-failure", retries: None });
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

/// A server may send any bytes: the attempt counts as answered by a server without our filters.
#[test]
fn strips_and_ignores_an_invalid_load_report() {
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

/// The control plane has removed a server that Envoy still has.
#[test]
fn counts_a_rejection_by_a_server_that_left_the_endpoint_list() {
    let sender = process(8);
    let caller = caller(&sender, &json!({"endpoints": [FULL]}), &[FREE]);
    for reason in ["capacity", "bid"] {
        let outcome = caller.send(GET, |address, _| {
            assert_eq!(address, FREE);
            let said = [("x-bloc-load", "chip=0"), ("x-bloc-reject", reason)];
            Some(Response::new(429, &said, b""))
        });
        assert_eq!(outcome.response.status(), 429);
    }
    sender.advance(Duration::from_secs(1));
    let counted = |name| metric(&sender, "outbound", name).unwrap_or(0);
    assert!(counted("rejections") > 0 && counted("bounces") > 0);
    assert_eq!(counted("attempts"), counted("rejections") + counted("bounces"));
}

#[test]
fn the_retry_budget_limits_failures_but_not_rejections() {
    let (one, sender) = (process(6), process(7));
    let spec = json!({"endpoints": [FULL, FREE], "retries": 3, "retryBudget": 0.1, "resetInterval": "1ms"});
    let caller = caller(&sender, &spec, &[FULL, FREE]);
    let own: Vec<(&str, &str)> =
        [&GET[..], &[("x-envoy-retry-on", "connect-failure"), ("x-envoy-max-retries", "9")]].concat();
    let mut retries = 0;
    for _ in 0..200 {
        let outcome = caller.send(own.as_slice(), |_, _| None);
        assert_eq!(outcome.response.status(), 503);
        retries += outcome.tried.len() - 1;
    }
    assert!((20..=20 + 10).contains(&retries), "{retries} retries of 200 requests");
    let server = server(&one, &json!({"capacity": {"estimator": "static", "limit": 1}}));
    let _held = admitted(server.root());
    let outcome = caller.send(GET, |_, request| Some(server.handle(request, |_| unreachable!("it is full"))));
    assert_eq!((outcome.response.status(), outcome.tried.len()), (429, 4));
    sender.advance(Duration::from_secs(1));
    assert!(metric(&sender, "outbound", "over_budget") > Some(150));
}

const ROUTINGS: [&str; 4] = ["bloc", "bid", "mu", "least_request"];

/// How often an application that always fails is called, and what the client gets; with the
/// filters, or (`routing` none) without.
fn attempts(routing: Option<&str>, policy: RetryPolicy, spec: &Value, own: &[(&str, &str)]) -> usize {
    let (one, sender) = (process(8), process(9));
    let server = server(&one, &json!({}));
    let mut service = json!({"endpoints": [FULL, FREE], "retryBudget": 1, "routing": routing.unwrap_or("bloc")});
    service.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    // Without parameters for the service, a caller leaves its requests alone.
    let service = json!({"services": if routing.is_some() { json!({SERVICE: service}) } else { json!({}) }});
    let hosts = [FULL, FREE];
    let caller = Caller::new(&worker(&sender), SERVICE, &service.to_string(), &hosts).unwrap().with_policy(policy);
    let request: Vec<(&str, &str)> = [&GET[..], own].concat();
    let answer = [("x-app", "down"), ("x-own", "yes")];
    let outcome = caller
        .send(request.as_slice(), |_, request| Some(server.handle(request, |_| Response::new(503, &answer, b"down"))));
    assert_eq!((outcome.response.status(), outcome.response.body.as_slice()), (503, b"down".as_slice()));
    let headers = outcome.response.headers.borrow();
    assert_eq!(headers.text("x-app"), Some("down"));
    assert_eq!(headers.names("x-envoy"), Vec::<String>::new());
    assert_eq!(headers.names("x-bloc"), Vec::<String>::new());
    outcome.tried.len()
}

#[test]
fn an_applications_errors_are_retried_as_often_as_without_the_filters() {
    let policy = |on, retries| RetryPolicy { on, retries };
    let none = policy("", None);
    let istio = policy("connect-failure,5xx", Some(2));
    let says = |number: &'static str| vec![("x-envoy-max-retries", number)];
    let asks = |on: &'static str| vec![("x-envoy-retry-on", on)];
    let names = vec![("x-envoy-retry-on", "retriable-headers"), ("x-envoy-retriable-header-names", "x-app")];
    let cases = [
        ("no policy", none, json!({}), vec![], 1),
        ("Istio's default", istio, json!({"routeRetries": 2}), vec![], 3),
        ("one retry", policy("5xx", Some(1)), json!({}), vec![], 2),
        ("no number", policy("5xx", None), json!({}), vec![], 2),
        ("ten retries", policy("5xx", Some(10)), json!({"routeRetries": 10}), vec![], 11),
        ("no retries of ours", istio, json!({"retries": 0, "routeRetries": 2}), vec![], 3),
        ("the application forbids", istio, json!({"routeRetries": 2}), says("0"), 1),
        ("the application allows", istio, json!({"routeRetries": 2}), says("6"), 7),
        ("it sends an invalid number", istio, json!({"routeRetries": 2}), says("many"), 3),
        ("it asks", none, json!({}), asks("5xx"), 2),
        ("it asks, and says", none, json!({}), [asks("5xx"), says("4")].concat(), 5),
        ("it asks by names of its own", none, json!({}), names, 2),
        ("it names, and does not ask", none, json!({}), vec![("x-envoy-retriable-header-names", "x-app")], 1),
    ];
    for (name, policy, spec, own, expected) in cases {
        assert_eq!(attempts(None, policy, &spec, &own), expected, "{name}, without the filters");
        for routing in ROUTINGS {
            assert_eq!(attempts(Some(routing), policy, &spec, &own), expected, "{name}, {routing}");
        }
    }
    // Without `retries` there are none of ours, except with bids.
    for routing in ["bloc", "mu", "least_request"] {
        let spec = json!({"retries": 0});
        assert_eq!(attempts(Some(routing), istio, &spec, &[]), 3, "nothing of ours, {routing}");
    }
}

#[test]
fn a_timed_out_attempt_gives_a_504_and_a_reset_one_a_503() {
    // The attempt may take 300 ms.
    for (took, status) in [(100, 503), (299, 504), (300, 504)] {
        let sender = process(8);
        let spec = json!({"endpoints": [FULL, FREE], "routeRetries": 1, "retryBudget": 1});
        let policy = RetryPolicy { on: "connect-failure", retries: Some(1) };
        let caller = caller(&sender, &spec, &[FULL, FREE]).with_policy(policy);
        let request: Vec<(&str, &str)> = [&GET[..], &[("x-envoy-expected-rq-timeout-ms", "300")]].concat();
        let outcome = caller.send(request.as_slice(), |_, _| {
            sender.advance(Duration::from_millis(took));
            None
        });
        assert_eq!((outcome.response.status(), outcome.tried.len()), (status, 2), "after {took} ms");
    }
}

#[test]
fn only_an_error_answer_gets_the_ratelimited_mark() {
    let (one, sender) = (process(8), process(9));
    let server = server(&one, &json!({}));
    // A filter before bloc.outbound sees no mark, but the route's retry shows that there was one.
    let policy = RetryPolicy { on: "envoy-ratelimited", retries: Some(1) };
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE]}), &[FULL, FREE]).with_policy(policy);
    let request: Vec<(&str, &str)> = [&GET[..], &[("x-envoy-max-retries", "0")]].concat();
    for (answer, status, tried) in [(200, 200, 1), (304, 304, 1), (500, 503, 1)] {
        let outcome = caller
            .send(request.as_slice(), |_, request| Some(server.handle(request, |_| Response::new(answer, &[], b""))));
        assert_eq!((outcome.response.status(), outcome.tried.len()), (status, tried), "{answer}");
    }
}

#[test]
fn obeys_and_passes_on_an_applications_x_envoy_ratelimited() {
    let (one, sender) = (process(8), process(9));
    let server = server(&one, &json!({}));
    let caller = caller(&sender, &json!({"endpoints": [FULL, FREE]}), &[FULL, FREE])
        .with_policy(RetryPolicy { on: "5xx", retries: Some(1) });
    for expected in [1, 2] {
        let says: &[_] = if expected == 1 { &[("x-envoy-ratelimited", "true")] } else { &[] };
        let outcome =
            caller.send(GET, |_, request| Some(server.handle(request, |_| Response::new(503, says, b"my own"))));
        assert_eq!(outcome.tried.len(), expected);
        let heard = outcome.response.headers.text("x-envoy-ratelimited");
        assert_eq!(heard.as_deref(), says.first().map(|(_, value)| *value));
    }
}

/// Of three servers, one is full, one fails and one does not answer.
#[test]
fn rejections_and_failures_have_separate_retry_limits() {
    const DEAD: &str = "10.0.0.3:80";
    let hosts = [FULL, FREE, DEAD];
    let policy = RetryPolicy { on: "5xx,connect-failure", retries: Some(2) };
    let limit = json!({"capacity": {"estimator": "static", "limit": 1}});
    let mut most = (0, 0);
    for seed in 0..200 {
        let (full, failing, sender) = (process(1), process(2), process(seed));
        let (full_server, failing_server) = (server(&full, &limit), server(&failing, &json!({})));
        let _held = admitted(full_server.root());
        let spec = json!({"endpoints": hosts, "retries": 3, "routeRetries": 2, "retryBudget": 1});
        let caller = caller(&sender, &spec, &hosts).with_policy(policy);
        let (mut rejected, mut failed) = (0, 0);
        let outcome = caller.send(GET, |address, request| match address {
            FULL => {
                rejected += 1;
                Some(full_server.handle(request, |_| unreachable!("it is full")))
            }
            FREE => {
                failed += 1;
                Some(failing_server.handle(request, |_| Response::new(500, &[], b"")))
            }
            _ => {
                failed += 1;
                None
            }
        });
        assert!(failed <= 3 && rejected <= 4, "{failed} failures, {rejected} rejections");
        // The attempts go on until one kind of retries is used up.
        assert!(
            failed == 3 || rejected == 4,
            "{failed} failures, {rejected} rejections: {}",
            outcome.response.status()
        );
        assert_eq!(outcome.response.headers.borrow().names("x-"), Vec::<String>::new());
        most = (most.0.max(failed), most.1.max(rejected));
    }
    assert_eq!(most.0, 3);
}

#[test]
fn a_connection_failure_is_retried_as_often_as_the_route_says() {
    for routing in ROUTINGS {
        let sender = process(10);
        let spec = json!({"endpoints": [FULL, FREE], "routing": routing, "routeRetries": 2, "retryBudget": 1});
        let caller =
            caller(&sender, &spec, &[FULL, FREE]).with_policy(RetryPolicy { on: "connect-failure", retries: Some(2) });
        let outcome = caller.send(GET, |_, _| None);
        assert_eq!((outcome.response.status(), outcome.tried.len()), (503, 3), "{routing}");
    }
}
