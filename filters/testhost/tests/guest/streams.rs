//! Idle streams: a stream that carries nothing does not count, at the server or the sender, until
//! it carries something again. Each is subtracted once.

use crate::support::{GET, SERVICE, admitted, inbound, metric, parameters, process, worker};
use bloc_testhost::{Flow, Headers, Process, Root, Stream, VmOptions};
use serde_json::json;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// A thread without traffic looks every few seconds, and then needs `streamIdle` to be sure.
const FOUND: Duration = Duration::from_secs(15);
const OK: [(&str, &str); 1] = [(":status", "200")];

/// A call whose answer has begun; both bodies may continue.
fn stream(root: &Root) -> Stream {
    let mut stream = root.stream();
    let flow = stream.request_headers(GET, false);
    assert!(flow.continues(), "{flow:?}");
    assert!(stream.response_headers(OK, false).continues());
    stream
}

fn counted(process: &Process) -> u64 {
    metric(process, "inbound", "in_flight").unwrap()
}

#[test]
fn idle_streams_do_not_count_at_the_server() {
    let process = process(1);
    let root = inbound(&process, &json!({"capacity": {"estimator": "static", "limit": 20}}));
    let mut streams: Vec<Stream> = (0..20).map(|_| stream(&root)).collect();
    assert_eq!(counted(&process), 20);
    let mut refused = root.stream();
    assert!(matches!(refused.request_headers(GET, true), Flow::Reply(_)), "they count at first");
    refused.done();
    process.advance(FOUND);
    assert_eq!(counted(&process), 0);
    admitted(&root).done();

    // In either direction: each counts again after the next look.
    assert!(streams[0].request_body(b"a message", false).continues());
    assert!(streams[1].response_body(b"a message", false).continues());
    process.advance(SECOND / 2);
    assert_eq!(counted(&process), 2);
    process.advance(2 * SECOND);
    assert_eq!(counted(&process), 0, "idle again");

    // One ends while it counts, the others while they do not.
    assert!(streams[0].request_body(b"a message", true).continues());
    process.advance(SECOND / 2);
    assert_eq!(counted(&process), 1);
    streams.remove(0).done();
    assert_eq!(counted(&process), 0);
    streams.into_iter().for_each(Stream::done);
    assert_eq!(counted(&process), 0);
    let one = admitted(&root);
    assert_eq!(counted(&process), 1, "nothing was subtracted twice");
    one.done();
}

#[test]
fn a_stream_that_carries_data_always_counts() {
    let process = process(2);
    let root = inbound(&process, &json!({}));
    let (mut busy, _idle) = (stream(&root), stream(&root));
    for step in 0..60 {
        assert!(busy.response_body(b"a message", false).continues());
        process.advance(SECOND / 2);
        assert!(counted(&process) >= 1, "step {step}");
    }
    assert_eq!(counted(&process), 1);
}

/// Its answer has not begun: the application is working.
#[test]
fn a_slow_request_does_not_count_as_an_idle_stream() {
    let process = process(3);
    let root = inbound(&process, &json!({}));
    let _slow = admitted(&root);
    process.advance(4 * FOUND);
    assert_eq!(counted(&process), 1);
}

#[test]
fn idle_streams_free_their_places_and_return_without_waiting() {
    let process = process(4);
    let root = inbound(&process, &json!({"concurrency": 2, "hold": true}));
    let mut streams = [stream(&root), stream(&root)];
    let held: Vec<Stream> = (0..4)
        .map(|_| {
            let mut held = root.stream();
            assert!(matches!(held.request_headers(GET, true), Flow::Pause));
            held
        })
        .collect();
    let inside = || held.iter().filter(|held| held.is_resumed()).count();
    assert_eq!(inside(), 0);
    process.advance(4 * SECOND);
    assert_eq!(inside(), 2, "in their places");

    // Both carry data and count again: no held request gets in until fewer than two are inside.
    for stream in &mut streams {
        assert!(stream.request_body(b"a message", false).continues());
        assert!(stream.response_body(b"a message", false).continues());
    }
    process.advance(SECOND / 2);
    assert_eq!(counted(&process), 6);
    let mut held = held.into_iter();
    for _ in 0..2 {
        held.next().unwrap().done();
    }
    process.advance(SECOND / 4);
    let held: Vec<Stream> = held.collect();
    let inside = || held.iter().filter(|held| held.is_resumed()).count();
    assert_eq!(inside(), 0, "the streams have the places");
    streams.into_iter().for_each(Stream::done);
    assert_eq!(inside(), 2);
    held.into_iter().for_each(Stream::done);
    assert_eq!(counted(&process), 0);
}

#[test]
fn stream_idle_sets_how_long_a_stream_counts_without_data() {
    let process = process(5);
    let root = inbound(&process, &json!({"streamIdle": "30s"}));
    let _stream = stream(&root);
    process.advance(Duration::from_secs(30));
    assert_eq!(counted(&process), 1);
    process.advance(Duration::from_secs(30));
    assert_eq!(counted(&process), 0);
}

/// With traffic, a request finds the streams, so the thread need not tick for that.
#[test]
fn requests_find_idle_streams_within_five_seconds() {
    let process = process(6);
    let root = inbound(&process, &json!({}));
    let _streams: Vec<Stream> = (0..5).map(|_| stream(&root)).collect();
    for _ in 0..50 {
        admitted(&root).done();
        process.advance(SECOND / 10);
    }
    assert_eq!(counted(&process), 0);
}

#[test]
fn the_count_stays_right_for_streams_of_a_drained_listener() {
    let process = process(7);
    let threads = [0, 1].map(|_| process.vm(VmOptions::default()));
    let listen = |spec: &serde_json::Value| {
        threads.each_ref().map(|vm| vm.listen("bloc.inbound", "in", parameters(spec)).expect("valid"))
    };
    let open = |mut stream: Stream| {
        assert!(stream.request_headers(GET, false).continues());
        assert!(stream.response_headers(OK, false).continues());
        stream
    };
    let old = listen(&json!({"concurrency": 8, "hold": true}));
    let mut streams: Vec<Stream> = old.iter().flat_map(|old| [open(old.stream()), open(old.stream())]).collect();
    process.advance(FOUND);
    assert_eq!(counted(&process), 0);
    let new = listen(&json!({"concurrency": 4, "hold": true}));
    for old in old {
        process.drain(old, SECOND);
    }
    // Long enough for more than one recount.
    process.advance(Duration::from_secs(150));
    assert_eq!(counted(&process), 0);
    for stream in &mut streams {
        assert!(stream.request_body(b"a message", false).continues());
    }
    process.advance(SECOND / 2);
    assert_eq!(counted(&process), 4);
    process.advance(FOUND);
    assert_eq!(counted(&process), 0);
    streams.into_iter().for_each(Stream::done);
    let mut inside = new[0].stream();
    assert!(inside.request_headers(GET, true).continues());
    assert_eq!(counted(&process), 1);
    inside.done();
    process.advance(Duration::from_secs(150));
    assert_eq!(counted(&process), 0);
}

/// A trap ends the thread's own streams; those of the other thread still count.
#[test]
fn the_count_is_right_after_a_worker_with_idle_streams_traps() {
    let process = process(8);
    let [one, two] = [0, 1].map(|_| worker(&process));
    let roots = [&one, &two].map(|vm| vm.root("bloc.inbound", parameters(&json!({}))).expect("valid"));
    let mut streams: Vec<Stream> = roots.iter().flat_map(|root| [stream(root), stream(root)]).collect();
    process.advance(FOUND);
    assert_eq!(counted(&process), 0);
    two.trap();
    process.advance(Duration::from_secs(150));
    assert_eq!(counted(&process), 0);
    assert!(streams[0].request_body(b"a message", false).continues());
    process.advance(SECOND / 2);
    assert_eq!(counted(&process), 1);
    streams.drain(..2).for_each(Stream::done);
    assert_eq!(counted(&process), 0);
    std::mem::forget(streams);
}

/// Envoy's own policy counts all open streams; ours counts those that are pending or carry data.
#[test]
fn idle_streams_do_not_count_at_the_sender() {
    let process = process(9);
    let vm = worker(&process);
    let servers = ["10.0.0.1:80", "10.0.0.2:80"];
    let spec = json!({"services": {SERVICE: {"routing": "least_request", "endpoints": servers}}});
    let outbound = vm.root("bloc.outbound", spec.to_string()).expect("valid");
    let attempts = vm.root("bloc.attempt", "").expect("valid");
    let request = || {
        let headers = Headers::new(&GET);
        let mut stream = outbound.stream().with_property("xds\0cluster_name", SERVICE);
        assert!(stream.request_headers(&headers, true).continues());
        let list = headers.text("x-bloc-endpoints").unwrap_or_default();
        let first = list.split(',').next().unwrap_or_default().to_owned();
        (stream, headers, first)
    };
    let attempt = |headers: &Headers, server: &str| {
        let mut attempt = attempts.attempt().with_property("xds\0cluster_name", SERVICE);
        attempt.set_property("upstream\0address", server);
        attempt.set_property("upstream\0request_attempt_count", 1_u64.to_le_bytes());
        assert!(attempt.request_headers(headers, false).continues());
        assert!(attempt.response_headers(OK, false).continues());
        attempt
    };
    // Ten streams, all of them to the first server.
    let mut open: Vec<(Stream, Stream)> = (0..10)
        .map(|_| {
            let (stream, headers, _) = request();
            (attempt(&headers, servers[0]), stream)
        })
        .collect();
    let share = || {
        let chosen = (0..100).filter(|_| {
            let (stream, _, first) = request();
            stream.done();
            first == servers[0]
        });
        chosen.count()
    };
    assert_eq!(share(), 0, "they count at first");
    process.advance(FOUND);
    let now = share();
    assert!((30..=70).contains(&now), "{now} of 100 go where the idle streams are");
    assert!(open[0].0.response_body(b"a message", false).continues());
    process.advance(SECOND / 2);
    assert_eq!(share(), 0, "one counts again");
    for (attempt, stream) in open.drain(1..) {
        attempt.done();
        stream.done();
    }
    assert_eq!(share(), 0, "the idle ones were not pending when they ended");
    process.advance(2 * SECOND);
    open.drain(..).for_each(|(attempt, stream)| {
        attempt.done();
        stream.done();
    });
    let now = share();
    assert!((30..=70).contains(&now), "{now} of 100 when all have ended");
    // One more at the first server is one more than at the second.
    let (stream, headers, _) = request();
    let _one = (attempt(&headers, servers[0]), stream);
    assert_eq!(share(), 0, "nothing was subtracted twice");
}
