//! Attempts: which may follow, what their answers say of servers, and what happens to those without
//! a request of ours.

use crate::host::{FakeHost, FakeStream, Local, Process, Seen};
use crate::mesh::headers;
use crate::thread::{SECOND, Thread, came};
use bloc_engine::clusters::Shared;
use bloc_engine::filter::Filter;
use bloc_engine::root::Root;
use std::rc::Rc;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:80";
const OTHER: &str = "10.0.0.2:80";
const REJECTS: [(&str, &str); 3] =
    [(":status", "429"), ("x-bloc-load", "chip=0, queue=4, service=10"), ("x-bloc-reject", "capacity")];
const UNREACHABLE: [(&str, &str); 3] =
    [(":status", "503"), ("x-bloc-load", "chip=0"), ("x-bloc-reject", "unreachable")];

struct Caller {
    thread: Thread,
    outbound: Root<FakeHost>,
    attempts: Root<FakeHost>,
}

/// A request, or one of its attempts, as its filter sees it.
struct Sent {
    stream: FakeStream,
    filter: Box<dyn Filter>,
}

impl Caller {
    fn new(spec: &str) -> Self {
        let thread = Thread::of(&Process::new(1));
        let outbound = thread.plug(1, "bloc.outbound", &format!(r#"{{"services":{{"backend":{{{spec}}}}}}}"#));
        let attempts = thread.plug(2, "bloc.attempt", "");
        Self { thread, outbound, attempts }
    }

    fn request(&self, own: &[(&str, &str)]) -> Sent {
        let (stream, filter) = came(&self.outbound, Seen { request: headers(own), ..Seen::default() });
        Sent { stream, filter }
    }

    /// The attempt with this number, from 1, of a request.
    fn attempt(&self, request: &Sent, number: u64, server: &str) -> Sent {
        let request = Rc::clone(&request.stream.0.request);
        let seen = Seen { request, address: Some(server.to_owned()), attempts: Some(number), ..Seen::default() };
        let (stream, filter) = came(&self.attempts, seen);
        Sent { stream, filter }
    }

    /// An attempt without a request of ours.
    fn stray(&self, own: &[(&str, &str)], number: u64) -> Sent {
        let (address, attempts) = (Some(SERVER.to_owned()), Some(number));
        let seen = Seen { request: headers(own), address, attempts, ..Seen::default() };
        let (stream, filter) = came(&self.attempts, seen);
        Sent { stream, filter }
    }

    fn cluster(&self) -> Shared<FakeHost> {
        self.thread.engine.vm().cluster(None, "backend").expect("a cluster")
    }

    fn chips(&self, server: &str) -> u32 {
        let cluster = self.cluster();
        let cluster = cluster.borrow();
        let endpoints = cluster.sender.endpoints();
        endpoints.find(server).and_then(|id| endpoints.get(id)).expect("a server").chips()
    }

    fn counted(&self, name: &str) -> i64 {
        self.thread.engine.vm().flush();
        self.thread.process.metric(&format!("bloc.outbound.backend.{name}")).unwrap_or(0)
    }

    fn passes(&self, time: Duration) {
        self.thread.process.advance(time);
    }
}

impl Sent {
    fn answered(&mut self, answer: &[(&str, &str)], ends: bool) {
        self.stream.0.response.replace(Some(headers(answer)));
        self.filter.response_headers(ends);
    }

    fn answer_has(&self, name: &str) -> bool {
        self.stream.0.response.borrow().as_ref().expect("an answer").borrow().contains_key(name)
    }

    /// The filter's own answer.
    fn local(&self) -> Option<Local> {
        self.stream.0.reply.borrow().clone()
    }

    fn header(&self, name: &str) -> Option<String> {
        let value = self.stream.0.request.borrow().get(name).cloned();
        value.map(|value| String::from_utf8(value).expect("text"))
    }
}

#[test]
fn a_rejected_attempt_is_retried_without_a_retry_budget() {
    let caller = Caller::new(r#""retries":1,"retryBudget":0"#);
    let request = caller.request(&[]);
    caller.attempt(&request, 1, SERVER).answered(&REJECTS, true);
    assert_eq!(caller.attempt(&request, 2, OTHER).local(), None);
    assert_eq!(caller.counted("over_budget"), 0);
}

/// A route with the condition `envoy-ratelimited` still retries.
#[test]
fn a_surplus_attempt_is_answered_as_the_one_before_it_ended() {
    let caller = Caller::new(r#""retries":1,"routeRetries":0"#);
    let request = caller.request(&[]);
    for number in 1..=2 {
        caller.attempt(&request, number, SERVER).answered(&REJECTS, true);
    }
    assert_eq!(caller.attempt(&request, 3, OTHER).local().map(|local| local.status), Some(429));
    let request = caller.request(&[]);
    drop(caller.attempt(&request, 1, SERVER));
    assert_eq!(caller.attempt(&request, 2, OTHER).local().map(|local| local.status), Some(503));
}

/// Envoy hedges: an answer to the surplus attempt would end those under way.
#[test]
fn a_surplus_attempt_is_answered_soon_after_the_last_one_under_way_is_lost() {
    let mut caller = Caller::new(r#""routeRetries":1,"retryBudget":1"#);
    let request = caller.request(&[]);
    let under_way = [1, 2].map(|number| caller.attempt(&request, number, SERVER));
    let surplus = caller.attempt(&request, 3, OTHER);
    caller.passes(SECOND);
    caller.outbound.tick();
    assert_eq!(surplus.local(), None);
    drop(under_way);
    assert!(caller.thread.process.periods.borrow()[&1] <= Duration::from_millis(10));
    caller.outbound.tick();
    assert_eq!(surplus.local().map(|local| local.status), Some(503));
}

#[test]
fn an_attempt_over_the_budget_that_follows_a_timeout_is_answered_with_504() {
    for (took, status) in [(200, 503), (300, 504)] {
        let caller = Caller::new(r#""retryBudget":0,"routeRetries":2"#);
        let request = caller.request(&[("x-envoy-expected-rq-timeout-ms", "300")]);
        let attempt = caller.attempt(&request, 1, SERVER);
        caller.passes(Duration::from_millis(took));
        drop(attempt);
        assert_eq!(caller.attempt(&request, 2, OTHER).local().map(|local| local.status), Some(status));
    }
}

/// Envoy passes on a bounce that was to be retried. If the server has told Envoy itself not to
/// retry, that says nothing about Envoy's circuit breaker.
#[test]
fn a_bounce_that_envoy_did_not_retry_ends_bids_unless_its_server_forbade_it() {
    let told = ("x-envoy-ratelimited", "true");
    for (more, bids) in [(None, false), (Some(told), true)] {
        let caller = Caller::new(&format!(r#""routing":"bid","endpoints":["{SERVER}","{OTHER}","10.0.0.3:80"]"#));
        for _ in 0..20 {
            let mut attempt = caller.stray(&[], 1);
            caller.passes(Duration::from_millis(50));
            attempt.answered(&[(":status", "200"), ("x-bloc-load", "chip=1, queue=4, service=10")], true);
        }
        let mut request = caller.request(&[]);
        let mut attempt = caller.attempt(&request, 1, SERVER);
        let answer = [(":status", "429"), ("x-bloc-load", "chip=0, queue=9, service=10"), ("x-bloc-reject", "bid")];
        let answer: Vec<_> = answer.into_iter().chain(more).collect();
        attempt.answered(&answer, true);
        drop(attempt);
        request.answered(&answer, true);
        drop(request);
        assert_eq!(caller.counted("retries_overflowed"), 1, "{more:?}");
        let request = caller.request(&[]);
        let bid = caller.attempt(&request, 1, OTHER).header("x-bloc-bid").expect("a bid");
        assert_eq!(bid != "any", bids, "{more:?}: {bid}");
    }
}

/// Envoy does not have the first server of the list.
#[test]
fn a_server_that_envoy_does_not_have_is_tried_once_in_an_interval() {
    let caller = Caller::new(&format!(r#""resetInterval":"1h","endpoints":["{SERVER}","{OTHER}"]"#));
    let mut first = 0;
    for _ in 0..20 {
        let request = caller.request(&[]);
        first += u32::from(request.header("x-bloc-endpoints").expect("a list").starts_with(SERVER));
        caller.attempt(&request, 1, OTHER).answered(&[(":status", "200"), ("x-bloc-load", "chip=1")], true);
    }
    assert_eq!(first, 1);
}

#[test]
fn an_unreachable_application_is_retried_by_us_first_and_by_the_route_then() {
    let caller = Caller::new(r#""retries":1,"routeRetries":1,"retryBudget":1"#);
    let request = caller.request(&[]);
    // First our retries are left, then the route's, then none.
    for (number, [rejected, marked]) in (1..).zip([[true, false], [false, false], [false, true]]) {
        let mut attempt = caller.attempt(&request, number, SERVER);
        attempt.answered(&UNREACHABLE, true);
        let has = ["x-bloc-reject", "x-envoy-ratelimited"].map(|name| attempt.answer_has(name));
        assert_eq!(has, [rejected, marked], "attempt {number}");
    }
    assert_eq!(caller.counted("over_budget"), 0);
}

/// For example after a request timeout while the next attempt waits for a connection.
#[test]
fn only_an_answer_that_is_a_rejection_counts_as_one_without_retries_left() {
    let caller = Caller::new(r#""retries":2"#);
    for (answer, count) in [(&[(":status", "504")][..], 0), (&REJECTS, 1)] {
        let mut request = caller.request(&[]);
        caller.attempt(&request, 1, SERVER).answered(&REJECTS, true);
        request.answered(answer, true);
        assert!(!request.answer_has("x-bloc-reject"));
        // The filter did not forbid the retries that did not come.
        assert_eq!(["retries_exhausted", "retries_overflowed"].map(|name| caller.counted(name)), [count; 2]);
    }
}

#[test]
fn an_answer_of_no_attempt_reaches_the_caller_without_our_header() {
    let caller = Caller::new("");
    let mut request = caller.request(&[]);
    request.answered(&REJECTS, true);
    assert!(!request.answer_has("x-bloc-reject"));
}

#[test]
fn without_retries_of_ours_a_request_keeps_its_headers_for_envoys_router() {
    const NAMES: &str = "x-envoy-retriable-header-names";
    for (spec, keeps) in [(r#""retries":0"#, true), (r#""retries":1"#, false)] {
        let request = Caller::new(spec).request(&[(NAMES, "x-app")]);
        assert_eq!(request.header(NAMES).as_deref() == Some("x-app"), keeps, "{spec}");
        assert_eq!(request.header("x-envoy-max-retries").is_none(), keeps, "{spec}");
    }
}

#[test]
fn the_retry_budget_limits_what_the_route_retries() {
    for unreachable in [false, true] {
        let caller = Caller::new(r#""retries":0,"routeRetries":1,"retryBudget":0"#);
        let request = caller.request(&[]);
        let mut attempt = caller.attempt(&request, 1, SERVER);
        attempt.answered(if unreachable { &UNREACHABLE } else { &[(":status", "503")] }, true);
        assert!(attempt.answer_has("x-envoy-ratelimited"), "unreachable: {unreachable}");
        assert_eq!(caller.counted("over_budget"), 1);
    }
}

#[test]
fn an_attempt_without_our_key_is_counted_and_bids_by_its_number() {
    let bid = |own: &[(&str, &str)], number| {
        let caller = Caller::new(&format!(r#""routing":"bid","endpoints":["{SERVER}","{OTHER}","10.0.0.3:80"]"#));
        for _ in 0..20 {
            let mut attempt = caller.stray(&[], 1);
            caller.passes(Duration::from_millis(50));
            attempt.answered(&[(":status", "200"), ("x-bloc-load", "chip=1, queue=4, service=10")], true);
        }
        assert_eq!(caller.counted("attempts"), 20);
        caller.stray(own, number).header("x-bloc-bid").expect("a bid")
    };
    let first = bid(&[], 1);
    assert_ne!(first, "any");
    assert_ne!(bid(&[], 2), first);
    assert_eq!(bid(&[("content-length", "100")], 1), first);
    assert_eq!(bid(&[("content-length", "2000000")], 1), "any", "Envoy could not repeat it");
}

#[test]
fn without_bids_an_attempt_without_our_key_says_any() {
    let caller = Caller::new(&format!(r#""routing":"bloc","endpoints":["{SERVER}","{OTHER}"]"#));
    for _ in 0..20 {
        let mut attempt = caller.stray(&[], 1);
        caller.passes(Duration::from_millis(50));
        attempt.answered(&[(":status", "200"), ("x-bloc-load", "chip=1, queue=4, service=10")], true);
    }
    assert_eq!(caller.stray(&[], 1).header("x-bloc-bid").as_deref(), Some("any"));
}

/// It could not meet this request's deadline; others may have more time.
#[test]
fn a_server_that_rejects_for_a_deadline_at_once_keeps_its_chips() {
    for (reason, chips) in [("deadline", 1), ("capacity", 0)] {
        let caller = Caller::new(&format!(r#""endpoints":["{SERVER}","{OTHER}"]"#));
        let request = caller.request(&[]);
        caller.attempt(&request, 1, SERVER).answered(&[(":status", "200"), ("x-bloc-load", "chip=1")], true);
        let before = caller.chips(SERVER);
        let request = caller.request(&[]);
        let rejects = [REJECTS[0], REJECTS[1], ("x-bloc-reject", reason)];
        caller.attempt(&request, 1, SERVER).answered(&rejects, true);
        assert_eq!(caller.chips(SERVER), chips, "{reason}, {before} before");
    }
}

#[test]
fn only_rejections_for_the_capacity_end_bids() {
    for (reason, bids) in [("capacity", false), ("unreachable", true), ("deadline", true), ("news", true)] {
        let caller = Caller::new(&format!(r#""routing":"bid","endpoints":["{SERVER}","{OTHER}","10.0.0.3:80"]"#));
        for _ in 0..20 {
            let mut attempt = caller.stray(&[], 1);
            caller.passes(Duration::from_millis(50));
            attempt.answered(&[(":status", "200"), ("x-bloc-load", "chip=1, queue=4, service=10")], true);
        }
        for _ in 0..10 {
            let rejects = [REJECTS[0], REJECTS[1], ("x-bloc-reject", reason)];
            caller.stray(&[], 1).answered(&rejects, true);
        }
        assert_eq!(caller.counted("rejections"), 10, "{reason}");
        let bid = caller.stray(&[], 1).header("x-bloc-bid").expect("a bid");
        assert_eq!(bid != "any", bids, "{reason}: {bid}");
    }
}

/// The answer is complete, but its attempt lives until all of it is passed on.
#[test]
fn an_answer_that_ends_with_its_headers_is_not_looked_at() {
    for (ends, period) in [(true, SECOND * 5), (false, SECOND / 2)] {
        let mut caller = Caller::new(r#""streamIdle":"1s""#);
        let request = caller.request(&[]);
        let mut attempt = caller.attempt(&request, 1, SERVER);
        attempt.answered(&[(":status", "200")], ends);
        for _ in 0..4 {
            caller.passes(SECOND);
            caller.outbound.tick();
        }
        assert_eq!(caller.thread.process.periods.borrow()[&1], period, "ends: {ends}");
    }
}

#[test]
fn the_reason_of_a_rejection_names_the_attempt() {
    let caller = Caller::new(r#""retries":2,"debugHeaders":true"#);
    let request = caller.request(&[]);
    for number in 1..=3 {
        let mut attempt = caller.attempt(&request, number, SERVER);
        attempt.answered(&REJECTS, true);
        let response = attempt.stream.0.response.borrow().clone().expect("an answer");
        let why = String::from_utf8(response.borrow()["x-bloc-why"].clone()).expect("text");
        assert!(why.contains(&format!("attempt={number};")), "{why}");
    }
}

#[test]
fn an_error_is_counted_once_whether_headers_or_trailers_say_it() {
    let caller = Caller::new("");
    for (count, status, ends) in [(1, "200", false), (2, "503", false), (3, "503", true)] {
        let request = caller.request(&[]);
        let mut attempt = caller.attempt(&request, 1, SERVER);
        attempt.answered(&[(":status", status)], ends);
        attempt.stream.0.trailers.borrow_mut().insert("grpc-status".to_owned(), b"14".to_vec());
        attempt.filter.response_trailers();
        drop(attempt);
        assert_eq!(caller.counted("errors"), count, "{status}");
    }
}
