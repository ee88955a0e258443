//! The wait queue across two workers: a held request is let in when its turn comes, whatever
//! happens to the messages between the workers.

use crate::support::{FROM_SIDECAR, GET, admitted, inbound, metric, process};
use bloc_testhost::{Compile, Flow, Module, Process, Root, Stream, just_built};
use serde_json::json;
use std::time::Duration;

/// The longest time until a tick while a request waits.
const TICK: Duration = Duration::from_millis(250);

fn workers(process: &Process) -> [Root; 2] {
    [0, 1].map(|_| inbound(process, &json!({"concurrency": 1, "hold": true})))
}

fn held(root: &Root, extra: &[(&str, &str)]) -> Stream {
    let mut stream = root.stream();
    let flow = stream.request_headers([&GET, extra, &FROM_SIDECAR].concat().as_slice(), true);
    assert!(matches!(flow, Flow::Pause), "{flow:?}");
    assert!(stream.is_paused() && !stream.is_resumed());
    stream
}

#[test]
fn wakes_the_next_held_request_on_the_worker_that_holds_it() {
    let process = process(1);
    let [one, two] = workers(&process);
    let inside = admitted(&one);
    let line = [held(&two, &[]), held(&one, &[]), held(&two, &[])];
    inside.done();
    assert!(!line[0].is_resumed(), "the other worker has not been told yet");
    assert_eq!(process.wakeups(), 1);
    process.deliver();
    assert_eq!(line.each_ref().map(Stream::is_resumed), [true, false, false], "first come, first served");
    let [first, second, third] = line;
    first.done();
    process.deliver();
    assert!(second.is_resumed() && !third.is_resumed());
    drop(second);
    process.deliver();
    assert!(third.is_resumed());
    third.done();
    drop(admitted(&two));
    process.advance(Duration::from_secs(1));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
    assert_eq!(metric(&process, "inbound", "rescued"), Some(0));
    assert_eq!(metric(&process, "inbound", "held"), Some(3));
}

#[test]
fn looks_up_the_queue_of_another_worker_only_for_the_first_message() {
    let process = process(1);
    let [one, two] = workers(&process);
    let lookups = || {
        let (inside, waiting) = (admitted(&one), held(&two, &[]));
        let _before = one.take_cost();
        inside.done();
        let calls = one.take_cost().host_calls;
        process.deliver();
        assert!(waiting.is_resumed());
        waiting.done();
        let of = |name| calls.get(name).copied().unwrap_or_default();
        assert_eq!(of("proxy_enqueue_shared_queue"), 1);
        [of("proxy_resolve_shared_queue"), of("proxy_get_property")]
    };
    assert_eq!([lookups(), lookups()], [[1, 1], [0, 0]]);
}

#[test]
fn a_tick_makes_up_for_a_lost_wakeup() {
    let process = process(2);
    let [one, two] = workers(&process);
    let inside = admitted(&one);
    let waiting = held(&two, &[]);
    inside.done();
    process.lose_wakeups();
    process.advance(TICK);
    assert!(waiting.is_resumed());
    waiting.done();
    process.advance(Duration::from_secs(2));
    assert_eq!(metric(&process, "inbound", "rescued"), Some(1));
}

#[test]
fn a_held_request_that_goes_away_does_not_block_the_next_one() {
    let process = process(3);
    let [one, two] = workers(&process);
    let inside = admitted(&one);
    let (gone, next) = (held(&two, &[]), held(&one, &[]));
    drop(gone);
    inside.done();
    process.deliver();
    assert!(next.is_resumed());
}

#[test]
fn rejects_a_held_request_when_its_deadline_passes() {
    let process = process(4);
    let [one, two] = workers(&process);
    let inside = admitted(&one);
    let patient = held(&one, &[]);
    let hurried = held(&two, &[("x-envoy-expected-rq-timeout-ms", "100")]);
    process.advance(Duration::from_millis(99));
    assert!(hurried.reply().is_none());
    process.advance(TICK);
    let reply = hurried.reply().expect("an answer");
    assert_eq!((reply.status(), reply.details.as_str()), (429, "bloc_deadline"));
    assert_eq!(reply.headers.text("x-bloc-reject").as_deref(), Some("deadline"));
    hurried.done();
    inside.done();
    process.deliver();
    assert!(patient.is_resumed());
    drop(patient);
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
}

#[test]
fn frees_the_places_of_a_trapped_worker_within_three_seconds() {
    let process = process(5);
    let [one, two] = workers(&process);
    let _inside = admitted(&one);
    let waiting = held(&two, &[]);
    one.vm().trap();
    process.advance(Duration::from_secs(1));
    assert!(!waiting.is_resumed(), "it may still be alive");
    process.advance(Duration::from_secs(2));
    assert!(waiting.is_resumed());
}

/// Likewise after a panic, which runs crash recovery: then no time has to pass. Only virtual time
/// can tell the two cases apart.
#[test]
fn frees_the_places_of_a_panicked_worker_at_once() {
    let crashing = just_built().unwrap_or_else(|error| panic!("{error}")).with_file_name("crash.wasm");
    let process = Process::new(&Module::from_file(&crashing, Compile::Metered).unwrap(), 6);
    let [one, two] = workers(&process);
    let _inside = admitted(&one);
    let waiting = held(&two, &[]);
    one.stream().request_headers([&GET[..], &[("x-bloc-crash", "inbound.request")]].concat().as_slice(), true);
    assert!(one.vm().is_dead());
    process.deliver();
    assert!(waiting.is_resumed());
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1), "the one that was let in");
}
