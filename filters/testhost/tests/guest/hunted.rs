//! Bugs that a search in the handling of bodies and idle streams has found, one test each.

use crate::support::{GET, SERVICE, admitted, inbound, metric, parameters, process, worker};
use bloc_testhost::{Flow, Process, Response, Root, Stream};
use serde_json::json;
use std::time::Duration;

const POST: [(&str, &str); 5] = [
    (":method", "POST"),
    (":path", "/"),
    (":authority", SERVICE),
    ("x-bloc-bid", bloc_policy::wire::bid::ANY),
    ("content-length", "3000"),
];

fn slow(root: &Root) -> Stream {
    let mut stream = root.stream().with_property("request\0protocol", "HTTP/1.1");
    let flow = stream.request_headers(&POST[..], false);
    assert!(matches!(flow, Flow::Pause), "{flow:?}");
    stream
}

fn streaming(root: &Root) -> Stream {
    let mut stream = root.stream();
    assert!(stream.request_headers(GET, false).continues());
    assert!(stream.response_headers([(":status", "200")], false).continues());
    stream
}

fn properties(root: &Root) -> u64 {
    root.take_cost().host_calls.get("proxy_get_property").copied().unwrap_or_default()
}

/// The number of properties read within the next second.
fn in_a_second(process: &Process, root: &Root) -> u64 {
    properties(root);
    process.advance(Duration::from_secs(1));
    properties(root)
}

/// `LOOKS_PER_SECOND` is 4,000, with two properties each.
#[test]
fn a_slow_body_does_not_cause_constant_checks_of_long_streams() {
    let process = process(1);
    let root = inbound(&process, &json!({"capacity": {"estimator": "static", "limit": 1001}}));
    let _streams: Vec<Stream> = (0..1000).map(|_| streaming(&root)).collect();
    process.advance(Duration::from_secs(15));
    let _inside: Vec<Stream> = (0..1001).map(|_| admitted(&root)).collect();
    let before = in_a_second(&process, &root);
    let _slow = slow(&root);
    let with = in_a_second(&process, &root);
    println!("{before} in a second before, {with} with one slow body");
    assert!(with < 20_000, "{before} in a second before, {with} with one slow body");
}

/// 200 slow uploads, which come at the same time and are bounced.
#[test]
fn many_slow_bodies_are_not_all_rechecked_for_each_message() {
    let process = process(2);
    let root = inbound(&process, &json!({"capacity": {"estimator": "static", "limit": 1}}));
    let _inside = admitted(&root);
    properties(&root);
    let slow: Vec<Stream> = (0..200).map(|_| slow(&root)).collect();
    let came = properties(&root);
    process.deliver();
    let messages = properties(&root);
    process.advance(Duration::from_secs(1));
    let ticks = properties(&root);
    println!("{came} when they came, {messages} by messages, {ticks} in the second after");
    drop(slow);
    assert!(messages <= 2 * 200, "{came} when they came, {messages} by messages, {ticks} in the second after");
}

/// 200 held calls, and a slow upload to another service of the same thread.
#[test]
fn a_slow_body_does_not_cause_constant_checks_of_held_calls() {
    let process = process(5);
    let root =
        inbound(&process, &json!({"concurrency": 1, "hold": true, "capacity": {"estimator": "static", "limit": 201}}));
    let _inside = admitted(&root);
    let _held: Vec<Stream> = (0..200)
        .map(|_| {
            let mut stream = root.stream().with_property("request\0protocol", "HTTP/2");
            let call =
                [(":method", "POST"), (":path", "/"), (":authority", SERVICE), ("content-type", "application/grpc")];
            let flow = stream.request_headers(call, false);
            assert!(matches!(flow, Flow::Pause), "{flow:?}");
            stream
        })
        .collect();
    let before = in_a_second(&process, &root);
    let _slow = slow(&root);
    let with = in_a_second(&process, &root);
    assert!(with < 10_000, "{before} in a second before, {with} with one slow body");
}

/// For example because the request timed out.
#[test]
fn a_held_request_that_envoy_has_answered_is_not_answered_again() {
    let process = process(3);
    let root = inbound(&process, &json!({"concurrency": 1, "hold": true, "maxQueueWait": "1s"}));
    let inside = admitted(&root);
    let held = |_| {
        let mut stream = root.stream();
        assert!(matches!(stream.request_headers(GET, true), Flow::Pause));
        stream
    };
    let [mut one, two] = [0, 1].map(held);
    assert!(one.response_headers(&Response::new(504, &[], b"").headers, true).continues());
    inside.done();
    println!("resumed {} {}", one.is_resumed(), two.is_resumed());
    process.advance(Duration::from_secs(3));
    let (resumed, reply) = (one.is_resumed(), one.reply().map(|reply| reply.status()));
    one.done();
    two.done();
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
    assert_eq!((resumed, reply), (false, None));
}

/// From then on its worker must give signs of life.
#[test]
fn a_stream_that_becomes_active_again_keeps_its_place() {
    let process = process(4);
    let threads = [0, 1].map(|_| worker(&process));
    let spec = json!({"concurrency": 1, "hold": true, "streamIdle": "20s", "maxQueueWait": "60s"});
    let [one, two] = threads.each_ref().map(|vm| vm.root("bloc.inbound", parameters(&spec)).expect("valid"));
    let mut stream = streaming(&one);
    process.advance(Duration::from_secs(60));
    assert_eq!(counted(&process), 0);
    assert!(stream.request_body(b"a message", false).continues());
    for step in 0..400 {
        process.advance(Duration::from_millis(50));
        if counted(&process) == 1 {
            println!("awake after {step}");
            break;
        }
    }
    assert_eq!(counted(&process), 1, "it is active again");
    let mut held = two.stream();
    assert!(matches!(held.request_headers(GET, true), Flow::Pause));
    for step in 0..120 {
        process.advance(Duration::from_millis(50));
        assert!(!held.is_resumed(), "beside the stream, after {} ms", 50 * step);
    }
}

fn counted(process: &Process) -> u64 {
    metric(process, "inbound", "in_flight").unwrap()
}
