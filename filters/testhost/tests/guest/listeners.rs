//! The host itself: root contexts come and go with listeners, as in Envoy's Proxy-Wasm host
//! (`wasm.cc`, `context.cc`, `shared_queue.cc`).

use bloc_testhost::{Compile, Module, Process, VmOptions};
use std::time::Duration;

/// A guest that logs each callback of a root context as a letter and the context. It refuses an
/// empty configuration, ticks ten times a second, has a queue, makes a call, and cleans nothing up.
/// At a stream's request headers it puts a message into the queue.
const TELLING: &str = r#"(module
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $period (param i32) (result i32)))
  (import "env" "proxy_register_shared_queue" (func $register (param i32 i32 i32) (result i32)))
  (import "env" "proxy_enqueue_shared_queue" (func $enqueue (param i32 i32 i32) (result i32)))
  (import "env" "proxy_http_call"
    (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "queue")
  (data (i32.const 32) "app")
  (data (i32.const 64) "\03\00\00\00\05\00\00\00\01\00\00\00\07\00\00\00\03\00\00\00\0a\00\00\00\01\00\00\00:path\00/\00:method\00GET\00:authority\00a\00")
  (func $say (param $what i32) (param $context i32)
    (i32.store8 (i32.const 0) (local.get $what))
    (i32.store8 (i32.const 1) (i32.add (i32.const 48) (local.get $context)))
    (drop (call $log (i32.const 2) (i32.const 0) (i32.const 2))))
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 4096))
  (func (export "proxy_on_context_create") (param i32 i32)
    (if (i32.eqz (local.get 1)) (then (call $say (i32.const 110) (local.get 0)))))
  (func (export "proxy_on_configure") (param i32 i32) (result i32)
    (call $say (i32.const 99) (local.get 0))
    (drop (call $period (i32.const 100)))
    (drop (call $register (i32.const 16) (i32.const 5) (i32.const 8)))
    (drop (call $call (i32.const 32) (i32.const 3) (i32.const 64) (i32.const 61)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 60000) (i32.const 12)))
    (i32.ne (local.get 1) (i32.const 0)))
  (func (export "proxy_on_tick") (param i32) (call $say (i32.const 116) (local.get 0)))
  (func (export "proxy_on_queue_ready") (param i32 i32) (call $say (i32.const 113) (local.get 0)))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (drop (call $enqueue (i32.load (i32.const 8)) (i32.const 0) (i32.const 1)))
    (i32.const 0))
  (func (export "proxy_on_done") (param i32) (result i32)
    (call $say (i32.const 100) (local.get 0)) (i32.const 1))
  (func (export "proxy_on_delete") (param i32) (call $say (i32.const 120) (local.get 0))))"#;

fn process() -> Process {
    Process::new(&Module::new(TELLING.as_bytes(), Compile::Metered).unwrap(), 1).with_cluster("app")
}

/// The log without the ticks.
fn said(process: &Process) -> Vec<String> {
    process.take_log().into_iter().map(|line| line.text).filter(|text| !text.starts_with('t')).collect()
}

fn ticked(process: &Process, time: Duration) -> Vec<String> {
    process.take_log();
    process.advance(time);
    process.take_log().into_iter().map(|line| line.text).collect()
}

const TICK: Duration = Duration::from_millis(100);
const DRAIN: Duration = Duration::from_secs(5);

#[test]
fn tries_a_configuration_once_and_then_creates_it_in_each_thread() {
    let process = process();
    let [one, two] = [0, 1].map(|_| process.vm(VmOptions::default()));
    let _first = one.listen("any", "name", "a").unwrap();
    assert_eq!(said(&process), ["n1", "c1", "n1", "c1"], "on the main thread, where it is killed; and here");
    let _second = two.listen("any", "name", "a").unwrap();
    assert_eq!(said(&process), ["n1", "c1"]);
    assert_eq!(process.http_calls().len(), 2, "that of the first one went with its VM");
    assert!(one.listen("any", "name", "").is_err());
    assert_eq!(said(&process), ["n1", "c1"], "on the main thread only");
    assert!(two.listen("any", "name", "").is_err());
    assert_eq!(said(&process).len(), 0, "it is known to be refused");
}

#[test]
fn listeners_with_equal_configuration_share_a_root_context() {
    let process = process();
    let vm = process.vm(VmOptions::default());
    let first = vm.listen("any", "name", "a").unwrap();
    let same = vm.listen("any", "name", "a").unwrap();
    let others = [("any", "other", "a"), ("any", "name", "b"), ("other", "name", "a")]
        .map(|(root_id, name, configuration)| vm.listen(root_id, name, configuration).unwrap());
    assert!(same.reused() && others.iter().all(|listener| !listener.reused()));
    assert_eq!(vm.contexts(), 4);
    said(&process);
    drop(first);
    assert_eq!(said(&process).len(), 0);
    drop(same);
    assert_eq!(said(&process), ["d1", "x1"]);
    drop(others);
}

#[test]
fn a_draining_root_context_is_reused_without_being_configured() {
    let process = process();
    let vm = process.vm(VmOptions::default());
    let _stays = vm.listen("any", "stays", "a").unwrap();
    let first = vm.listen("any", "name", "a").unwrap();
    process.drain(first, DRAIN);
    process.advance(DRAIN - TICK);
    said(&process);
    let again = vm.listen("any", "name", "a").unwrap();
    assert!(again.reused());
    process.drain(again, DRAIN);
    process.advance(DRAIN - TICK);
    assert_eq!(said(&process).len(), 0);
    process.advance(TICK);
    assert_eq!(said(&process), ["d2", "x2"]);
    assert!(!vm.listen("any", "name", "a").unwrap().reused());
    assert_eq!(said(&process), ["n3", "c3", "d3", "x3"]);
}

#[test]
fn an_open_stream_keeps_its_root_context_alive() {
    let process = process();
    let vm = process.vm(VmOptions::default());
    let _stays = vm.listen("any", "stays", "a").unwrap();
    let listener = vm.listen("any", "name", "a").unwrap();
    let mut stream = listener.stream();
    assert!(stream.request_headers([(":path", "/")], true).continues());
    process.drain(listener, DRAIN);
    process.advance(DRAIN * 2);
    assert_eq!(vm.contexts(), 3);
    said(&process);
    stream.done();
    assert_eq!(said(&process), ["d3", "x3", "d2", "x2"], "the stream, then its plugin");
}

#[test]
fn calls_timers_and_messages_of_a_deleted_root_context_go_nowhere() {
    let process = process();
    let vm = process.vm(VmOptions::default());
    let stays = vm.listen("any", "stays", "a").unwrap();
    let goes = vm.listen("any", "goes", "a").unwrap();
    assert_eq!(process.http_calls().len(), 2);
    assert_eq!(ticked(&process, TICK), ["t1", "t2"]);
    drop(goes);
    assert_eq!(process.http_calls().len(), 1, "its call ends without a callback");
    assert_eq!(ticked(&process, TICK), ["t1"]);
    process.advance(TICK * 9);
    assert_eq!(process.orphaned_ticks(), 10, "its timer goes on");
    assert!(stays.stream().request_headers([(":path", "/")], true).continues());
    assert_eq!(process.wakeups(), 1, "for the one that registered the queue last");
    assert_eq!(ticked(&process, TICK), ["t1"], "whose context is gone");
    // A context that registers the queue now gets new messages, and finds the old ones.
    let heir = vm.listen("any", "heir", "a").unwrap();
    process.take_log();
    assert!(stays.stream().request_headers([(":path", "/")], true).continues());
    process.deliver();
    assert!(said(&process).iter().any(|text| text.starts_with('q')));
    drop(heir);
}

#[test]
fn a_vm_ends_with_its_last_plugin() {
    let process = process();
    let [one, two] = [0, 1].map(|_| process.vm(VmOptions::default()));
    let [first, second] = [&one, &two].map(|vm| vm.listen("any", "name", "a").unwrap());
    assert!(first.stream().request_headers([(":path", "/")], true).continues());
    drop(first);
    assert_eq!((one.contexts(), process.http_calls().len()), (0, 1));
    said(&process);
    let first = one.listen("any", "name", "a").unwrap();
    assert_eq!(said(&process), ["n1", "c1"], "a new VM counts from the start");
    process.take_log();
    drop((first, second));
    process.advance(TICK * 10);
    assert_eq!((process.orphaned_ticks(), process.http_calls().len()), (0, 0), "timers and calls end with their VM");
}
