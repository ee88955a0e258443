//! Bids: a server that would make the request wait longer than the caller accepts rejects it at
//! once.

use crate::support::{GET, admitted, caller, inbound, metric, process, refused};
use bloc_testhost::{Headers, Process, Response, Root, Stream};
use serde_json::json;
use std::time::Duration;

const WORK: Duration = Duration::from_millis(100);

fn serve(stream: Stream) {
    let mut stream = stream;
    assert!(stream.response_headers(&Response::new(200, &[], b"").headers, true).continues());
    stream.done();
}

fn bid(root: &Root, millis: &str) -> (bloc_testhost::Flow, Stream) {
    let request = Headers::new(&[&GET[..], &[("x-bloc-bid", millis)]].concat());
    let mut stream = root.stream();
    let flow = stream.request_headers(&request, true);
    (flow, stream)
}

/// A server that has learnt that a request takes 100 ms.
fn experienced(process: &Process) -> Root {
    let root = inbound(process, &json!({"routing": "bid", "concurrency": 1, "hold": false}));
    for _ in 0..200 {
        let stream = admitted(&root);
        process.advance(WORK);
        serve(stream);
    }
    root
}

#[test]
fn a_server_with_a_queue_rejects_a_bid_below_its_response_time() {
    let process = process(1);
    let root = experienced(&process);
    let queue = [admitted(&root), admitted(&root), admitted(&root)];
    let reply = refused(&root, &[("x-bloc-bid", "150")]);
    assert_eq!((reply.status(), reply.details.as_str()), (429, "bloc_bid"));
    assert_eq!(reply.headers.text("x-bloc-reject").as_deref(), Some("bid"));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(3), "the rejected one is not counted");

    for generous in ["100000", "no number", "-1"] {
        let (flow, _) = bid(&root, generous);
        assert!(flow.continues(), "{generous}: {flow:?}");
    }
    assert!(admitted(&root).is_paused().eq(&false), "no bid, no limit");
    queue.into_iter().for_each(serve);
    // After traffic ends, the last counts wait for a tick.
    process.advance(Duration::from_secs(5));
    assert_eq!(metric(&process, "inbound", "rejected_bid"), Some(1));
}

/// In a server that is busy with three requests of 100 ms each.
#[test]
fn a_bounce_costs_the_server_eight_host_calls() {
    let process = process(1);
    let root = experienced(&process);
    let _queue = [admitted(&root), admitted(&root), admitted(&root)];
    let _before = root.take_cost();
    for _ in 0..10 {
        refused(&root, &[("x-bloc-bid", "150")]);
    }
    let cost = root.take_cost();
    // One of them reads when the running request began, which only `concurrency: 1` needs.
    assert_eq!(cost.calls(), 10 * 8, "{:?}", cost.host_calls);
}

#[test]
fn a_further_bounce_costs_the_caller_seven_host_calls() {
    const REQUESTS: u32 = 100;
    let process = process(1);
    let hosts = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
    let spec = json!({"routing": "bid", "concurrency": 1, "hold": false, "endpoints": hosts});
    let caller = caller(&process, &spec, &hosts);
    let report = |queue| format!("chip=0, queue={queue}, rate=10.000, confidence=1.000, exec=100.000");
    let attempts_cost = |bounces: usize| {
        let _before = caller.take_costs();
        for _ in 0..REQUESTS {
            let mut attempts = 0;
            let outcome = caller.send(&GET[..], |_, _| {
                attempts += 1;
                if attempts <= bounces {
                    return Some(Response::new(429, &[("x-bloc-reject", "bid"), ("x-bloc-load", &report(3))], b""));
                }
                process.advance(WORK);
                Some(Response::new(200, &[("x-bloc-load", &report(0))], b"ok"))
            });
            assert_eq!(outcome.tried.len(), bounces + 1);
        }
        let [_, attempt] = caller.take_costs();
        attempt.calls()
    };
    for _ in 0..3 {
        attempts_cost(0);
    }
    let [one, two] = [attempts_cost(1), attempts_cost(2)];
    // Some answers are looked at for marks, which takes two calls.
    let further = (two - one) as f64 / f64::from(REQUESTS);
    assert_eq!(further.round(), 7.0, "{further}: {one} host calls with one bounce, {two} with two");
}
