//! Configurations that come and go in one thread: what removing one must undo, and what not.

use crate::host::{FakeHost, Headers, Process};
use crate::thread::{Thread, arrived};
use bloc_engine::root::Root;
use bloc_policy::proxy::roster;
use bloc_policy::sync::follower::{Follower, Stamp};
use std::time::Duration;

fn inbound(capacity: u32, concurrency: u32) -> String {
    let capacity = format!(r#"{{"estimator":"static","limit":{capacity}}}"#);
    format!(r#"{{"service":"s","services":{{"s":{{"capacity":{capacity},"concurrency":{concurrency},"hold":true}}}}}}"#)
}

const ASKS_A: &str = r#"{"controlPlane":{"cluster":"a"}}"#;
const ASKS_B: &str = r#"{"controlPlane":{"cluster":"b"}}"#;

/// A request that is answered after `took`.
fn answered(root: &Root<FakeHost>, process: &Process, took: Duration) {
    let (stream, mut filter) = arrived(root);
    process.advance(took);
    stream.0.response.replace(Some(Headers::default()));
    filter.response_headers(true);
}

#[test]
fn asks_a_newly_named_control_plane_for_services_seen_earlier() {
    let thread = Thread::new();
    let mut carrier = thread.plug(1, "bloc.outbound", "{}");
    drop(arrived(&carrier));
    let _named = thread.plug(2, "bloc.inbound", r#"{"service":"s"}"#);
    thread.tick(&mut carrier);
    let _asks = thread.plug(3, "bloc.outbound", ASKS_A);
    thread.tick(&mut carrier);
    let seen = roster::seen(&thread.host);
    assert!(seen.contains("backend") && seen.contains("s"), "{seen:?}");
}

#[test]
fn the_gauges_show_the_configuration_that_is_in_use() {
    let thread = Thread::new();
    let mut old = thread.plug(1, "bloc.inbound", &inbound(40, 2));
    let new = thread.plug(2, "bloc.inbound", &inbound(5, 8));
    assert_eq!(thread.metric("capacity"), Some(5));
    for _ in 0..300 {
        answered(&new, &thread.process, Duration::from_millis(100));
    }
    thread.tick(&mut old);
    assert_eq!(thread.metric("service_rate_per_1000s"), Some(80_000));
    answered(&old, &thread.process, Duration::from_millis(100));
    assert_eq!(thread.metric("capacity"), Some(40));
    drop(old);
    assert_eq!(thread.metric("capacity"), Some(5));
}

#[test]
fn a_worker_without_services_stops_ticking_for_a_silent_worker() {
    let process = Process::new(1);
    let [here, there] = [Thread::of(&process), Thread::of(&process)];
    let mut carrier = here.plug(9, "bloc.outbound", "{}");
    let one = here.plug(1, "bloc.inbound", &inbound(40, 4));
    let other = there.plug(1, "bloc.inbound", &inbound(40, 4));
    let inside = arrived(&other);
    process.advance(Duration::from_millis(600));
    answered(&one, &process, Duration::from_millis(10));
    drop(one);
    let service = here.engine.vm().known_service("s").expect("a service");
    assert!(service.borrow().tick_period(process.now()).is_some(), "the other one is silent");
    drop((inside, other));
    (0..10).for_each(|_| here.tick(&mut carrier));
    assert_eq!(service.borrow().tick_period(process.now()), None);
}

#[test]
fn control_plane_parameters_end_with_the_last_configuration_naming_it() {
    let thread = Thread::new();
    let mut carrier = thread.plug(1, "bloc.inbound", r#"{"service":"s"}"#);
    let asks = thread.plug(2, "bloc.outbound", ASKS_A);
    let mut brought = Follower::new(77);
    brought.follow("a");
    let body = br#"{"version":"1","services":{"s":{"capacity":{"estimator":"static","limit":3}}}}"#;
    brought.answered(&thread.host, Stamp::default(), body).expect("a state");
    thread.tick(&mut carrier);
    assert_eq!(thread.metric("capacity"), Some(3));
    drop(asks);
    assert_eq!(thread.metric("capacity"), Some(0));
    let other = thread.plug(3, "bloc.outbound", ASKS_B);
    thread.tick(&mut carrier);
    assert_eq!(thread.metric("capacity"), Some(0), "the other control plane has not answered yet");
    drop(other);
    let _again = thread.plug(4, "bloc.outbound", ASKS_A);
    thread.tick(&mut carrier);
    assert_eq!(thread.metric("capacity"), Some(3), "its last good state");
}

/// The thread tells itself by a message, so it does not wait for a tick.
#[test]
fn releases_held_requests_when_their_control_plane_is_removed() {
    let thread = Thread::new();
    let mut carrier = thread.plug(1, "bloc.inbound", r#"{"service":"s"}"#);
    let asks = thread.plug(2, "bloc.outbound", ASKS_A);
    let mut brought = Follower::new(77);
    brought.follow("a");
    let body = br#"{"version":"1","services":{"s":{"concurrency":1,"hold":true}}}"#;
    brought.answered(&thread.host, Stamp::default(), body).expect("a state");
    thread.tick(&mut carrier);
    let (_inside, (held, _filter)) = (arrived(&carrier), arrived(&carrier));
    assert!(!held.0.resumed.get());
    let vm = thread.engine.vm().number;
    while thread.process.message(vm).is_some() {}
    drop(asks);
    assert!(!held.0.resumed.get(), "not in the callback of the removed configuration");
    let message = thread.process.message(vm).expect("a message to itself");
    carrier.messages([message]);
    assert!(held.0.resumed.get() && held.0.reply.borrow().is_none());
}
