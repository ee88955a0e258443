//! Admission across the workers of one Envoy.

use crate::support::{FROM_SIDECAR, GET, admitted, inbound, metric, process, refused, server, worker};
use bloc_policy::wire::load_report::LoadReport;
use bloc_testhost::{Headers, Response};
use serde_json::json;
use std::time::Duration;

fn capacity(limit: u32) -> serde_json::Value {
    json!({"capacity": {"estimator": "static", "limit": limit}})
}

#[test]
fn two_workers_share_one_count() {
    let process = process(1);
    let workers = [inbound(&process, &capacity(3)), inbound(&process, &capacity(3))];
    let first = admitted(&workers[0]);
    let others = [admitted(&workers[1]), admitted(&workers[0])];
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(3));

    for worker in &workers {
        let reply = refused(worker, &[]);
        assert_eq!(reply.status(), 429);
        assert_eq!(reply.details, "bloc_capacity");
        assert_eq!(reply.headers.text("x-bloc-reject").as_deref(), Some("capacity"));
        let report = LoadReport::decode(reply.headers.borrow().get("x-bloc-load").unwrap()).unwrap();
        assert_eq!((report.chip, report.queue), (false, Some(3)));
    }
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(3), "a rejected request is not counted");

    first.done();
    let late = admitted(&workers[1]);
    drop((others, late));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0), "requests of clients that go away are subtracted");
    process.advance(Duration::from_secs(1));
    assert_eq!(metric(&process, "inbound", "admitted"), Some(4));
    assert_eq!(metric(&process, "inbound", "rejected_capacity"), Some(2));
}

#[test]
fn rejects_a_grpc_request_with_status_resource_exhausted() {
    let process = process(2);
    let root = inbound(&process, &capacity(1));
    let _held = admitted(&root);
    let reply = refused(&root, &[("content-type", "application/grpc")]);
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers.text("grpc-status").as_deref(), Some("8"));
    assert_eq!(reply.headers.text("x-bloc-reject").as_deref(), Some("capacity"));
}

#[test]
fn strips_forged_headers_of_ours_from_requests_and_responses() {
    let process = process(3);
    let server = server(&process, &capacity(10));
    let forged =
        [("x-bloc-endpoints", "1.1.1.1:1"), ("x-bloc-load", "chip=1"), ("X-Bloc-Reject", "bid"), ("x-bloc-bid", "7")];
    let request = Headers::new([&GET[..], &forged].concat().as_slice());
    let answer = server.handle(request, |request| {
        assert_eq!(request.borrow().names("x-bloc"), Vec::<String>::new());
        Response::new(200, &[("x-bloc-reject", "capacity"), ("x-bloc-load", "chip=1, queue=99")], b"")
    });
    assert_eq!(answer.headers.borrow().names("x-bloc"), ["x-bloc-load"]);
    let report = LoadReport::decode(answer.headers.borrow().get("x-bloc-load").unwrap()).unwrap();
    assert_eq!(report.queue, Some(0), "the filter's own report and not the application's");
}

/// Header values may be any bytes, and anybody on the network may send them.
#[test]
fn header_values_that_are_not_utf8_cause_no_trap() {
    let process = process(4);
    let vm = worker(&process);
    let root = vm.root("bloc.inbound", crate::support::parameters(&capacity(10))).unwrap();
    let odd = b"\xff\xfe=\x80";
    for name in ["x-bloc-bid", "x-bloc-load", "x-envoy-expected-rq-timeout-ms", "x-bloc-endpoints"] {
        let request = Headers::new(&GET);
        request.edit(|map| map.add(name, odd));
        // After the invalid value, if that is a bid.
        request.edit(|map| map.add(FROM_SIDECAR[0].0, FROM_SIDECAR[0].1.as_bytes()));
        let mut stream = root.stream();
        assert!(stream.request_headers(&request, true).continues(), "{name}");
        let response = Response::new(200, &[], b"");
        response.headers.edit(|map| map.add("x-bloc-load", odd));
        assert!(stream.response_headers(&response.headers, true).continues());
        let report = response.headers.borrow().get("x-bloc-load").and_then(LoadReport::decode);
        assert_eq!(report.is_some(), name != "x-bloc-bid", "a caller with an invalid bid gets no report, {name}");
        stream.done();
    }
    assert!(!vm.is_dead());
}
