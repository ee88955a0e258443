//! The real module on wasmtime, in one run: the time of each callback, also of reference filters
//! that do next to nothing; the time of a whole request, by routing; and a table of instructions
//! and host calls for each stream.
//!
//! The time of a callback includes the call into the guest, its host calls, and the return. The
//! host functions are those of the test host, which may be faster or slower than Envoy's. So these
//! times compare filters with each other, and versions of one filter. `bloc-lab cost` measures what
//! a request costs in Envoy.

use bloc_testhost::steady::{REQUESTS, ROUTINGS, SteadyPath};
use bloc_testhost::{Compile, Headers, Module, Process, Root, Stream, VmOptions};
use criterion::{Criterion, criterion_group};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SERVER: &str = "10.0.0.1:8080";
const REPORT: &str = "chip=1, queue=7, capacity=10, rate=38.2, confidence=0.93, exec=251.3, service=40";
const SERVICES: &str = r#"{"backend":{"capacity":{"estimator":"static","limit":1000},"concurrency":4,"hold":false,"endpoints":["10.0.0.1:8080","10.0.0.2:8080","10.0.0.3:8080","10.0.0.4:8080"]}}"#;

/// By root id.
const FILTERS: [&str; 6] =
    ["noop", "set_request_header", "set_response_header", "bloc.inbound", "bloc.outbound", "bloc.attempt"];

/// A filter in a VM of its own.
struct Filter {
    name: &'static str,
    process: Process,
    root: Root,
}

impl Filter {
    fn new(module: &Module, name: &'static str) -> Self {
        let process = Process::new(module, 1);
        let vm = process.vm(VmOptions::default());
        let outbound = format!(r#"{{"services":{SERVICES}}}"#);
        let configuration = match name {
            "bloc.inbound" => format!(r#"{{"service":"backend","services":{SERVICES}}}"#),
            "bloc.outbound" => outbound,
            "bloc.attempt" => {
                // It has no configuration of its own, but uses that of the outbound filter in the
                // same VM.
                vm.root("bloc.outbound", outbound).expect("a valid configuration");
                String::new()
            }
            _ => String::new(),
        };
        let root = vm.root(name, configuration).expect("a valid configuration");
        Self { name, process, root }
    }

    /// What no number of streams may change: contexts, and pages of memory.
    fn state(&self) -> (usize, u64) {
        (self.root.vm().contexts(), self.root.vm().memory_pages())
    }

    fn stream(&self) -> Stream {
        let stream = if self.name == "bloc.attempt" { self.root.attempt() } else { self.root.stream() };
        stream
            .with_property("xds\0cluster_name", "backend")
            .with_property("upstream\0address", SERVER)
            .with_property("upstream\0request_attempt_count", 1u64.to_le_bytes())
    }
}

fn request() -> Headers {
    let headers =
        [(":method", "GET"), (":path", "/"), (":authority", "backend"), (":scheme", "http"), ("user-agent", "wrk")];
    Headers::new(&headers)
}

fn response() -> Headers {
    Headers::new(&[(":status", "200"), ("content-type", "text/plain"), ("x-bloc-load", REPORT)])
}

/// The stages of a stream: its context is created with the request's headers, and deleted at
/// `done`.
const STAGES: [&str; 3] = ["request_headers", "response_headers", "done"];

/// Streams before a filter is measured: every buffer has reached its size then.
const WARM_UP: u64 = 2_500;

/// The time that one stage takes in `streams` streams.
fn stage(filter: &Filter, which: usize, streams: u64) -> Duration {
    let mut sum = Duration::ZERO;
    for _ in 0..streams {
        let mut stream = filter.stream();
        let (request, response) = (request(), response());
        let mut times = [Instant::now(); 4];
        assert!(stream.request_headers(&request, true).continues());
        times[1] = Instant::now();
        assert!(stream.response_headers(&response, true).continues());
        times[2] = Instant::now();
        stream.done();
        times[3] = Instant::now();
        sum += times[which + 1] - times[which];
        filter.process.advance(Duration::from_micros(100));
    }
    sum
}

fn callbacks(c: &mut Criterion) {
    let (reference, bloc) = (target().join("reference.wasm"), target().join("bloc.wasm"));
    let (reference, bloc) = (load(&reference, Compile::Optimised), load(&bloc, Compile::Optimised));
    for name in FILTERS {
        let filter = Filter::new(if name.starts_with("bloc.") { &bloc } else { &reference }, name);
        stage(&filter, 0, WARM_UP);
        let before = filter.state();
        let mut group = c.benchmark_group(format!("guest/{name}"));
        for (which, stage_name) in STAGES.iter().enumerate() {
            group.bench_function(*stage_name, |b| b.iter_custom(|streams| stage(&filter, which, streams)));
        }
        group.finish();
        assert_eq!(filter.state(), before, "{name}: contexts, pages of memory");
    }
}

fn requests(c: &mut Criterion) {
    let bloc = load(&target().join("bloc.wasm"), Compile::Optimised);
    let mut group = c.benchmark_group("guest/request");
    for routing in ROUTINGS {
        let path = SteadyPath::new(&bloc, routing);
        let before = path.state();
        // `request` asserts the answer itself.
        group.bench_function(routing, |b| b.iter(|| path.request()));
        assert_eq!(path.state(), before, "{routing}");
    }
    group.finish();
}

fn target() -> PathBuf {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| own.into(), PathBuf::from)
}

fn load(file: &Path, compile: Compile) -> Module {
    let module = Module::from_file(file, compile);
    module.unwrap_or_else(|error| panic!("{error} (make wasm)"))
}

/// The other costs of a stream, over as many streams as the steady path has requests.
fn counts() {
    let (reference, bloc) = (target().join("reference.wasm"), target().join("bloc.wasm"));
    println!("{:<20} {:>12} {:>12} {:>12}   for each stream", "", "instructions", "host calls", "us in them");
    for (file, name) in FILTERS.map(|name| (if name.starts_with("bloc.") { &bloc } else { &reference }, name)) {
        let costs = [Compile::Metered, Compile::Optimised].map(|compile| {
            let filter = Filter::new(&load(file, compile), name);
            stage(&filter, 0, REQUESTS);
            filter.root.take_cost();
            filter.root.vm().time_host_calls(true);
            stage(&filter, 0, REQUESTS);
            filter.root.take_cost()
        });
        let each = |sum: f64| sum / REQUESTS as f64;
        let (fuel, calls) = (each(costs[0].fuel() as f64), each(costs[0].calls() as f64));
        println!("{name:<20} {fuel:>12.0} {calls:>12.2} {:>12.2}", each(costs[1].host_time.as_secs_f64() * 1e6));
    }
}

fn brief() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(50)
}

criterion_group!(name = benches; config = brief(); targets = callbacks, requests);

fn main() {
    benches();
    counts();
    Criterion::default().configure_from_args().final_summary();
}
