//! Compares the host calls of this host with Envoy's: scenarios that a probe plays on both.
//!
//! Each is one request through one filter. The test compares the probe's report, the status, and
//! the response headers that a filter can change. The half that runs in a real Envoy is in
//! filters/testhost/tests/envoy.rs.

use crate::headers::Headers;
use crate::module::{Compile, Module};
use crate::options::VmOptions;
use crate::probe::{Arg, Probe, REPORT, text};
use crate::process::Process;
use crate::stream::Flow;
use std::time::Duration;

/// The root id and the VM id of the probe.
pub const ROOT_ID: &str = "probe";
/// The request's headers besides method, path and host.
pub const REQUEST: [(&str, &str); 4] =
    [("x-twice", "one"), ("X-Twice", "two"), ("x-envoy-retry-on", "5xx"), ("accept", "text/html")];
/// The response headers that are compared.
const COMPARED: [&str; 7] =
    [REPORT, ":status", "content-type", "content-length", "grpc-status", "grpc-message", "x-own"];

/// One request through one filter.
pub struct Scenario {
    /// What it is about; `[a-z-]` only.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The filter.
    pub probe: Probe,
    /// Further headers of the request.
    pub headers: &'static [(&'static str, &'static str)],
    /// What this host does differently, on purpose.
    pub differs: Option<&'static str>,
}

impl Scenario {
    /// Plays it in this host; returns the response headers that are compared.
    ///
    /// # Panics
    /// The request is still paused after ten seconds.
    pub fn play(&self) -> Vec<(String, String)> {
        let module = Module::new(self.probe.wat().as_bytes(), Compile::Metered).expect("the probe");
        let process = Process::new(&module, 1).recording_faults();
        let vm = process.vm(VmOptions { vm_id: self.name.to_owned(), ..VmOptions::default() });
        let root = vm.root(ROOT_ID, "").expect("the probe's configuration");
        let start = [(":method", "GET"), (":path", "/x"), (":authority", "backend"), (":scheme", "http")];
        let request = Headers::new(&[&start[..], &REQUEST, self.headers].concat());
        let mut stream = root.stream().with_property("xds\0cluster_name", "app");
        let flow = stream.request_headers(&request, true);
        if matches!(flow, Flow::Pause) {
            let mut steps = 0..1000;
            while stream.is_paused() {
                assert!(steps.next().is_some(), "{}: still paused", self.name);
                process.advance(Duration::from_millis(10));
            }
        }
        let headers = match stream.reply() {
            Some(reply) => reply.headers,
            None => {
                let headers = Headers::new(&[(":status", "200"), ("content-length", "0")]);
                stream.response_headers(&headers, true);
                headers
            }
        };
        compared(|name| headers.text(name))
    }
}

/// The compared headers, with the values that `header` gives.
pub fn compared(header: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    COMPARED.iter().filter_map(|name| Some(((*name).to_owned(), header(name)?))).collect()
}

/// The table for the README.
pub fn table() -> String {
    let mut table = "| scenario | what it shows | |\n|---|---|---|\n".to_owned();
    for scenario in scenarios() {
        let verdict = scenario.differs.map_or("identical".to_owned(), |how| format!("differs: {how}"));
        table += &format!("| {} | {} | {verdict} |\n", scenario.name, scenario.about);
    }
    table
}

const OUTSIDE: Arg = Arg::I32(0x7fff_0000);
const REQUEST_MAP: Arg = Arg::I32(0);
const RESPONSE_MAP: Arg = Arg::I32(2);

fn get(probe: Probe, map: &Arg, name: &str) -> Probe {
    probe.request("proxy_get_header_map_value", &[map.clone(), text(name), Arg::Buffer])
}

fn respond(status: i32, body: &str, headers: &[u8], grpc: i32) -> Vec<Arg> {
    vec![Arg::I32(status), text("details"), text(body), Arg::Bytes(headers.to_vec()), Arg::I32(grpc)]
}

/// All of them.
pub fn scenarios() -> Vec<Scenario> {
    let scenario = |name, about, probe| Scenario { name, about, probe, headers: &[], differs: None };
    let grpc = |scenario: Scenario| Scenario { headers: &[("content-type", "application/grpc")], ..scenario };
    vec![
        scenario(
            "header-lookup",
            "case, duplicates, the alias `host`, pseudo-headers, a header that is not there",
            lookup(),
        ),
        scenario("header-edits", "replace, add, remove; headers of which there is never a second", edits()),
        scenario("absent-maps", "maps that are not there, or do not exist", absent_maps()),
        scenario("request-headers-later", "request headers while the response passes", {
            Probe::default().response("proxy_get_header_map_value", &[REQUEST_MAP, text(":path"), Arg::Buffer])
        }),
        scenario("bad-pointers", "pointers outside the memory", bad_pointers()),
        scenario("metrics", "definition, increments, values, what is refused", metrics()),
        scenario("shared-data", "compare-and-swap, empty values, keys that are not there", shared_data()),
        scenario("shared-queues", "registration, messages, an empty queue, one that is not there", queues()),
        scenario("properties", "those of the plugin, of the node, of the stream", properties()),
        scenario("buffers", "bodies and configurations outside their callbacks", buffers()),
        scenario("contexts", "contexts that are not there, streams of no kind", contexts()),
        scenario("context-zero", "context 0 brings that of the callback back", context_zero()),
        scenario("calls", "calls to clusters that are not there, or without what a request needs", calls()),
        scenario("clocks", "clocks that are not there", {
            let clock = |id: i32| [Arg::I32(id), Arg::I64(0), Arg::Word];
            [0, 1, 2, 3].into_iter().fold(Probe::default(), |probe, id| probe.request("clock_time_get", &clock(id)))
        }),
        scenario("local-reply", "passes through the filter's own response callback", {
            Probe::default().request("proxy_send_local_response", &respond(429, "too many", OWN, -1))
        }),
        scenario("local-reply-empty", "no body, no type", {
            Probe::default().request("proxy_send_local_response", &respond(503, "", b"", -1))
        }),
        grpc(scenario("local-reply-grpc", "to a gRPC request", {
            Probe::default().request("proxy_send_local_response", &respond(429, "too many", OWN, 8))
        })),
        grpc(scenario("local-reply-grpc-status", "the gRPC status follows from the HTTP status", {
            Probe::default().request("proxy_send_local_response", &respond(503, "", b"", -1))
        })),
        scenario("pause-and-resume", "a tick lets the stream go on; contexts are numbered from 1", paused()),
        scenario("tick-of-a-stream", "a tick that a stream asks for is its plugin's", {
            Probe::default()
                .pausing()
                .request("proxy_set_tick_period_milliseconds", &[Arg::I32(100)])
                .tick("proxy_get_property", &[text("plugin_root_id"), Arg::Buffer])
                .tick("proxy_set_tick_period_milliseconds", &[Arg::I32(0)])
                .tick("proxy_set_effective_context", &[Arg::I32(2)])
                .tick("proxy_continue_stream", &[Arg::I32(0)])
        }),
        scenario("pause-and-reply", "a tick answers the stream", {
            Probe::default()
                .pausing()
                .configure("proxy_set_tick_period_milliseconds", &[Arg::I32(100)])
                .tick("proxy_set_effective_context", &[Arg::I32(2)])
                .tick("proxy_send_local_response", &respond(503, "late", b"", -1))
        }),
    ]
}

/// `x-own: yes` in the ABI's format.
const OWN: &[u8] = b"\x01\0\0\0\x05\0\0\0\x03\0\0\0x-own\0yes\0";

fn lookup() -> Probe {
    let names = ["X-TWICE", "x-none", "host", ":authority", ":path", ":method", "accept", "x-envoy-retry-on"];
    names.into_iter().fold(Probe::default(), |probe, name| get(probe, &REQUEST_MAP, name))
}

fn edits() -> Probe {
    let add = |probe: Probe, name: &str, value: &str| {
        probe.request("proxy_add_header_map_value", &[REQUEST_MAP, text(name), text(value)])
    };
    let replace = |probe: Probe, name: &str, value: &str| {
        probe.request("proxy_replace_header_map_value", &[REQUEST_MAP, text(name), text(value)])
    };
    let remove = |probe: Probe, name: &str| probe.request("proxy_remove_header_map_value", &[REQUEST_MAP, text(name)]);
    let mut probe = replace(Probe::default(), "X-Twice", "three");
    probe = get(probe, &REQUEST_MAP, "x-twice");
    probe = get(remove(probe, "x-TWICE"), &REQUEST_MAP, "x-twice");
    probe = remove(probe, "x-none");
    for name in ["x-own", "x-envoy-retry-on", "accept", "cookie", "content-type", "x-request-id", "via", "grpc-timeout"]
    {
        probe = replace(probe, name, "first");
        probe = get(add(probe, name, "second"), &REQUEST_MAP, name);
    }
    probe = replace(probe, "x-own", "");
    get(probe, &REQUEST_MAP, "x-own")
}

fn absent_maps() -> Probe {
    [1, 2, 3, 6, 7, 8, 99].into_iter().fold(Probe::default(), |probe, map| {
        let map = Arg::I32(map);
        get(probe, &map, "x")
            .request("proxy_replace_header_map_value", &[map.clone(), text("x"), text("y")])
            .request("proxy_remove_header_map_value", &[map, text("x")])
    })
}

fn bad_pointers() -> Probe {
    Probe::default()
        .request("proxy_get_header_map_value", &[REQUEST_MAP, OUTSIDE, Arg::I32(4), Arg::Buffer])
        .request("proxy_get_header_map_value", &[REQUEST_MAP, text(":path"), OUTSIDE, OUTSIDE])
        .request("proxy_replace_header_map_value", &[REQUEST_MAP, text("x"), OUTSIDE, Arg::I32(4)])
        .request("proxy_get_property", &[OUTSIDE, Arg::I32(4), Arg::Buffer])
        .request("proxy_set_shared_data", &[text("k"), OUTSIDE, Arg::I32(4), Arg::I32(0)])
        .request("proxy_define_metric", &[Arg::I32(0), OUTSIDE, Arg::I32(4), Arg::Word])
        .request("proxy_get_metric", &[Arg::I32(4), OUTSIDE])
}

fn metrics() -> Probe {
    let (define, increment, record, value) =
        ("proxy_define_metric", "proxy_increment_metric", "proxy_record_metric", "proxy_get_metric");
    let mut probe = Probe::default().request(define, &[Arg::I32(3), text("none"), Arg::Word]);
    for kind in 0..3 {
        probe = probe
            .request(define, &[Arg::I32(kind), text(["a.counter", "a.gauge", "a.histogram"][kind as usize]), Arg::Word])
            .request("proxy_get_property", &[text("plugin_root_id"), Arg::Buffer]);
        for offset in [5, 0, -2] {
            probe = probe.request(increment, &[Arg::LastWord, Arg::I64(offset)]);
        }
        probe = probe.request(record, &[Arg::LastWord, Arg::I64(7)]);
        // The value overwrites the id, so it comes last.
        probe = probe.request(value, &[Arg::LastWord, Arg::Value]);
    }
    for unknown in [4004, 4005, 4006, 4007] {
        probe = probe
            .request(increment, &[Arg::I32(unknown), Arg::I64(1)])
            .request(record, &[Arg::I32(unknown), Arg::I64(1)])
            .request(value, &[Arg::I32(unknown), Arg::Word]);
    }
    probe
}

fn shared_data() -> Probe {
    let set = |probe: Probe, value: &str, cas: i32| {
        probe.request("proxy_set_shared_data", &[text("key"), text(value), Arg::I32(cas)])
    };
    let look = |probe: Probe| probe.request("proxy_get_shared_data", &[text("key"), Arg::Buffer, Arg::Word]);
    let mut probe = look(Probe::default());
    // A missing key accepts any number.
    probe = look(set(probe, "first", 77));
    probe = look(set(probe, "second", 77));
    probe = probe.request("proxy_set_shared_data", &[text("key"), text("third"), Arg::LastWord]);
    probe = look(set(look(probe), "fourth", 0));
    look(set(probe, "", 0))
}

fn queues() -> Probe {
    let (put, take) = ("proxy_enqueue_shared_queue", "proxy_dequeue_shared_queue");
    Probe::default()
        .request("proxy_resolve_shared_queue", &[text(""), text("queue"), Arg::Word])
        .request("proxy_register_shared_queue", &[text("queue"), Arg::Word])
        .request(take, &[Arg::LastWord, Arg::Buffer])
        .request(put, &[Arg::LastWord, text("one")])
        .request(put, &[Arg::LastWord, text("two")])
        .request("proxy_resolve_shared_queue", &[text("shared-queues"), text("queue"), Arg::Word])
        .request("proxy_resolve_shared_queue", &[text("other-vm"), text("queue"), Arg::Word])
        .request(take, &[Arg::LastWord, Arg::Buffer])
        .request("proxy_register_shared_queue", &[text("queue"), Arg::Word])
        .request(take, &[Arg::LastWord, Arg::Buffer])
        .request(take, &[Arg::LastWord, Arg::Buffer])
        .request(put, &[Arg::I32(99), text("none")])
        .request(take, &[Arg::I32(99), Arg::Buffer])
}

fn properties() -> Probe {
    let paths = [
        "plugin_root_id",
        "plugin_vm_id",
        "plugin_name",
        "xds\0cluster_name",
        "upstream\0address",
        "cluster_name",
        "no_such_property",
        "xds\0no_such",
    ];
    let probe = paths
        .into_iter()
        .fold(Probe::default(), |probe, path| probe.request("proxy_get_property", &[text(path), Arg::Buffer]));
    probe
        .request("proxy_set_property", &[text("own"), text("value")])
        .request("proxy_get_property", &[text("own"), Arg::Buffer])
}

fn buffers() -> Probe {
    let probe = [0, 1, 4, 5, 6, 7, 9].into_iter().fold(Probe::default(), |probe, buffer| {
        probe.request("proxy_get_buffer_bytes", &[Arg::I32(buffer), Arg::I32(0), Arg::I32(100), Arg::Buffer])
    });
    probe.configure("proxy_get_buffer_bytes", &[Arg::I32(6), Arg::I32(0), Arg::I32(100), Arg::Buffer])
}

fn contexts() -> Probe {
    Probe::default()
        .request("proxy_set_effective_context", &[Arg::I32(99)])
        .request("proxy_continue_stream", &[Arg::I32(7)])
        .request("proxy_close_stream", &[Arg::I32(7)])
        .request("proxy_done", &[])
        // The root context: from now on host calls are for it, and it has no headers.
        .request("proxy_set_effective_context", &[Arg::I32(1)])
        .request("proxy_get_header_map_value", &[REQUEST_MAP, text(":path"), Arg::Buffer])
        .request("proxy_get_header_map_value", &[RESPONSE_MAP, text(":status"), Arg::Buffer])
        .request("proxy_get_property", &[text("plugin_root_id"), Arg::Buffer])
}

fn context_zero() -> Probe {
    Probe::default()
        .request("proxy_set_effective_context", &[Arg::I32(1)])
        .request("proxy_get_header_map_value", &[REQUEST_MAP, text(":path"), Arg::Buffer])
        .request("proxy_set_effective_context", &[Arg::I32(0)])
        .request("proxy_get_header_map_value", &[REQUEST_MAP, text(":path"), Arg::Buffer])
}

fn calls() -> Probe {
    let headers = crate::HeaderMap::from_iter([(":method", "GET"), (":path", "/"), (":authority", "a")]).encode();
    let call = |cluster: &str, headers: &[u8]| {
        [text(cluster), Arg::Bytes(headers.to_vec()), text(""), text(""), Arg::I32(1000), Arg::Word]
    };
    Probe::default()
        .request("proxy_http_call", &call("no-such-cluster", &headers))
        .request("proxy_http_call", &call("app", b""))
        .request("proxy_http_call", &call("no-such-cluster", b""))
}

fn paused() -> Probe {
    Probe::default()
        .pausing()
        .configure("proxy_set_tick_period_milliseconds", &[Arg::I32(100)])
        .tick("proxy_set_effective_context", &[Arg::I32(2)])
        .tick("proxy_get_header_map_value", &[REQUEST_MAP, text("x-twice"), Arg::Buffer])
        .tick("proxy_continue_stream", &[Arg::I32(0)])
        .tick("proxy_get_header_map_value", &[REQUEST_MAP, text("x-twice"), Arg::Buffer])
}
