//! Incoming requests: which are held and for how long, what responses say, and what counts.

use crate::host::{FakeHost, FakeStream, Process, Seen};
use crate::mesh::headers;
use crate::thread::{SECOND, Thread, came};
use bloc_engine::filter::Filter;
use bloc_engine::root::Root;
use std::time::Duration;

const TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";
const ORCA: &str = "endpoint-load-metrics";
const SPEAKS: (&str, &str) = ("x-bloc-bid", "any");
/// An application's response, with what Envoy adds.
pub const ANSWER: [(&str, &str); 4] =
    [(":status", "200"), ("content-type", "text/plain"), ("date", "today"), ("server", "envoy")];

pub struct Server {
    pub thread: Thread,
    pub root: Root<FakeHost>,
}

pub struct Request {
    pub stream: FakeStream,
    filter: Box<dyn Filter>,
}

impl Server {
    pub fn new(spec: &str) -> Self {
        Self::on(Thread::of(&Process::new(1)), spec)
    }

    /// One of several threads.
    pub fn on(thread: Thread, spec: &str) -> Self {
        let root = thread.plug(1, "bloc.inbound", &format!(r#"{{"service":"s","services":{{"s":{{{spec}}}}}}}"#));
        Self { thread, root }
    }

    pub fn comes(&self, own: &[(&str, &str)]) -> Request {
        self.comes_with(own, 0)
    }

    /// A request whose response will have these flags.
    fn comes_with(&self, own: &[(&str, &str)], flags: u64) -> Request {
        let (stream, filter) = came(&self.root, Seen { request: headers(own), flags, ..Seen::default() });
        Request { stream, filter }
    }

    /// Time passes, with a tick each second.
    pub fn ticks(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.thread.tick(&mut self.root));
    }

    pub fn hears(&self) {
        self.thread.observe(&self.root);
    }

    pub fn counted(&self, name: &str) -> i64 {
        self.thread.engine.vm().flush();
        self.thread.metric(name).unwrap_or(0)
    }

    pub fn period(&self) -> Duration {
        self.thread.process.periods.borrow()[&1]
    }
}

impl Request {
    pub fn status(&self) -> Option<u32> {
        self.stream.0.reply.borrow().as_ref().map(|local| local.status)
    }

    /// Whether it is held, without an answer.
    pub fn waits(&self) -> bool {
        !self.entered() && self.status().is_none()
    }

    pub fn entered(&self) -> bool {
        self.stream.0.resumed.get()
    }

    pub fn answered(&mut self, answer: &[(&str, &str)], ends: bool) {
        self.stream.0.response.replace(Some(headers(answer)));
        self.filter.response_headers(ends);
    }

    fn said(&self, name: &str) -> Option<String> {
        let response = self.stream.0.response.borrow();
        let value = response.as_ref().expect("an answer").borrow().get(name).cloned();
        value.map(|value| String::from_utf8(value).expect("text"))
    }
}

#[test]
fn a_held_request_that_was_let_in_is_measured_and_reports_the_load() {
    let server = Server::new(r#""routing":"bloc","concurrency":1,"hold":true"#);
    let inside = server.comes(&[]);
    let mut held = server.comes(&[SPEAKS]);
    drop(inside);
    server.hears();
    assert!(held.entered());
    held.answered(&ANSWER, true);
    assert_eq!(held.said("x-bloc-load").as_deref(), Some("chip=1, queue=0, exec=0"));
    assert_eq!(server.counted("departed"), 1);
}

/// Without this sign of life the other threads would give its place away.
#[test]
fn a_thread_ticks_four_times_a_second_while_a_request_has_a_place() {
    let mut server = Server::new(r#""concurrency":1,"hold":true"#);
    server.ticks(3);
    assert_eq!(server.period(), SECOND * 5);
    let inside = server.comes(&[]);
    assert_eq!(server.period(), SECOND / 4);
    drop(inside);
    server.ticks(2);
    assert_eq!(server.period(), SECOND * 5);
}

#[test]
fn a_held_request_that_is_late_soon_makes_the_thread_tick_every_50_ms() {
    for (wait, period) in [("301ms", SECOND / 4), ("300ms", SECOND / 20)] {
        let server = Server::new(&format!(r#""concurrency":1,"hold":true,"maxQueueWait":"{wait}""#));
        let _requests = [server.comes(&[]), server.comes(&[])];
        assert_eq!(server.period(), period, "{wait}");
    }
}

#[test]
fn a_service_without_a_limit_writes_nothing_of_places() {
    for (spec, writes) in [("", false), (r#""concurrency":1,"hold":true"#, true)] {
        let mut server = Server::new(spec);
        let _inside = server.comes(&[]);
        server.ticks(3);
        assert_eq!(server.thread.process.keys().iter().any(|key| key.contains("hall3")), writes, "{spec}");
    }
}

/// The service rate (requests/s) in the load report.
fn rate(server: &Server) -> Option<f64> {
    let mut request = server.comes(&[SPEAKS]);
    request.answered(&ANSWER, true);
    let load = request.said("x-bloc-load").expect("a report");
    load.split(", ").find_map(|part| part.strip_prefix("rate=")).map(|rate| rate.parse().expect("a number"))
}

#[test]
fn the_rate_falls_while_a_request_is_stuck_and_is_unknown_without_requests() {
    for stuck in [false, true] {
        let mut server = Server::new("");
        for _ in 0..300 {
            let mut request = server.comes(&[]);
            server.thread.process.advance(SECOND / 100);
            request.answered(&ANSWER, true);
        }
        let before = rate(&server).expect("a rate");
        let inside = stuck.then(|| server.comes(&[]));
        server.ticks(20);
        drop(inside);
        let after = rate(&server);
        assert_eq!(after.is_some_and(|after| after < before * 0.9), stuck, "{before}, then {after:?}");
        assert_eq!(after.is_none(), !stuck);
    }
}

/// Only then does the rate say how fast the server is.
#[test]
fn a_departure_is_confident_if_requests_were_waiting_in_the_application() {
    for (in_flight, confident) in [(1, false), (4, true)] {
        let server = Server::new(r#""concurrency":1,"hold":false"#);
        let mut inside: std::collections::VecDeque<Request> = (0..in_flight).map(|_| server.comes(&[])).collect();
        for _ in 0..300 {
            server.thread.process.advance(SECOND / 100);
            inside.pop_front().expect("a request").answered(&ANSWER, true);
            inside.push_back(server.comes(&[]));
        }
        assert_eq!(server.counted("departed_confident") > 100, confident, "{in_flight}");
    }
}

#[test]
fn a_panic_answers_the_requests_that_are_held_and_no_others() {
    let server = Server::new(r#""concurrency":1,"hold":true"#);
    let inside = server.comes(&[]);
    let [first, second] = [server.comes(&[]), server.comes(&[])];
    drop(inside);
    server.hears();
    assert_eq!((first.entered(), second.entered()), (true, false));
    server.thread.engine.recover();
    assert_eq!((first.status(), second.status()), (None, Some(503)));
}

/// Envoy writes 0 where a route has no timeout.
#[test]
fn a_timeout_of_zero_is_no_deadline() {
    for (timeout, status) in [("0", None), ("100", Some(429))] {
        let mut server = Server::new(r#""concurrency":1,"hold":true,"maxQueueWait":"10s""#);
        let _inside = server.comes(&[]);
        let held = server.comes(&[(TIMEOUT, timeout)]);
        server.ticks(1);
        assert_eq!(held.status(), status, "{timeout}");
    }
}

/// Envoy's flags: no healthy upstream, connection failure, overflow; and no retry left.
#[test]
fn an_answer_of_envoys_own_without_a_connection_is_a_rejection() {
    let own = [(":status", "503"), ("content-type", "text/plain"), ("content-length", "19")];
    let grpc = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "14"), ("grpc-message", "")];
    let rejected = |caller: &[(&str, &str)], flags: u64, answer: &[(&str, &str)], ends: bool| {
        let server = Server::new("");
        let mut request = server.comes_with(caller, flags);
        request.answered(answer, ends);
        let reason = request.said("x-bloc-reject");
        let counts = ["rejected_unreachable", "departed"].map(|name| server.counted(name));
        // Whoever answers with 503, that says nothing of the application's speed.
        let measured = i64::from(answer[0].1 == "200" && !answer.iter().any(|(name, _)| *name == "grpc-status"));
        assert_eq!(counts, if reason.is_some() { [1, 0] } else { [0, measured] });
        assert!(reason.is_none() || request.said("x-bloc-load").as_deref() == Some("chip=0, queue=0"));
        reason.is_some()
    };
    for flags in [0x2, 0x20, 0x80, 0x2 | 0x80, 0x2 | 0x8000, 0x20 | 0x8000, 0x80 | 0x8000] {
        assert!(rejected(&[SPEAKS], flags, &own, false), "{flags:#x}");
        assert!(rejected(&[SPEAKS], flags, &grpc, true), "{flags:#x}");
        assert!(!rejected(&[SPEAKS], flags, &ANSWER, false), "{flags:#x}: an application's answer");
        assert!(!rejected(&[], flags, &own, false), "{flags:#x}: to a caller without our filters");
    }
    // Users add headers to every answer, and Envoy to that of a circuit breaker.
    let more: Vec<_> =
        own.iter().chain(&[("x-envoy-overloaded", "true"), ("x-a", "1"), ("x-b", "2")]).copied().collect();
    assert!(rejected(&[SPEAKS], 0x80, &more, false) && !rejected(&[SPEAKS], 0, &more, false));
    for flags in [0, 0x4, 0x8000, 0x2 | 0x4, 0x20 | 0x40, 0x80 | 0x1] {
        assert!(!rejected(&[SPEAKS], flags, &own, false), "{flags:#x}: the application may have seen it");
    }
}

/// The application has one place, and does not work on them any more.
#[test]
fn requests_without_an_answer_take_no_part_in_the_execution_time_of_others() {
    let own = [(":status", "503"), ("content-type", "text/plain"), ("content-length", "19")];
    for unreachable in [false, true] {
        let server = Server::new(r#""concurrency":1,"hold":false"#);
        let mut lost = server.comes_with(&[SPEAKS], 0x2);
        let mut served = server.comes(&[SPEAKS]);
        if unreachable {
            lost.answered(&own, false);
        }
        drop(lost);
        server.thread.process.advance(SECOND / 10);
        served.answered(&ANSWER, true);
        let load = served.said("x-bloc-load").expect("a report");
        assert!(load.contains("exec=100"), "unreachable: {unreachable}: {load}");
    }
}

#[test]
fn an_answer_that_says_that_the_application_failed_or_is_overloaded_is_not_measured() {
    let grpc = |status| [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", status)];
    for (answer, ends, measured) in [
        (&[(":status", "200")][..], false, 1),
        (&[(":status", "204")], true, 1),
        (&[(":status", "404")], false, 1),
        (&[(":status", "429")], false, 0),
        (&[(":status", "500")], false, 0),
        (&[(":status", "503")], true, 0),
        (&grpc("0"), true, 1),
        (&grpc("5"), true, 1),
        (&grpc("8"), true, 0),
        (&grpc("13"), true, 0),
        (&grpc("14"), true, 0),
        (&grpc("14"), false, 1),
    ] {
        let server = Server::new("");
        let mut request = server.comes(&[SPEAKS]);
        request.answered(answer, ends);
        let load = if measured > 0 { "chip=1, queue=0, exec=0" } else { "chip=1, queue=0" };
        assert_eq!(request.said("x-bloc-load").as_deref(), Some(load), "{answer:?}");
        assert_eq!(server.counted("departed"), measured, "{answer:?}");
    }
}

#[test]
fn reports_orca_where_it_is_enabled_and_a_rate_is_known() {
    for (orca, on) in [("", false), (r#","orca":true"#, true)] {
        let server = Server::new(&format!(r#""capacity":{{"estimator":"static","limit":1}}{orca}"#));
        let tells = |known: bool| {
            let mut request = server.comes(&[]);
            let rejected = server.comes(&[]);
            let local = rejected.stream.0.reply.borrow().clone().expect("an answer");
            assert_eq!(local.headers.iter().any(|(name, _)| name == ORCA), on && known, "a rejection");
            server.thread.process.advance(SECOND / 100);
            request.answered(&ANSWER, true);
            request.said(ORCA).is_some()
        };
        assert!(!tells(false));
        for _ in 0..300 {
            let mut request = server.comes(&[]);
            server.thread.process.advance(SECOND / 100);
            request.answered(&ANSWER, true);
        }
        assert_eq!(tells(true), on);
    }
}
