//! Fail-open: what a thread does that starts after too many crashes.

use crate::host::{FakeHost, Headers, Process, Seen};
use crate::thread::{SECOND, Thread, came};
use bloc_engine::root::Root;
use bloc_policy::proxy::crashes::{LIMIT, WINDOW};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const LIMITS: &str = r#"{"service":"s","services":{"s":{"capacity":{"estimator":"static","limit":1}}}}"#;
const OURS: [&str; 4] = ["x-bloc-endpoints", "x-bloc-bid", "x-bloc-load", "x-bloc-reject"];

/// A thread that starts after so many crashes, all at the same time.
fn after_crashes(crashes: usize) -> Thread {
    let process = Process::new(1);
    for _ in 0..crashes {
        Thread::of(&process).engine.recover();
    }
    assert_eq!(process.metric("bloc.crashes").unwrap_or(0), crashes as i64);
    Thread::of(&process)
}

fn headers() -> Headers {
    let names = OURS.iter().chain(&["x-own"]).map(|name| ((*name).to_owned(), b"1".to_vec()));
    Headers::new(names.collect::<BTreeMap<_, _>>().into())
}

fn names(headers: &Headers) -> Vec<String> {
    headers.borrow().keys().cloned().collect()
}

/// Whether a second concurrent request passes.
fn passes(root: &Root<FakeHost>) -> bool {
    let _first = came(root, Seen::default());
    let (stream, _second) = came(root, Seen::default());
    stream.0.reply.borrow().is_none()
}

#[test]
fn passes_all_requests_for_a_minute_after_three_crashes() {
    assert!(!passes(&after_crashes(LIMIT - 1).plug(1, "bloc.inbound", LIMITS)));
    let thread = after_crashes(LIMIT);
    let mut root = thread.plug(1, "bloc.inbound", LIMITS);
    assert!(passes(&root));
    thread.process.advance(WINDOW - Duration::from_nanos(1));
    root.tick();
    assert!(passes(&root));
    thread.process.advance(Duration::from_nanos(1));
    root.tick();
    assert!(!passes(&root), "its configuration is in force");
}

#[test]
fn removes_our_headers_from_requests_and_answers_that_pass() {
    let thread = after_crashes(LIMIT);
    for (context, id) in (1..).zip(["bloc.inbound", "bloc.outbound", "bloc.attempt"]) {
        let root = thread.plug(context, id, "{}");
        let (stream, mut filter) = came(&root, Seen { request: headers(), ..Seen::default() });
        assert_eq!(names(&stream.0.request), ["x-own"], "{id}");
        let response = headers();
        stream.0.response.replace(Some(Rc::clone(&response)));
        filter.response_headers(true);
        assert_eq!(names(&response), ["x-own"], "{id}");
    }
}

/// Such a root context ticks until it may read its configuration.
#[test]
fn a_removed_root_context_stops_ticking_while_failing_open() {
    let thread = after_crashes(LIMIT);
    let root = thread.plug(7, "bloc.inbound", LIMITS);
    assert_eq!(thread.process.periods.borrow()[&7], SECOND);
    drop(root);
    assert_eq!(thread.process.periods.borrow()[&7], Duration::ZERO);
}
