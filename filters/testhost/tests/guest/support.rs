//! What the tests share.

use bloc_testhost::{Caller, Compile, Flow, LocalReply, Module, Process, Root, Server, Stream, Vm, VmOptions};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::OnceLock;

/// The service of all tests.
pub const SERVICE: &str = "backend";
/// An ordinary request.
pub const GET: [(&str, &str); 3] = [(":method", "GET"), (":path", "/"), (":authority", "backend")];

/// The header that every caller with our filters sends; last, so that a test's own bid comes first.
pub const FROM_SIDECAR: [(&str, &str); 1] = [("x-bloc-bid", bloc_policy::wire::bid::ANY)];

/// The module, compiled once for all tests.
pub fn module() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        if std::env::var_os("BLOC_BUILD_MODULE").is_some() {
            build();
        }
        Module::just_built(Compile::Metered).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// For mutation tests, which change the module's sources and then run these tests.
fn build() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../build-wasm.sh");
    let built = Command::new(script).output().unwrap_or_else(|error| panic!("{script}: {error}"));
    assert!(built.status.success(), "{script}: {}", String::from_utf8_lossy(&built.stderr));
}

/// A process that runs the module.
pub fn process(seed: u64) -> Process {
    println!("seed {seed}");
    Process::new(module(), seed)
}

/// A worker thread of a process.
pub fn worker(process: &Process) -> Vm {
    process.vm(VmOptions::default())
}

/// A plugin configuration with these parameters of the service.
pub fn parameters(spec: &Value) -> String {
    json!({"service": SERVICE, "services": {SERVICE: spec}}).to_string()
}

/// `bloc.inbound` in a worker of the process.
pub fn inbound(process: &Process, spec: &Value) -> Root {
    worker(process).root("bloc.inbound", parameters(spec)).expect("a valid configuration")
}

/// A server with one worker.
pub fn server(process: &Process, spec: &Value) -> Server {
    Server::new(&worker(process), &parameters(spec)).expect("a valid configuration")
}

/// A caller with one worker whose cluster has these hosts.
pub fn caller(process: &Process, spec: &Value, hosts: &[&str]) -> Caller {
    let configuration = json!({"services": {SERVICE: spec}}).to_string();
    Caller::new(&worker(process), SERVICE, &configuration, hosts).expect("a valid configuration")
}

/// One of the filters' counters or gauges.
pub fn metric(process: &Process, side: &str, name: &str) -> Option<u64> {
    process.metric(&format!("bloc.{side}.{SERVICE}.{name}"))
}

/// A request that the filter admits.
pub fn admitted(root: &Root) -> Stream {
    let mut stream = root.stream();
    let flow = stream.request_headers(GET, true);
    assert!(flow.continues(), "{flow:?}");
    stream
}

/// A request that the filter answers.
pub fn refused(root: &Root, extra: &[(&str, &str)]) -> LocalReply {
    let mut stream = root.stream();
    match stream.request_headers([&GET, extra, &FROM_SIDECAR].concat().as_slice(), true) {
        Flow::Reply(reply) => reply,
        other => panic!("{other:?}"),
    }
}
