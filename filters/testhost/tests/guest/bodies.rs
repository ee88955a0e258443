//! Bodies: a request whose body cannot be repeated does not bid, one whose body may be too large is
//! not held, and a rejected HTTP/1.1 request is answered once its body has arrived.

use crate::support::{SERVICE, admitted, caller, inbound, metric, process};
use bloc_testhost::{Flow, Headers, Process, Response, Root, Stream};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: usize = 1 << 20;
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":path", "/"), (":authority", SERVICE), ("x-bloc-bid", bloc_policy::wire::bid::ANY)];

/// The headers of a request have come, but not its body.
fn post(root: &Root, version: &str, extra: &[(&str, &str)]) -> (Stream, Flow) {
    let mut stream = root.stream().with_property("request\0protocol", version);
    let flow = stream.request_headers([&POST, extra].concat().as_slice(), false);
    (stream, flow)
}

fn sized(root: &Root, version: &str, size: usize) -> (Stream, Flow) {
    post(root, version, &[("content-length", &size.to_string())])
}

fn full(process: &Process) -> (Root, Stream) {
    let root = inbound(process, &json!({"capacity": {"estimator": "static", "limit": 1}}));
    let inside = admitted(&root);
    (root, inside)
}

fn is_rejected(stream: &Stream) -> bool {
    stream.reply().is_some_and(|reply| reply.headers.text("x-bloc-reject").is_some())
}

#[test]
fn answers_a_rejected_http_1_request_once_its_body_has_arrived() {
    let process = process(1);
    let (root, _inside) = full(&process);
    let (mut stream, flow) = sized(&root, "HTTP/1.1", 3000);
    assert!(matches!(flow, Flow::Pause), "{flow:?}");
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1), "it is not counted");
    stream.request_body(&[0; 3000], true);
    process.deliver();
    assert!(is_rejected(&stream), "its body has come with the headers");
    stream.done();

    let (mut late, _) = sized(&root, "HTTP/1.1", 3000);
    late.request_body(&[0; 2999], false);
    process.deliver();
    process.advance(Duration::from_millis(100));
    assert!(late.reply().is_none(), "a byte is missing");
    late.request_body(&[0; 1], true);
    process.advance(Duration::from_millis(1));
    assert!(is_rejected(&late));
    late.done();
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1));
    process.advance(Duration::from_secs(3));
    assert_eq!(metric(&process, "inbound", "rejected_capacity"), Some(2), "each once");
}

/// For example a filter for external authorization or for rate limits.
#[test]
fn body_bytes_buffered_by_another_filter_count_as_arrived() {
    let process = process(1);
    let (root, _inside) = full(&process);
    let kept = |ahead| {
        let request = [&POST[..], &[("content-length", "3000")]].concat();
        let mut stream = root.stream().with_property("request\0protocol", "HTTP/1.1").with_body_ahead(ahead);
        assert!(matches!(stream.request_headers(request.as_slice(), false), Flow::Pause));
        process.deliver();
        stream
    };
    assert!(is_rejected(&kept(3000)), "all of it has come");
    let mut half = kept(1500);
    assert!(!is_rejected(&half));
    half.request_body(&[0; 1500], true);
    process.advance(Duration::from_millis(1));
    assert!(is_rejected(&half));
}

#[test]
fn answers_a_rejected_request_with_expect_100_continue_at_once() {
    let process = process(1);
    let (root, _inside) = full(&process);
    let (_stream, flow) = post(&root, "HTTP/1.1", &[("content-length", "10"), ("expect", "100-continue")]);
    assert_eq!(flow.reply().map(|reply| reply.status()), Some(429));
}

#[test]
fn waits_at_most_a_second_for_the_body_of_a_rejected_request() {
    let process = process(2);
    let (root, _inside) = full(&process);
    let (mut slow, _) = sized(&root, "HTTP/1.1", 3000);
    let (gone, _) = sized(&root, "HTTP/1.1", 3000);
    slow.request_body(&[0; 1000], false);
    process.advance(Duration::from_millis(900));
    assert!(slow.reply().is_none());
    gone.done();
    process.advance(Duration::from_millis(102));
    assert!(is_rejected(&slow));
    slow.done();
    process.advance(Duration::from_secs(3));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1));
}

#[test]
fn does_not_answer_a_rejected_request_that_envoy_has_answered() {
    let process = process(9);
    let (root, _inside) = full(&process);
    let (mut stream, _) = sized(&root, "HTTP/1.1", 3000);
    assert!(stream.response_headers(&Response::new(504, &[], b"").headers, true).continues());
    stream.request_body(&[0; 3000], true);
    process.deliver();
    process.advance(Duration::from_secs(2));
    assert!(stream.reply().is_none());
    stream.done();
    inside_counts(&process, 1);
}

#[test]
fn a_tick_finds_an_arrived_body_when_the_message_is_lost() {
    let process = process(8);
    let (root, _inside) = full(&process);
    let (mut stream, _) = sized(&root, "HTTP/1.1", 3000);
    process.lose_wakeups();
    stream.request_body(&[0; 3000], true);
    process.advance(Duration::from_millis(250));
    assert!(is_rejected(&stream));
}

#[test]
fn rejects_at_once_where_waiting_for_the_body_gains_nothing() {
    let process = process(3);
    let (root, _inside) = full(&process);
    let at_once = |flow: Flow| flow.reply().map(|reply| reply.status()) == Some(429);
    assert!(at_once(sized(&root, "HTTP/2", 3000).1), "HTTP/2 resets the stream alone");
    assert!(at_once(sized(&root, "HTTP/1.1", LIMIT + 1).1), "more than is buffered");
    assert!(!at_once(sized(&root, "HTTP/1.1", LIMIT).1));
    assert!(at_once(post(&root, "HTTP/1.1", &[("transfer-encoding", "chunked")]).1), "it may be too large");
    let mut whole = root.stream().with_property("request\0protocol", "HTTP/1.1");
    assert!(at_once(whole.request_headers(&POST[..], true)), "there is no body");
}

/// With HTTP/2 a held body would fill the flow-control window that admitted requests need.
#[test]
fn a_request_with_a_large_body_is_not_held_but_counted() {
    let process = process(5);
    let root = inbound(&process, &json!({"concurrency": 1, "hold": true}));
    let inside = admitted(&root);
    let (small, flow) = sized(&root, "HTTP/2", 10);
    assert!(matches!(flow, Flow::Pause), "{flow:?}");
    for large in [|root: &Root| sized(root, "HTTP/2", LIMIT + 1), |root: &Root| post(root, "HTTP/1.1", &[])] {
        let (mut large, flow) = large(&root);
        assert!(flow.continues(), "{flow:?}");
        assert!(large.request_body(&vec![0; LIMIT], false).continues());
        inside_counts(&process, 3);
        large.done();
        assert!(!small.is_resumed(), "one is inside still");
    }
    inside.done();
    assert!(small.is_resumed());
    small.done();
    drop(admitted(&root));
    inside_counts(&process, 0);
}

fn inside_counts(process: &Process, count: u64) {
    assert_eq!(metric(process, "inbound", "in_flight"), Some(count));
}

#[test]
fn admits_a_held_call_when_its_body_exceeds_the_limit() {
    let process = process(6);
    let root = inbound(&process, &json!({"concurrency": 1, "hold": true}));
    let inside = admitted(&root);
    let [mut one, mut two, three] = [0, 1, 2].map(|_| {
        let (stream, flow) = post(&root, "HTTP/2", &[("content-type", "application/grpc")]);
        assert!(matches!(flow, Flow::Pause), "{flow:?}");
        stream
    });
    one.request_body(&vec![0; LIMIT / 2], false);
    two.request_body(&vec![0; LIMIT], false);
    process.advance(Duration::from_secs(1));
    // The host counts the headers, too.
    assert!(two.is_resumed() && !one.is_resumed() && !three.is_resumed());
    inside.done();
    assert!(!one.is_resumed(), "the second has its place");
    two.done();
    assert!(one.is_resumed() && !three.is_resumed());
    one.done();
    assert!(three.is_resumed());
    three.done();
    drop(admitted(&root));
    inside_counts(&process, 0);
    process.advance(Duration::from_secs(3));
    assert_eq!(metric(&process, "inbound", "rescued"), Some(0));
}

/// The bid that the server receives.
fn bid(extra: &[(&str, &str)], spec: &Value) -> String {
    let process = process(7);
    // With a single server there is no other to bid at.
    let hosts = ["10.0.0.1:80", "10.0.0.2:80"];
    let mut spec = spec.clone();
    spec["endpoints"] = json!(hosts);
    let caller = caller(&process, &spec, &hosts);
    let mut bids = Vec::new();
    let request = |extra: &[(&str, &str)]| {
        Headers::new(&[&[(":method", "POST"), (":path", "/"), (":authority", SERVICE)], extra].concat())
    };
    let load = [("x-bloc-load", "chip=1, queue=9, service=100, execution=10")];
    // There is no bid before the eighth report.
    let plain = std::iter::repeat_with(|| request(&[])).take(9);
    for request in plain.chain([request(extra)]) {
        caller.send(request, |_, sent| {
            process.advance(Duration::from_millis(100));
            bids.push(sent.text("x-bloc-bid").unwrap_or_default());
            Some(Response::new(200, &load, b""))
        });
    }
    assert_ne!(bids[8], "any", "without a body it bids");
    bids.remove(9)
}

#[test]
fn only_requests_with_a_repeatable_body_bid() {
    let spec = json!({"routing": "bid", "endpoints": ["10.0.0.1:80"]});
    let bids = |extra: &[(&str, &str)]| bid(extra, &spec) != "any";
    assert!(bids(&[("content-length", "5")]));
    assert!(bids(&[("content-length", "1048576")]));
    assert!(!bids(&[("content-length", "1048577")]));
    assert!(!bids(&[("transfer-encoding", "chunked")]));
    assert!(bids(&[("content-type", "application/grpc")]));
    assert!(!bids(&[("content-type", "application/grpc-web")]));
    let small = json!({"routing": "bid", "endpoints": ["10.0.0.1:80"], "bodyLimit": 4096});
    assert_eq!(bid(&[("content-length", "4097")], &small), "any");
    assert_ne!(bid(&[("content-length", "4096")], &small), "any");
}
