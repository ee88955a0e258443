//! Latencies in the reports: what a server and what a caller measures, and that each request is in
//! one report.

use crate::host::{FakeHost, FakeStream, Process, Seen};
use crate::mesh::headers;
use crate::thread::{Thread, came};
use bloc_engine::filter::Filter;
use bloc_engine::host::PostAnswer;
use bloc_engine::root::Root;
use bloc_policy::proxy::roster;
use bloc_policy::proxy::shared::Shared;
use bloc_policy::sync::latency::dispersion::Slots;
use bloc_policy::sync::latency::histogram::bucket;
use bloc_policy::sync::latency::store::{Side, hand_over};
use bloc_policy::sync::latency::{Calls, Growth, Histogram};
use bloc_policy::sync::{ServiceCalls, SyncRequest};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Headers of an answer.
type Headers = &'static [(&'static str, &'static str)];

const GOOD: Headers = &[(":status", "200")];
const BROKEN: Headers = &[(":status", "500")];
const REJECTS: Headers = &[(":status", "429"), ("x-bloc-load", "chip=0"), ("x-bloc-reject", "capacity")];

/// A sidecar in front of `s`, which calls `backend`.
struct Sidecar {
    process: Rc<Process>,
    thread: Thread,
    inbound: Root<FakeHost>,
    outbound: Root<FakeHost>,
    attempts: Root<FakeHost>,
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A histogram of these times, in milliseconds.
fn times(times: &[u64]) -> Histogram {
    let mut counts = BTreeMap::new();
    times.iter().for_each(|time| *counts.entry(bucket(*time * 1_000_000)).or_insert(0) += 1);
    Histogram { sum_us: times.iter().sum::<u64>() * 1_000, counts: counts.into_iter().collect() }
}

impl Sidecar {
    fn of(process: &Rc<Process>) -> Self {
        let thread = Thread::of(process);
        let services = r#"{"s":{"concurrency":1,"hold":true,"capacity":{"estimator":"static","limit":2}},"backend":{"retries":1,"routeRetries":1,"retryBudget":1}}"#;
        let control_plane = r#"{"cluster":"a","wait":"30s"}"#;
        let configuration = format!(r#"{{"service":"s","services":{services},"controlPlane":{control_plane}}}"#);
        let inbound = thread.plug(1, "bloc.inbound", &configuration);
        let outbound = thread.plug(2, "bloc.outbound", &format!(r#"{{"services":{services}}}"#));
        let attempts = thread.plug(3, "bloc.attempt", "");
        Self { process: Rc::clone(process), thread, inbound, outbound, attempts }
    }

    /// The only thread, whose control plane takes latencies.
    fn new() -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let mut sidecar = Self::of(&process);
        sidecar.ticks(1);
        sidecar.report(true);
        sidecar
    }

    fn ticks(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.thread.tick(&mut self.inbound));
    }

    fn comes(&self) -> (FakeStream, Box<dyn Filter>) {
        came(&self.inbound, Seen { request: headers(&[("x-bloc-bid", "any")]), ..Seen::default() })
    }

    /// A call whose attempts are answered after these times; none: Envoy answers.
    fn calls(&self, answers: &[(u64, Option<Headers>)]) {
        let (stream, mut filter) = came(&self.outbound, Seen::default());
        for (number, (took, answer)) in (1..).zip(answers) {
            let (request, address) = (Rc::clone(&stream.0.request), Some("10.0.0.1:80".to_owned()));
            let seen = Seen { request, address, attempts: Some(number), ..Seen::default() };
            let (attempt, mut sent) = came(&self.attempts, seen);
            self.process.advance(millis(*took));
            if let Some(answer) = answer {
                attempt.0.response.replace(Some(headers(answer)));
                sent.response_headers(true);
                stream.0.response.replace(attempt.0.response.borrow().clone());
            } else {
                stream.0.response.replace(Some(headers(&[(":status", "504")])));
            }
        }
        filter.response_headers(true);
    }

    /// The last poll is answered, its report counted or not; returns the next one.
    fn report(&mut self, counted: bool) -> SyncRequest {
        let replica = counted.then(|| b"00000000000000aa".to_vec());
        let answer = PostAnswer { status: b"304".to_vec(), replica, ..PostAnswer::default() };
        let token = self.process.calls.borrow().len();
        self.ticks(1);
        self.inbound.call_answered(token as u32, Some(&answer));
        self.ticks(2);
        let calls = self.process.calls.borrow();
        assert_eq!(calls.len(), token + 1);
        let body = calls.last().expect("a poll");
        assert!(body.len() < 40 << 10, "{} bytes", body.len());
        serde_json::from_slice(body).expect("a question")
    }
}

fn answer((stream, filter): &mut (FakeStream, Box<dyn Filter>)) {
    stream.0.response.replace(Some(headers(GOOD)));
    filter.response_headers(true);
}

#[test]
fn a_server_reports_response_and_execution_times() {
    let mut sidecar = Sidecar::new();
    let (mut first, mut held) = (sidecar.comes(), sidecar.comes());
    sidecar.process.advance(millis(100));
    answer(&mut first);
    drop(first);
    sidecar.thread.observe(&sidecar.inbound);
    sidecar.process.advance(millis(70));
    answer(&mut held);
    drop(held);
    sidecar.ticks(1);
    let [load] = <[_; 1]>::try_from(sidecar.report(true).load).expect("one service");
    let latency = load.latency.expect("latencies");
    assert_eq!((latency.response, latency.execution), (times(&[100, 170]), times(&[100, 70])));
    // 20 s later the block of their arrivals is over.
    sidecar.ticks(20);
    let [load] = <[_; 1]>::try_from(sidecar.report(true).load).expect("one service");
    let latency = load.latency.expect("blocks");
    assert!(latency.response.is_empty() && latency.arrivals.len() == 5, "{latency:?}");
}

#[test]
fn a_caller_reports_how_its_calls_end_as_users_see_them() {
    let mut sidecar = Sidecar::new();
    sidecar.calls(&[(50, Some(GOOD))]);
    sidecar.calls(&[(30, Some(REJECTS)), (25, Some(GOOD))]);
    sidecar.calls(&[(30, Some(REJECTS)), (15, Some(REJECTS))]);
    // Envoy did not retry it, although one retry was left.
    sidecar.calls(&[(40, Some(REJECTS))]);
    sidecar.calls(&[(20, Some(BROKEN)), (10, Some(GOOD))]);
    sidecar.calls(&[(20, Some(BROKEN)), (11, Some(BROKEN))]);
    sidecar.calls(&[(200, None)]);
    sidecar.calls(&[(20, Some(BROKEN)), (15, None)]);
    // Its user leaves before there is an answer.
    drop(came(&sidecar.outbound, Seen::default()));
    sidecar.ticks(1);
    let calls = Calls { requests: 8, failed: 3, exhausted: 2, overflowed: 1, retried: 5, refused: 0 };
    let expected = ServiceCalls::new("backend", calls, times(&[50, 55, 45, 40, 30, 31, 200, 35]));
    assert_eq!(sidecar.report(true).calls, [expected]);
    assert_eq!(sidecar.report(true).calls, []);
}

#[test]
fn a_call_that_is_refused_for_the_slo_has_no_time() {
    let mut sidecar = Sidecar::new();
    let mu = r#"{"services":{"mu":{"routing":"mu","slo":"1ms","endpoints":["10.0.0.1:80"]}}}"#;
    let outbound = sidecar.thread.plug(4, "bloc.outbound", mu);
    let seen = || Seen { cluster: Some("mu".to_owned()), ..Seen::default() };
    let (stream, mut filter) = came(&outbound, seen());
    let (request, address) = (Rc::clone(&stream.0.request), Some("10.0.0.1:80".to_owned()));
    let (attempt, mut sent) = came(&sidecar.attempts, Seen { request, address, attempts: Some(1), ..seen() });
    sidecar.process.advance(millis(40));
    let busy = [(":status", "200"), ("x-bloc-load", "chip=0, queue=100, service=10")];
    for stream in [&attempt, &stream] {
        stream.0.response.replace(Some(headers(&busy)));
    }
    sent.response_headers(true);
    filter.response_headers(true);
    let (refused, _) = came(&outbound, seen());
    assert_eq!(refused.0.reply.borrow().as_ref().map(|reply| reply.status), Some(503));
    sidecar.ticks(1);
    sidecar.report(true);
    // The service is new to the control plane, so a poll of its own asked for it, and reported.
    let polls = sidecar.process.calls.borrow();
    let poll = |body: &Vec<u8>| serde_json::from_slice::<SyncRequest>(body).expect("a question");
    let calls: Vec<ServiceCalls> = polls.iter().flat_map(|body| poll(body).calls).collect();
    let counted = Calls { requests: 2, refused: 1, ..Calls::default() };
    assert_eq!(calls, [ServiceCalls::new("mu", counted, times(&[40]))]);
}

/// An error over gRPC, after a good beginning.
#[test]
fn a_call_whose_trailers_say_so_has_failed() {
    let mut sidecar = Sidecar::new();
    let (stream, mut filter) = came(&sidecar.outbound, Seen::default());
    let (request, address) = (Rc::clone(&stream.0.request), Some("10.0.0.1:80".to_owned()));
    let trailers = headers(&[("grpc-status", "14")]);
    let seen = Seen { request, address, attempts: Some(1), trailers, ..Seen::default() };
    let (attempt, mut sent) = came(&sidecar.attempts, seen);
    sidecar.process.advance(millis(40));
    for stream in [&attempt, &stream] {
        stream.0.response.replace(Some(headers(GOOD)));
    }
    sent.response_headers(false);
    filter.response_headers(false);
    sent.response_trailers();
    sidecar.ticks(1);
    let calls = Calls { requests: 1, failed: 1, ..Calls::default() };
    assert_eq!(sidecar.report(true).calls, [ServiceCalls::new("backend", calls, times(&[40]))]);
}

/// Envoy has sent it to a server that is not in the list.
#[test]
fn a_call_to_an_unlisted_server_has_a_time_too() {
    let mut sidecar = Sidecar::new();
    let listed = r#"{"services":{"listed":{"endpoints":["10.0.0.1:80"]}}}"#;
    let outbound = sidecar.thread.plug(4, "bloc.outbound", listed);
    let seen = || Seen { cluster: Some("listed".to_owned()), ..Seen::default() };
    let (stream, mut filter) = came(&outbound, seen());
    let (request, address) = (Rc::clone(&stream.0.request), Some("10.0.0.9:80".to_owned()));
    let (attempt, mut sent) = came(&sidecar.attempts, Seen { request, address, attempts: Some(1), ..seen() });
    sidecar.process.advance(millis(40));
    for stream in [&attempt, &stream] {
        stream.0.response.replace(Some(headers(GOOD)));
    }
    sent.response_headers(true);
    filter.response_headers(true);
    sidecar.ticks(1);
    sidecar.report(true);
    let polls = sidecar.process.calls.borrow();
    let poll = |body: &Vec<u8>| serde_json::from_slice::<SyncRequest>(body).expect("a question");
    let calls: Vec<ServiceCalls> = polls.iter().flat_map(|body| poll(body).calls).collect();
    assert_eq!(calls, [ServiceCalls::new("listed", Calls { requests: 1, ..Calls::default() }, times(&[40]))]);
}

/// A thread that has handed something over ticks again in a second.
#[test]
fn counts_and_latencies_are_handed_over_together() {
    let sidecar = Sidecar::new();
    let vm = sidecar.thread.engine.vm();
    for work in [&|| sidecar.calls(&[(10, Some(GOOD))]), &|| answer(&mut sidecar.comes())] as [&dyn Fn(); 2] {
        assert!(!vm.flush() && !vm.has_counted());
        work();
        assert!(vm.has_counted() && vm.flush());
    }
    // Counts alone: a call that is not over, and a rejection.
    let _call = came(&sidecar.outbound, Seen::default());
    assert!(vm.has_counted() && vm.flush());
    let _inside = [sidecar.comes(), sidecar.comes()];
    assert!(vm.flush() && !vm.has_counted());
    assert!(sidecar.comes().0.0.reply.borrow().is_some());
    assert!(vm.has_counted() && vm.flush());
}

#[test]
fn an_arrival_is_handed_over_before_its_answer() {
    let sidecar = Sidecar::new();
    let handed_over = || {
        sidecar.thread.engine.vm().flush();
        sidecar.thread.host.get("bloc/latency/server/s").0
    };
    assert_eq!(handed_over(), None);
    let mut inside = sidecar.comes();
    let arrived = handed_over();
    assert!(arrived.is_some());
    answer(&mut inside);
    assert_ne!(handed_over(), arrived);
}

#[test]
fn what_was_not_counted_is_reported_again() {
    for (counted, again) in [(true, Histogram::default()), (false, times(&[40]))] {
        let mut sidecar = Sidecar::new();
        sidecar.calls(&[(40, Some(GOOD))]);
        sidecar.ticks(1);
        assert_eq!(sidecar.report(true).calls[0].latency, times(&[40]));
        let next = sidecar.report(counted).calls.pop().unwrap_or_default();
        assert_eq!(next.latency, again, "counted: {counted}");
    }
}

/// The thread that polls reports what all have measured; one that is lost takes with it what it has
/// not handed over for a second.
#[test]
fn a_lost_thread_loses_a_second_of_counts() {
    let mut sidecar = Sidecar::new();
    let lost = Sidecar::of(&sidecar.process);
    for _ in 0..10 {
        lost.calls(&[(100, Some(GOOD))]);
    }
    lost.process.advance(millis(1));
    lost.calls(&[(40, Some(GOOD))]);
    // The host ends it: none of its code runs any more.
    std::mem::forget(lost);
    let calls = sidecar.report(true).calls;
    assert_eq!(calls[0].latency, times(&[100; 10]), "without the last one");
}

#[test]
fn a_report_holds_services_in_turn() {
    let mut sidecar = Sidecar::new();
    let names: Vec<String> =
        (0..60).map(|nth| format!("service-{nth:02}.a-long-namespace.svc.cluster.local")).collect();
    roster::announce(&sidecar.thread.host, &names.iter().cloned().collect());
    let wide = Histogram { sum_us: 1, counts: (0..146).map(|bucket| (bucket, 1_000_000)).collect() };
    for name in &names {
        let growth = Growth { numbers: vec![1], histograms: vec![wide.clone()] };
        hand_over(&sidecar.thread.host, Side::Caller, name, &growth, &Slots::default(), sidecar.process.now());
    }
    let (mut reported, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let report = sidecar.report(true);
        reported.extend(report.calls.into_iter().map(|calls| calls.service));
        waits.push(report.wait.expect("a wait"));
    }
    reported.sort();
    assert_eq!(reported, names);
    let soon = waits.iter().filter(|wait| *wait == "1000ms").count();
    assert!((3..6).contains(&soon) && waits.last().is_some_and(|wait| wait == "30000ms"), "{waits:?}");
}
