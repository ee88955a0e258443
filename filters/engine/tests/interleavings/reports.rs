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
        filter.response_headers(ANSWER.len(), true);
    }

    /// What the next poll reports; a replica of the control plane has counted the one before.
    fn reports(&mut self) -> ServiceLoad {
        let token = self.process.calls.borrow().len() as u32;
        let replica = Some(b"00000000000000aa".to_vec());
        let answer = PostAnswer { status: b"304".to_vec(), replica, ..PostAnswer::default() };
        self.ticks(1);
        self.root.call_answered(token, Some(&answer));
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
    let mut sidecar = Sidecar::new(r#""concurrency":1"#);
    for _ in 0..300 {
        sidecar.serve(SECOND / 10);
    }
    let load = sidecar.reports();
    assert_eq!((load.service_rate, load.capacity), (Some(10.0), None));
}

/// Each time the count moves to the other of two gauges, which may hold an old one.
#[test]
fn the_reported_count_is_right_after_each_of_several_lost_threads() {
    let mut sidecar = Sidecar::new("");
    for round in 0..3 {
        let lost = Thread::of(&sidecar.process);
        let root = lost.plug(1, "bloc.inbound", &configuration(""));
        let inside = [arrived(&root), arrived(&root)];
        assert_eq!(sidecar.reports().in_flight, 2, "round {round}");
        // The host ends it: nothing of it runs any more.
        std::mem::forget((lost, root, inside));
        sidecar.ticks(80);
        assert_eq!(sidecar.reports().in_flight, 0, "round {round}");
    }
}
