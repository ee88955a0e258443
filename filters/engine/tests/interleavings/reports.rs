//! What polls report of a service: its load and its events, over all threads.

use crate::host::{FakeHost, Process, Seen};
use crate::inbound::ANSWER;
use crate::mesh::headers;
use crate::thread::{SECOND, Thread, arrived, came};
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use bloc_policy::sync::{ServiceLoad, SyncRequest};
use std::rc::Rc;

struct Sidecar {
    process: Rc<Process>,
    thread: Thread,
    root: Root<FakeHost>,
}

fn configuration(spec: &str) -> String {
    format!(r#"{{"service":"s","services":{{"s":{{{spec}}}}},"controlPlane":{{"cluster":"a","wait":"30s"}}}}"#)
}

/// The answer of a control plane that has no news and has counted what the poll reported.
fn counted() -> PostAnswer {
    let replica = Some(b"00000000000000aa".to_vec());
    PostAnswer { status: b"304".to_vec(), replica, ..PostAnswer::default() }
}

impl Sidecar {
    fn new(spec: &str) -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let thread = Thread::of(&process);
        let root = thread.plug(1, "bloc.inbound", &configuration(spec));
        let mut sidecar = Self { process, thread, root };
        sidecar.ticks(1);
        sidecar
    }

    fn ticks(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.thread.tick(&mut self.root));
    }

    fn serve(&self, took: std::time::Duration) {
        let request = headers(&[("x-bloc-bid", "any")]);
        let (stream, mut filter) = came(&self.root, Seen { request, ..Seen::default() });
        self.process.advance(took);
        stream.0.response.replace(Some(headers(&ANSWER)));
        filter.response_headers(true);
    }

    /// What the next poll reports; a replica of the control plane has counted the one before.
    fn reports(&mut self) -> ServiceLoad {
        let token = self.process.calls.borrow().len() as u32;
        self.ticks(1);
        self.root.call_answered(token, Some(&counted()));
        self.ticks(2);
        let calls = self.process.calls.borrow();
        assert_eq!(calls.len() as u32, token + 1);
        let poll: SyncRequest = serde_json::from_slice(calls.last().expect("a poll")).expect("a question");
        let [load] = <[_; 1]>::try_from(poll.load).expect("one service");
        load
    }
}

#[test]
fn a_poll_reports_the_load_and_the_events_of_the_service() {
    let mut sidecar = Sidecar::new(r#""capacity":{"estimator":"static","limit":2}"#);
    let load = sidecar.reports();
    assert_eq!((load.in_flight, load.departed, load.arrived, load.service_rate), (0, 0, 0, None));
    for _ in 0..300 {
        sidecar.serve(SECOND / 10);
    }
    let _inside = [arrived(&sidecar.root), arrived(&sidecar.root)];
    let _rejected = arrived(&sidecar.root);
    let load = sidecar.reports();
    assert_eq!((load.in_flight, load.capacity, load.departed, load.arrived), (2, Some(2), 300, 302));
    let events = load.events;
    assert_eq!((events.chips_granted, events.chips_withheld, events.rejected_capacity), (300, 0, 1));
    assert_eq!((events.rejected_bid, events.rejected_deadline), (0, 0));
}

#[test]
fn a_poll_reports_the_measured_rate_in_requests_a_second() {
    let mut sidecar = Sidecar::new(r#""concurrency":1,"hold":true"#);
    for _ in 0..300 {
        sidecar.serve(SECOND / 10);
    }
    let load = sidecar.reports();
    assert_eq!((load.service_rate, load.capacity), (Some(10.0), None));
}

/// Each time, the count moves to the other of two gauges, which may hold an old count.
#[test]
fn the_reported_count_is_right_after_each_of_several_lost_threads() {
    let mut sidecar = Sidecar::new("");
    for round in 0..3 {
        let lost = Thread::of(&sidecar.process);
        let root = lost.plug(1, "bloc.inbound", &configuration(""));
        let inside = [arrived(&root), arrived(&root)];
        assert_eq!(sidecar.reports().in_flight, 2, "round {round}");
        // The host ends it: none of its code runs any more.
        std::mem::forget((lost, root, inside));
        sidecar.ticks(80);
        assert_eq!(sidecar.reports().in_flight, 0, "round {round}");
    }
}

#[test]
fn the_other_threads_are_told_that_requests_are_counted_anew() {
    let mut sidecar = Sidecar::new("");
    let other = Thread::of(&sidecar.process);
    let _root = other.plug(1, "bloc.inbound", &configuration(""));
    other.messages();
    let lost = Thread::of(&sidecar.process);
    let root = lost.plug(1, "bloc.inbound", &configuration(""));
    let inside = arrived(&root);
    std::mem::forget((lost, root, inside));
    sidecar.ticks(80);
    assert!(other.messages().contains(&b"\x01s".to_vec()));
}

/// A poll leaves out what another one carries, until it is known that nobody counted that.
#[test]
fn the_events_of_a_superseded_poll_are_reported_again_only_if_it_fails() {
    for (counts, again) in [(true, 0), (false, 5)] {
        let mut sidecar = Sidecar::new("");
        sidecar.reports();
        (0..5).for_each(|_| sidecar.serve(SECOND / 100));
        assert_eq!(sidecar.reports().departed, 5);
        let carries = sidecar.process.calls.borrow().len() as u32;
        // A new service is asked for at once.
        let outbound = sidecar.thread.plug(2, "bloc.outbound", "{}");
        drop(arrived(&outbound));
        sidecar.thread.observe(&sidecar.root);
        assert_eq!(sidecar.process.calls.borrow().len() as u32, carries + 1);
        sidecar.root.call_answered(carries, counts.then(counted).as_ref());
        assert_eq!(sidecar.reports().departed, again, "counted: {counts}");
    }
}

#[test]
fn the_events_of_a_poll_that_is_lost_with_its_root_context_are_reported_again() {
    let mut sidecar = Sidecar::new("");
    sidecar.reports();
    (0..5).for_each(|_| sidecar.serve(SECOND / 100));
    assert_eq!(sidecar.reports().departed, 5);
    let next = sidecar.thread.plug(2, "bloc.inbound", &configuration(""));
    sidecar.root = next;
    sidecar.thread.observe(&sidecar.root);
    let calls = sidecar.process.calls.borrow();
    let poll: SyncRequest = serde_json::from_slice(calls.last().expect("a poll")).expect("a question");
    assert_eq!(poll.load[0].departed, 5);
}
