//! What happens when a VM traps.

use crate::support::{GET, admitted, inbound, metric, parameters, process};
use bloc_testhost::{Compile, FailurePolicy, Flow, Headers, Module, Process, VmOptions};
use serde_json::json;
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
        assert_eq!(process.take_log().len(), 1, "dead code does not run");
    }
}

#[test]
fn when_our_vm_is_dead_requests_pass_untouched() {
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
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(1), "the gauge outlives the VM, and nobody counts out");
}

#[test]
fn a_reloaded_vm_has_its_plugins_again() {
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
