//! Compares the host of the filters' tests with a real Envoy: the same scenarios run on both.
//!
//! First a probe makes host calls; then the filters themselves run. See filters/testhost/README.md.
//! This is a separate package test, so that the protocol's tests need no wasmtime.
#![allow(missing_docs, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "the tests of the protocol use the rest")]
#[path = "../../../loadtest/tests/protocol/support/mod.rs"]
mod support;

use bloc_mesh::envoy::{Envoy, SERVICE, wasm_filter};
use bloc_policy::wire::load_report::LoadReport;
use bloc_testhost::conformance::{REQUEST, ROOT_ID, compared, scenarios, table};
use bloc_testhost::{Caller, Compile, Headers, LocalReply, Module, Process, Response, Server, VmOptions};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use support::{
    Answer, App, Place, Pod, eventually, from_sidecar as asked, grpc, inbound, metric, outbound, request, send, sender,
};

/// The parts of a response that a filter can change.
fn said(answer: &Answer) -> Vec<(String, String)> {
    let mut headers = answer.headers.clone();
    // Behind the filters, the codec marks an empty body as empty. The status is no header here.
    if answer.body.is_empty() && answer.app().is_none() {
        headers.remove("content-length");
    }
    headers.insert("x-status", answer.status.as_str().parse().unwrap());
    compared(|name| {
        let name = if name == ":status" { "x-status" } else { name };
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    })
}

/// One listener for each scenario, each with its own VM.
fn bootstrap(place: &Place, app: &App) -> Value {
    let mut bootstrap = inbound(place, app.address, &json!({}), None);
    let listener = bootstrap["static_resources"]["listeners"][0].take();
    let listeners = scenarios().into_iter().map(|scenario| {
        let file = place.path().join(format!("{}.wat.wasm", scenario.name));
        std::fs::write(&file, scenario.probe.wasm()).unwrap();
        let mut filter = wasm_filter(ROOT_ID, &file, None);
        filter["typed_config"]["config"]["vm_config"]["vm_id"] = json!(scenario.name);
        let mut listener = listener.clone();
        listener["name"] = json!(scenario.name);
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        // Envoy accepts headers that begin with x-envoy- only from internal addresses.
        manager["use_remote_address"] = json!(true);
        manager["internal_address_config"] = json!({"cidr_ranges": [{"address_prefix": "127.0.0.0", "prefix_len": 8}]});
        manager["http_filters"][0] = filter;
        listener
    });
    let listeners: Vec<Value> = listeners.collect();
    bootstrap["static_resources"]["listeners"] = json!(listeners);
    bootstrap
}

#[tokio::test(flavor = "multi_thread")]
async fn host_calls_are_answered_as_in_envoy() {
    let place = Place::new();
    let app = App::start("app").await;
    let envoy = Envoy::start(&place.envoy, place.path(), "probes", &bootstrap(&place, &app), 1).await.unwrap();
    let mut wrong = Vec::new();
    for scenario in scenarios() {
        let to = envoy.listener(scenario.name).unwrap();
        let dressed = REQUEST
            .iter()
            .chain(scenario.headers)
            .fold(request("/x"), |request, (name, value)| request.header(*name, *value));
        let answer = send(to, dressed, "").await.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        let (there, here) = (said(&answer), scenario.play());
        println!("{}\n  Envoy {there:?}\n  here  {here:?}", scenario.name);
        if (there == here) == scenario.differs.is_some() {
            wrong.push(scenario.name);
        }
    }
    assert!(wrong.is_empty(), "not as the table says: {wrong:?}");
}

#[test]
fn the_readme_contains_the_current_conformance_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(file).unwrap();
    assert!(readme.contains(&table()), "the table in filters/testhost/README.md ought to be:\n{}", table());
}

/// The module on the host: one VM in its own process.
fn host() -> (Process, bloc_testhost::Vm) {
    let module = Module::just_built(Compile::Metered).unwrap_or_else(|error| panic!("{error}"));
    let process = Process::new(&module, 1);
    let vm = process.vm(VmOptions::default());
    (process, vm)
}

/// A request from a caller with our filters.
const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":path", "/x"), (":authority", SERVICE), ("x-bloc-bid", bloc_policy::wire::bid::ANY)];
/// What a sidecar sends its peer, without the times that it measured: status, chip, queue and
/// capacity, reason, gRPC status.
type Observed = (u32, Option<(bool, Option<u32>, Option<u32>)>, Vec<Option<String>>);
const OBSERVED: [&str; 3] = ["x-bloc-reject", "grpc-status", "content-type"];

fn observed(answer: &Answer) -> Observed {
    (answer.status.as_u16().into(), answer.load(), OBSERVED.map(|name| answer.header(name).map(str::to_owned)).into())
}

fn observed_here(headers: &Headers) -> Observed {
    let status = headers.text(":status").and_then(|status| status.parse().ok()).unwrap_or(0);
    let report = headers.borrow().get("x-bloc-load").map(|value| LoadReport::decode(value).expect("a load report"));
    let load = report.map(|report| (report.chip, report.queue, report.capacity));
    (status, load, OBSERVED.map(|name| headers.text(name)).into())
}

fn refused(server: &Server, extra: &[(&str, &str)]) -> LocalReply {
    let flow = server.root().stream().request_headers([&GET, extra].concat().as_slice(), true);
    flow.reply().expect("an answer of the filter")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_the_same_on_the_host_and_in_envoy() {
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 1).await;
    let (_process, vm) = host();
    let spec = json!({"capacity": {"estimator": "static", "limit": 1}});
    let server = Server::new(&vm, &json!({"service": SERVICE, "services": {SERVICE: spec}}).to_string()).unwrap();

    let there = send(pod.address, asked("/x"), "").await.unwrap();
    let here = server.handle(GET, |_| Response::new(200, &[], b""));
    assert_eq!(observed(&there), observed_here(&here.headers), "admitted");

    let address = pod.address;
    let held_there = tokio::spawn(async move { send(address, request("/hold"), "").await });
    eventually("the held request", async || (!pod.app.seen("/hold").is_empty()).then_some(())).await;
    let mut held_here = server.root().stream();
    assert!(held_here.request_headers(GET, true).continues());

    let there = send(pod.address, asked("/x"), "").await.unwrap();
    assert_eq!(observed(&there), observed_here(&refused(&server, &[]).headers), "rejected");
    let there = grpc(pod.address, "/x").await.unwrap();
    let here = refused(&server, &[("content-type", "application/grpc")]);
    assert_eq!(observed(&there), observed_here(&here.headers), "rejected over gRPC");

    pod.app.release();
    held_there.await.unwrap().unwrap();
    held_here.done();
    let there = eventually("the server's being empty", async || {
        let answer = send(pod.address, asked("/x"), "").await.unwrap();
        (answer.load().map(|load| load.1) == Some(Some(0))).then_some(answer)
    })
    .await;
    let here = server.handle(GET, |_| Response::new(200, &[], b""));
    assert_eq!(observed(&there), observed_here(&here.headers), "after it");
}

/// Every server is full: compares the attempts, how each was counted, and what the client gets.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_retries_and_counts_the_same_on_the_host_and_in_envoy() {
    const COUNTED: [&str; 7] =
        ["requests", "attempts", "probes", "forced", "rejections", "retries_exhausted", "fallbacks"];
    let place = Place::new();
    let pods = [Pod::with_capacity(&place, "one", 1).await, Pod::with_capacity(&place, "two", 1).await];
    let addresses = pods.each_ref().map(|pod| pod.address);
    let names = addresses.map(|address| address.to_string());
    let configuration = json!({"services": {SERVICE: {"endpoints": names, "retries": 3, "resetInterval": "1h"}}});
    let (envoy, to) = sender(&place, &outbound(&place, &addresses, &configuration, None)).await;
    let mut held = Vec::new();
    for pod in &pods {
        let address = pod.address;
        held.push(tokio::spawn(async move { send(address, request("/hold"), "").await }));
        eventually("the held request", async || (!pod.app.seen("/hold").is_empty()).then_some(())).await;
    }
    let there = send(to, request("/x"), "").await.unwrap();
    eventually("the counters", async || (metric(&envoy, "outbound", "retries_exhausted").await == 1).then_some(()))
        .await;

    let (process, vm) = host();
    let hosts = names.each_ref().map(String::as_str);
    let caller = Caller::new(&vm, SERVICE, &configuration.to_string(), &hosts).unwrap();
    let outcome = caller.send(GET, |_, _| {
        let full = [("x-bloc-load", "chip=0, queue=1, capacity=1"), ("x-bloc-reject", "capacity")];
        Some(Response::new(429, &full, b""))
    });
    process.advance(Duration::from_secs(2));
    assert_eq!(u32::from(there.status.as_u16()), outcome.response.status());
    assert_eq!(there.ours(), outcome.response.headers.borrow().names("x-bloc"));
    for name in COUNTED {
        let here = process.metric(&format!("bloc.outbound.{SERVICE}.{name}"));
        assert_eq!(here, Some(metric(&envoy, "outbound", name).await), "{name}");
    }
    for (pod, held) in pods.iter().zip(held) {
        pod.app.release();
        held.await.unwrap().unwrap();
    }
}

/// What the application sees of a request with forged headers.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_sees_the_same_headers_on_the_host_and_in_envoy() {
    const DRESS: [(&str, &str); 5] = [
        ("x-bloc-bid", "1"),
        ("x-bloc-load", "chip=1"),
        ("x-bloc-reject", "capacity"),
        ("x-bloc-endpoints", "127.0.0.1:1"),
        ("x-custom", "kept"),
    ];
    let ours = |name: &str| name.starts_with("x-bloc") || name.contains("retr") || name.starts_with("x-custom");
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 10).await;
    let configuration = json!({"services": {SERVICE: {"endpoints": [pod.address.to_string()]}}});
    let (_envoy, to) = sender(&place, &outbound(&place, &[pod.address], &configuration, None)).await;
    let dressed = DRESS.iter().fold(request("/x"), |request, (name, value)| request.header(*name, *value));
    send(to, dressed, "").await.unwrap();
    let there: Vec<String> =
        pod.app.seen("/x")[0].headers.keys().map(ToString::to_string).filter(|name| ours(name)).collect();

    let (_process, vm) = host();
    let (_other, serving) = host();
    let spec = json!({"capacity": {"estimator": "static", "limit": 10}});
    let server = Server::new(&serving, &json!({"service": SERVICE, "services": {SERVICE: spec}}).to_string()).unwrap();
    let address = pod.address.to_string();
    let caller = Caller::new(&vm, SERVICE, &configuration.to_string(), &[&address]).unwrap();
    let mut here = Vec::new();
    caller.send([&GET[..], &DRESS].concat().as_slice(), |_, request| {
        Some(server.handle(request, |request| {
            here = request.borrow().names("").into_iter().filter(|name| ours(name)).collect();
            Response::new(200, &[], b"")
        }))
    });
    assert_eq!(there, here);
    assert_eq!(here, ["x-custom"]);
}
