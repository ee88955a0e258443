//! What a proxy says of its version, and what it takes from a control plane of another one.

use crate::host::{FakeHost, Process};
use crate::thread::Thread;
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use bloc_policy::config::features::{FEATURES_HEADER, Features, MODULE_HEADER};
use serde_json::Value;
use std::rc::Rc;

const ASKS: &str = r#"{"service":"s","controlPlane":{"cluster":"a","wait":"30s"}}"#;

struct Sidecar {
    process: Rc<Process>,
    thread: Thread,
    root: Root<FakeHost>,
    _other: Root<FakeHost>,
}

impl Sidecar {
    fn new() -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let thread = Thread::of(&process);
        let mut root = thread.plug(1, "bloc.inbound", ASKS);
        let _other = thread.plug(2, "bloc.inbound", r#"{"service":"bad"}"#);
        thread.tick(&mut root);
        Self { process, thread, root, _other }
    }

    /// The next poll, after this answer.
    fn asks_after(&mut self, status: &str, body: &str) -> Value {
        let replica = Some(b"00000000000000aa".to_vec());
        let answer = PostAnswer { status: status.into(), replica, body: body.into(), ..PostAnswer::default() };
        let token = self.process.calls.borrow().len();
        self.thread.tick(&mut self.root);
        self.root.call_answered(token as u32, Some(&answer));
        self.thread.tick(&mut self.root);
        let calls = self.process.calls.borrow();
        assert_eq!(calls.len(), token + 1);
        serde_json::from_slice(calls.last().expect("a poll")).expect("a question")
    }
}

/// The capacity of each service that a poll reports.
fn capacities(poll: &Value) -> Vec<(&str, Option<u64>)> {
    let loads = poll["load"].as_array().expect("loads").iter();
    loads.map(|load| (load["service"].as_str().expect("a name"), load["capacity"].as_u64())).collect()
}

const BAD: &str = r#"{"version":"1","cpu":{"cores":0.5},"services":{
    "bad":{"capacity":{"estimator":"static","limit":5},"later":1},
    "s":{"capacity":{"estimator":"static","limit":7}}
}}"#;
const GOOD: &str = r#"{"version":"2","services":{
    "bad":{"capacity":{"estimator":"static","limit":5}},
    "s":{"capacity":{"estimator":"static","limit":8}}
}}"#;

#[test]
fn each_poll_names_the_version_and_the_features_of_the_module() {
    let mut sidecar = Sidecar::new();
    sidecar.asks_after("304", "");
    let headers = sidecar.process.call_headers.borrow();
    assert_eq!(headers.len(), 2);
    for headers in headers.iter() {
        assert_eq!(headers[FEATURES_HEADER], Features::own().to_string());
        assert_eq!(headers[MODULE_HEADER], env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn a_service_that_cannot_be_read_keeps_its_last_good_parameters() {
    let mut sidecar = Sidecar::new();
    let asked = sidecar.asks_after("200", BAD);
    assert_eq!((&asked["version"], &asked["unread"]), (&"1".into(), &serde_json::json!(["bad"])));
    assert_eq!(capacities(&asked), [("bad", None), ("s", Some(7))]);
    let asked = sidecar.asks_after("200", GOOD);
    assert_eq!((&asked["version"], asked.get("unread")), (&"2".into(), None));
    assert_eq!(capacities(&asked), [("bad", Some(5)), ("s", Some(8))]);
    let asked = sidecar.asks_after("200", BAD);
    assert_eq!(capacities(&asked), [("bad", Some(5)), ("s", Some(7))], "what it had before");
}
