//! What happens when a VM traps.

use crate::support::{GET, admitted, inbound, metric, parameters, process};
use bloc_testhost::{Compile, FailurePolicy, Flow, Headers, Module, Process, Root, Stream, VmOptions, just_built};
use serde_json::json;
use std::collections::VecDeque;
use std::time::Duration;

/// A guest that traps at the request headers of every request.
const TRAPPING: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) unreachable))"#;

fn options(failure_policy: FailurePolicy) -> VmOptions {
    VmOptions { failure_policy, ..VmOptions::default() }
}

#[test]
fn after_a_trap_requests_pass_or_fail_as_the_policy_says() {
    let module = Module::new(TRAPPING.as_bytes(), Compile::Metered).unwrap();
    for (policy, passes) in [(FailurePolicy::Open, true), (FailurePolicy::Closed, false)] {
        let process = Process::new(&module, 1);
        let vm = process.vm(options(policy));
        let root = vm.root("any", "").unwrap();
        for _ in 0..2 {
            let flow = root.stream().request_headers(GET, true);
            assert_eq!(flow.continues(), passes, "{policy:?}: {flow:?}");
            assert!(vm.is_dead());
        }
        assert_eq!(process.take_log().len(), 1, "the trapped VM does not run again");
    }
}

#[test]
fn requests_pass_unchanged_after_our_vm_has_trapped() {
    let process = process(1);
    let root = inbound(&process, &json!({"capacity": {"estimator": "static", "limit": 1}}));
    let held = admitted(&root);
    root.vm().trap();
    let request = Headers::new(&[&GET[..], &[("x-custom", "kept")]].concat());
    let mut stream = root.stream();
    assert!(stream.request_headers(&request, true).continues(), "though the server is full");
    assert_eq!(request.text("x-custom").as_deref(), Some("kept"));
    stream.done();
    held.done();
    process.advance(Duration::from_secs(10));
    assert_eq!(
        metric(&process, "inbound", "in_flight"),
        Some(1),
        "the gauge outlives the VM, and nothing takes it back"
    );
}

#[test]
fn a_reloaded_vm_has_its_configuration_back() {
    let process = process(2);
    let vm = process.vm(options(FailurePolicy::Reload));
    let root = vm.root("bloc.inbound", parameters(&json!({"capacity": {"estimator": "static", "limit": 1}}))).unwrap();
    vm.trap();
    let flow = root.stream().request_headers(GET, true);
    assert!(matches!(flow, Flow::Reply(_)), "too early: {flow:?}");
    process.advance(Duration::from_secs(2));
    let first = admitted(&root);
    assert!(!vm.is_dead());
    let second = root.stream().request_headers(GET, true);
    assert_eq!(second.reply().map(|reply| reply.status()), Some(429), "the configuration is in force again");
    first.done();
}

/// Each worker gets a request every millisecond, which stays for ten. One worker has a dozen that
/// stay.
struct Load {
    process: Process,
    workers: Vec<Root>,
    running: VecDeque<(Duration, Stream)>,
}

impl Load {
    fn serves(&mut self, time: Duration) {
        let end = self.process.now() + time;
        while self.process.now() < end {
            self.process.advance(Duration::from_millis(1));
            let now = self.process.now();
            while self.running.front().is_some_and(|(came, _)| now >= *came + Duration::from_millis(10)) {
                let (_, mut stream) = self.running.pop_front().unwrap();
                stream.response_headers([(":status", "200")], true);
                stream.done();
            }
            for worker in &self.workers {
                let mut stream = worker.stream();
                if stream.request_headers(GET, true).continues() {
                    self.running.push_back((now, stream));
                }
            }
        }
    }

    /// The requests that are certainly in flight: not those of a dead VM.
    fn living(&self) -> u64 {
        self.running.len() as u64
    }
}

/// The count must recover, whatever ends the VM, and whether or not its code still runs then.
fn the_count_is_true_again(trap: impl FnOnce(&Root)) {
    let module = just_built().unwrap_or_else(|error| panic!("{error}")).with_file_name("crash.wasm");
    let process = Process::new(&Module::from_file(&module, Compile::Metered).unwrap(), 3);
    let root = || {
        let spec = json!({"capacity": {"estimator": "static", "limit": 1000}});
        process.vm(options(FailurePolicy::Reload)).root("bloc.inbound", parameters(&spec)).unwrap()
    };
    let mut load = Load { process: process.clone(), workers: vec![root(), root()], running: VecDeque::new() };
    load.serves(Duration::from_secs(2));
    let lost: Vec<Stream> = (0..12).map(|_| admitted(&load.workers[0])).collect();
    let here = load.workers[0].vm().clone();
    load.serves(Duration::from_millis(20));
    let in_flight = || metric(&process, "inbound", "in_flight").unwrap();
    assert_eq!(in_flight(), load.living() + 12);
    trap(&load.workers[0]);
    assert!(here.is_dead());
    // Envoy answers them; no callback runs for them any more.
    load.serves(Duration::from_secs(5));
    for _ in 0..200 {
        load.serves(Duration::from_millis(10));
        assert_eq!(in_flight(), load.living(), "and stays true");
        assert_eq!(metric(&process, "inbound", "in_flight_recount"), Some(0));
    }
    assert!(!here.is_dead(), "a new one");
    drop(lost);
}

#[test]
fn the_count_recovers_from_an_allocation_trap_within_five_seconds() {
    the_count_is_true_again(|root| {
        let request = [&GET[..], &[("x-bloc-crash", "memory")]].concat();
        assert!(matches!(root.stream().request_headers(request.as_slice(), true), Flow::Reply(_)));
    });
}

#[test]
fn the_count_recovers_within_five_seconds_after_the_host_ends_a_vm() {
    the_count_is_true_again(|root| root.vm().trap());
}
