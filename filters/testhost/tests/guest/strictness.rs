//! The host itself: what Envoy refuses fails the test, with the status that Envoy returns.

use bloc_testhost::probe::{Arg, Probe, REPORT, text};
use bloc_testhost::{Compile, Headers, Module, Process, Response, Status, VmOptions};

const OUTSIDE: Arg = Arg::I32(0x7fff_0000);

/// Sends one request through a probe.
fn play(process: &Process) -> String {
    let vm = process.vm(VmOptions::default());
    let root = vm.root("probe", "the configuration").unwrap();
    let mut stream = root.stream().with_property("xds\0cluster_name", "backend");
    stream.request_headers([(":method", "GET"), (":path", "/"), ("x-twice", "one"), ("X-Twice", "two")], true);
    let response = Response::new(200, &[], b"");
    stream.response_headers(&response.headers, true);
    stream.done();
    response.headers.text(REPORT).unwrap_or_default()
}

fn process(probe: &Probe) -> Process {
    Process::new(&Module::new(probe.wat().as_bytes(), Compile::Metered).unwrap(), 1)
}

/// Runs a probe; returns its report and its faults.
fn ask(probe: &Probe) -> (String, Vec<(&'static str, Status)>) {
    let process = process(probe).recording_faults();
    let report = play(&process);
    (report, process.take_faults().iter().map(|fault| (fault.call, fault.status)).collect())
}

/// Checks that Envoy refuses a call at request headers with this status.
fn refuses(status: Status, function: &'static str, arguments: &[Arg]) {
    let (report, faults) = ask(&Probe::default().request(function, arguments));
    assert_eq!(report, (status as u32).to_string(), "{function} {arguments:?}");
    assert_eq!(faults, [(function, status)]);
}

#[test]
fn refuses_access_to_header_maps_that_do_not_exist() {
    for map in [1, 2, 3, 4, 5, 6, 7, 8, 99, -1] {
        refuses(Status::BadArgument, "proxy_get_header_map_value", &[Arg::I32(map), text("x"), Arg::Buffer]);
        refuses(Status::BadArgument, "proxy_remove_header_map_value", &[Arg::I32(map), text("x")]);
        refuses(Status::BadArgument, "proxy_replace_header_map_value", &[Arg::I32(map), text("x"), text("y")]);
        refuses(Status::BadArgument, "proxy_add_header_map_value", &[Arg::I32(map), text("x"), text("y")]);
    }
    let late = Probe::default().response("proxy_get_header_map_value", &[Arg::I32(0), text(":path"), Arg::Buffer]);
    assert_eq!(ask(&late), ("2".into(), vec![("proxy_get_header_map_value", Status::BadArgument)]));
}

#[test]
fn refuses_pointers_outside_the_guests_memory() {
    let key = [Arg::I32(0), OUTSIDE, Arg::I32(4), Arg::Buffer];
    refuses(Status::InvalidMemoryAccess, "proxy_get_header_map_value", &key);
    let answer = [Arg::I32(0), text(":path"), OUTSIDE, OUTSIDE];
    refuses(Status::InvalidMemoryAccess, "proxy_get_header_map_value", &answer);
    refuses(Status::InvalidMemoryAccess, "proxy_get_property", &[OUTSIDE, Arg::I32(1), Arg::Buffer]);
    refuses(Status::InvalidMemoryAccess, "proxy_set_shared_data", &[text("k"), OUTSIDE, Arg::I32(1), Arg::I32(0)]);
    refuses(Status::InvalidMemoryAccess, "proxy_log", &[Arg::I32(2), OUTSIDE, Arg::I32(1)]);
    refuses(Status::InvalidMemoryAccess, "proxy_define_metric", &[Arg::I32(0), OUTSIDE, Arg::I32(1), Arg::Word]);
    let probe = Probe::default().request("random_get", &[OUTSIDE, Arg::I32(8)]);
    assert_eq!(ask(&probe).1, [("random_get", Status::InvalidMemoryAccess)]);
}

#[test]
fn refuses_undefined_metrics_and_negative_counter_increments() {
    refuses(Status::NotFound, "proxy_increment_metric", &[Arg::I32(4), Arg::I64(1)]);
    refuses(Status::NotFound, "proxy_record_metric", &[Arg::I32(5), Arg::I64(1)]);
    refuses(Status::NotFound, "proxy_get_metric", &[Arg::I32(4), Arg::Word]);
    refuses(Status::BadArgument, "proxy_define_metric", &[Arg::I32(3), text("m"), Arg::Word]);
    let counter = Probe::default()
        .request("proxy_define_metric", &[Arg::I32(0), text("m"), Arg::Word])
        .request("proxy_increment_metric", &[Arg::LastWord, Arg::I64(-1)]);
    assert_eq!(ask(&counter), ("ok 2".into(), vec![("proxy_increment_metric", Status::BadArgument)]));
}

#[test]
fn refuses_stream_calls_in_the_wrong_state() {
    refuses(Status::BadArgument, "proxy_continue_stream", &[Arg::I32(0)]);
    refuses(Status::BadArgument, "proxy_continue_stream", &[Arg::I32(7)]);
    refuses(Status::BadArgument, "proxy_set_effective_context", &[Arg::I32(99)]);
    refuses(Status::NotFound, "proxy_done", &[]);
    let respond = |status: i32| {
        let nothing = [Arg::I32(0), Arg::I32(0), Arg::I32(0), Arg::I32(0), Arg::I32(0), Arg::I32(0)];
        [&[Arg::I32(status)], &nothing[..], &[Arg::I32(-1)]].concat()
    };
    let (function, bad) = ("proxy_send_local_response", Status::BadArgument);
    let twice = Probe::default().request(function, &respond(429)).request(function, &respond(429));
    assert_eq!(ask(&twice).1, [(function, bad)], "a second answer");
    assert_eq!(ask(&Probe::default().response(function, &respond(429))).1, [(function, bad)], "after the response");
    assert_eq!(ask(&Probe::default().configure(function, &respond(429))).1, [(function, bad)], "no stream");
    assert_eq!(ask(&Probe::default().request(function, &respond(99))).1, [(function, bad)], "no status");
}

#[test]
fn refuses_unknown_queues_buffers_and_upstream_clusters() {
    refuses(Status::NotFound, "proxy_enqueue_shared_queue", &[Arg::I32(1), text("m")]);
    refuses(Status::NotFound, "proxy_dequeue_shared_queue", &[Arg::I32(1), Arg::Buffer]);
    let all = [Arg::I32(0), Arg::I32(100), Arg::Buffer];
    let buffer = |buffer: i32| [&[Arg::I32(buffer)], &all[..]].concat();
    refuses(Status::NotFound, "proxy_get_buffer_bytes", &buffer(4));
    refuses(Status::NotFound, "proxy_get_buffer_bytes", &buffer(7));
    refuses(Status::BadArgument, "proxy_get_buffer_bytes", &buffer(9));
    let nowhere = [text("cluster"), text(""), text(""), text(""), Arg::I32(1000), Arg::Word];
    refuses(Status::BadArgument, "proxy_http_call", &nowhere);
    refuses(Status::Unimplemented, "proxy_grpc_close", &[Arg::I32(1)]);
    let probe = Probe::default().request("clock_time_get", &[Arg::I32(2), Arg::I64(0), Arg::Word]);
    assert_eq!(ask(&probe).1, [("clock_time_get", Status::Unimplemented)]);
}

#[test]
fn asking_for_absent_values_is_no_fault() {
    let probe = Probe::default()
        .configure("proxy_get_shared_data", &[text("k"), Arg::Buffer, Arg::Word])
        .configure("proxy_resolve_shared_queue", &[text(""), text("q"), Arg::Word])
        .configure("proxy_register_shared_queue", &[text("q"), Arg::Word])
        .configure("proxy_dequeue_shared_queue", &[Arg::LastWord, Arg::Buffer])
        .configure("proxy_set_shared_data", &[text("k"), text("v"), Arg::I32(77)])
        .configure("proxy_set_shared_data", &[text("k"), text("w"), Arg::I32(77)])
        .request("proxy_get_header_map_value", &[Arg::I32(0), text("x-none"), Arg::Buffer])
        .request("proxy_remove_header_map_value", &[Arg::I32(0), text("x-none")])
        .request("proxy_get_property", &[text("xds\0route_name"), Arg::Buffer])
        .request("proxy_get_property", &[text("xds\0cluster_name"), Arg::Buffer])
        .request("proxy_get_header_map_value", &[Arg::I32(0), text("X-TWICE"), Arg::Buffer]);
    assert_eq!(ask(&probe), ("1 1 ok 7 ok 8 1 ok 1 ok(backend) ok(one)".into(), vec![]));
}

#[test]
#[should_panic(expected = "proxy_increment_metric in proxy_on_request_headers: there is no metric 4 (NotFound)")]
fn a_fault_fails_the_test() {
    play(&process(&Probe::default().request("proxy_increment_metric", &[Arg::I32(4), Arg::I64(1)])));
}

#[test]
#[should_panic(expected = "proxy_no_such_function")]
fn a_function_that_envoy_does_not_have_cannot_be_imported() {
    play(&process(&Probe::default().request("proxy_no_such_function", &[])));
}

#[test]
#[should_panic(expected = "runs for ever")]
fn a_callback_that_does_not_end_fails_the_test() {
    let forever = r#"(module (memory (export "memory") 1) (func (export "proxy_abi_version_0_2_1"))
      (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (loop (br 0)) (i32.const 0)))"#;
    let process = Process::new(&Module::new(forever.as_bytes(), Compile::Metered).unwrap(), 1);
    let root = process.vm(VmOptions::default()).root("any", "").unwrap();
    root.stream().request_headers(Headers::default(), true);
}

#[test]
fn a_tick_can_edit_the_headers_of_a_paused_stream_and_resume_it() {
    let probe = Probe::default()
        .pausing()
        .configure("proxy_set_tick_period_milliseconds", &[Arg::I32(100)])
        // The first stream's context; the root's is 1.
        .tick("proxy_set_effective_context", &[Arg::I32(2)])
        .tick("proxy_replace_header_map_value", &[Arg::I32(0), text("x-late"), text("yes")])
        .tick("proxy_continue_stream", &[Arg::I32(0)]);
    let process = process(&probe);
    let root = process.vm(VmOptions::default()).root("probe", "").unwrap();
    let request = Headers::new(&[(":path", "/")]);
    let mut stream = root.stream();
    assert!(!stream.request_headers(&request, true).continues());
    process.advance(std::time::Duration::from_millis(99));
    assert!(stream.is_paused());
    process.advance(std::time::Duration::from_millis(1));
    assert!(stream.is_resumed() && !stream.is_paused());
    assert_eq!(request.text("x-late").as_deref(), Some("yes"));
}

/// Timers, randomness and clocks depend on the seed only.
#[test]
fn the_same_seed_gives_the_same_run() {
    let probe = Probe::default()
        .request("random_get", &[Arg::Word, Arg::I32(8)])
        .request("proxy_replace_header_map_value", &[Arg::I32(0), text("x-random"), Arg::I32(512), Arg::I32(8)]);
    let run = |seed: u64| {
        let process = Process::new(&Module::new(probe.wat().as_bytes(), Compile::Metered).unwrap(), seed);
        let root = process.vm(VmOptions::default()).root("probe", "").unwrap();
        let request = Headers::default();
        assert!(root.stream().request_headers(&request, true).continues());
        let drawn = request.borrow().get("x-random").map(<[u8]>::to_vec);
        drawn.expect("what was drawn")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
