//! What a proxy says to control planes of other versions, and what it takes from them.

use crate::host::{FakeHost, Process};
use crate::thread::Thread;
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use bloc_policy::features::table::{Instead, REPORT, Rule};
use bloc_policy::features::{FEATURES_HEADER, Feature, Features, MODULE_HEADER};
use bloc_policy::latency::dispersion::Slots;
use bloc_policy::latency::store::{Side, hand_over};
use bloc_policy::latency::{Growth, Histogram};
use bloc_policy::roster;
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
        roster::announce(&thread.host, &["called".to_owned()].into());
        thread.tick(&mut root);
        Self { process, thread, root, _other }
    }

    /// Something of everything that a poll reports.
    fn measures(&self) {
        let times = Histogram { sum_us: 7, counts: vec![(7, 1)] };
        let growth = Growth { numbers: vec![1; 6], histograms: vec![times.clone(), times] };
        for (side, service) in [(Side::Server, "bad"), (Side::Caller, "called")] {
            hand_over(&self.thread.host, side, service, &growth, &Slots::default(), self.process.now());
        }
    }

    /// The next poll, after this answer of a control plane with these features.
    fn asks_after(&mut self, status: &str, features: Option<Features>, body: &str) -> Value {
        let features = features.map(|features| features.to_string().into_bytes());
        let replica = Some(b"00000000000000aa".to_vec());
        let answer =
            PostAnswer { status: status.into(), features, replica, body: body.into(), ..PostAnswer::default() };
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
    sidecar.asks_after("304", None, "");
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
    let asked = sidecar.asks_after("200", Some(Features::own()), BAD);
    assert_eq!((&asked["version"], &asked["unread"]), (&"1".into(), &serde_json::json!(["bad"])));
    assert_eq!(capacities(&asked), [("bad", None), ("s", Some(7))]);
    let asked = sidecar.asks_after("200", Some(Features::own()), GOOD);
    assert_eq!((&asked["version"], asked.get("unread")), (&"2".into(), None));
    assert_eq!(capacities(&asked), [("bad", Some(5)), ("s", Some(8))]);
    let asked = sidecar.asks_after("200", Some(Features::own()), BAD);
    assert_eq!(capacities(&asked), [("bad", Some(5)), ("s", Some(7))], "what it had before");
}

/// The last answer counts: a control plane may be rolled back, or replicas be of two versions.
#[test]
fn a_control_plane_is_told_only_what_it_knows() {
    let mut sidecar = Sidecar::new();
    let is_told = |asked: Value| asked.get("unread").is_some();
    assert!(!is_told(sidecar.asks_after("200", None, BAD)), "the first release");
    assert!(is_told(sidecar.asks_after("304", Some(Features::own()), "")));
    assert!(!is_told(sidecar.asks_after("400", None, "")), "rolled back");
    assert!(is_told(sidecar.asks_after("304", Some(Features::own()), "")));
    assert!(!is_told(sidecar.asks_after("304", Some(Features::default()), "")));
    assert!(is_told(sidecar.asks_after("304", Some(Features::own()), "")));
    let other = r#"{"service":"s","controlPlane":{"cluster":"b"}}"#;
    sidecar.root = sidecar.thread.plug(3, "bloc.inbound", other);
    sidecar.thread.hear(&sidecar.root);
    let calls = sidecar.process.calls.borrow();
    let asked: Value = serde_json::from_slice(calls.last().expect("a poll")).expect("a question");
    assert!(!is_told(asked), "another control plane");
}

/// The table says which members need a feature.
#[test]
fn a_poll_has_no_member_that_the_control_plane_lacks() {
    for lacking in Feature::ALL.iter().copied() {
        let features = Features::own().without([lacking].into_iter().collect());
        let mut sidecar = Sidecar::new();
        sidecar.measures();
        let whole = sidecar.asks_after("200", Some(Features::own()), BAD);
        sidecar.measures();
        let asked = sidecar.asks_after("304", Some(features), "");
        let needs = |rule: &&Rule| rule.at(features) == Some((lacking, Instead::Omit));
        for rule in REPORT.iter().filter(needs) {
            let has = |poll: &Value| {
                rule.field
                    .split('.')
                    .try_fold(poll, |value, name| value.as_array().map_or(value, |items| &items[0]).get(name))
                    .is_some()
            };
            assert!(has(&whole) && !has(&asked), "{}", rule.field);
        }
    }
}
