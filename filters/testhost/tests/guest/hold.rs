//! The hold queue over two workers: who waits is let in when it is his turn, whatever happens to the messages between the workers.

use crate::support::{GET, SPOKEN, admitted, inbound, metric, process};
use bloc_testhost::{Compile, Flow, Module, Process, Root, Stream, just_built};
use serde_json::json;
use std::time::Duration;

/// What a tick while somebody waits may take.
const TICK: Duration = Duration::from_millis(250);

fn workers(process: &Process) -> [Root; 2] {
    [0, 1].map(|_| inbound(process, &json!({"concurrency": 1})))
}

fn held(root: &Root, extra: &[(&str, &str)]) -> Stream {
    let mut stream = root.stream();
    let flow = stream.request_headers([&GET, extra, &SPOKEN].concat().as_slice(), true);
    assert!(matches!(flow, Flow::Pause), "{flow:?}");
    assert!(stream.is_paused() && !stream.is_resumed());
    stream
}

#[test]
fn the_next_in_line_is_woken_wherever_it_waits() {
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
fn a_lost_wakeup_is_made_up_for_by_a_tick() {
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
fn who_goes_away_while_waiting_takes_nobodys_turn() {
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
fn who_waits_beyond_its_deadline_is_answered() {
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
fn the_places_of_a_worker_that_trapped_are_free_after_a_while() {
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

/// The same for a panic, which leaves a will: no time has to pass. Virtual time tells the two apart, which a clock could not.
#[test]
fn the_places_of_a_worker_that_panicked_are_free_at_once() {
    let crashing = just_built().unwrap_or_else(|error| panic!("{error}")).with_file_name("crash.wasm");
    let process = Process::new(&Module::from_file(&crashing, Compile::Metered).unwrap(), 6);
    let [one, two] = workers(&process);
    let _inside = admitted(&one);
    let waiting = held(&two, &[]);
    one.stream().request_headers([&GET[..], &[("x-bloc-crash", "inbound.request")]].concat().as_slice(), true);
    assert!(one.vm().is_dead());
    process.deliver();
    assert!(waiting.is_resumed());
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1), "of the one that was let in");
}
