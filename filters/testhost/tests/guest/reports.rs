//! What the poll reports: the load of all threads, and each event once, whichever replica answers
//! and whichever thread leads.

use crate::support::{GET, process, worker};
use bloc_policy::sync::{Last, ServiceLoad, SyncRequest};
use bloc_testhost::{HttpCall, Process, Root};
use serde_json::json;
use std::time::Duration;

const CLUSTER: &str = "bloc-control-plane";
const SECOND: Duration = Duration::from_secs(1);
const REPLICAS: [&str; 2] = ["00000000000000aa", "00000000000000bb"];
/// An inbound cluster's name, and the service that its metadata name, as Istio sets them.
const INBOUND: [(&str, &str); 2] = [
    ("xds\0cluster_name", "inbound|8080||"),
    ("xds\0cluster_metadata\0filter_metadata\0istio\0services\x000\0host", HOST),
];
const HOST: &str = "checkout.shop.svc.cluster.local";
const ANOTHER: &str = "another.shop.svc.cluster.local";

/// Workers of a sidecar in Istio: the configuration does not name the service that they stand in
/// front of.
fn workers(process: &Process) -> [Root; 2] {
    let parameters = json!({"concurrency": 100, "hold": true});
    let services = json!({HOST: parameters, ANOTHER: parameters});
    let configuration = json!({"services": services, "controlPlane": {"cluster": CLUSTER, "wait": "30s"}}).to_string();
    [0, 1].map(|_| worker(process).root("bloc.inbound", &configuration).expect("a valid configuration"))
}

/// Sends a request to the application, and its response.
fn serve(worker: &Root) {
    let mut stream = INBOUND.iter().fold(worker.stream(), |stream, (path, value)| stream.with_property(path, value));
    assert!(stream.request_headers(GET, true).continues());
    assert!(stream.response_headers([(":status", "200")], true).continues());
    stream.done();
}

fn newest(process: &Process) -> HttpCall {
    process.http_calls().pop().expect("a poll")
}

fn said(call: &HttpCall) -> SyncRequest {
    serde_json::from_slice(&call.body).unwrap()
}

/// A control plane without news answers that this replica has counted the report.
fn count(process: &Process, call: &HttpCall, replica: &str) {
    process.answer(call, 304, &[("x-bloc-replica", replica)], b"");
    process.advance(SECOND * 3);
}

/// The leader's worker and the other one.
fn leader(process: &Process) -> [usize; 2] {
    process.advance(SECOND * 3);
    let leader = newest(process).vm();
    [leader, 1 - leader]
}

fn only(load: &[ServiceLoad]) -> &ServiceLoad {
    assert_eq!(load.len(), 1, "{load:?}");
    assert_eq!(load[0].service, HOST);
    &load[0]
}

#[test]
fn the_leader_reports_what_other_workers_serve() {
    let process = process(1).with_cluster(CLUSTER);
    let workers = workers(&process);
    let [_, other] = leader(&process);
    assert_eq!(said(&newest(&process)).load, []);
    for _ in 0..5 {
        serve(&workers[other]);
    }
    process.deliver();
    let asked = said(&newest(&process));
    assert_eq!(asked.serves, [HOST], "at once, since it is news");
    assert_eq!(only(&asked.load).departed, 5);
    process.answer(&newest(&process), 304, &[], b"");
    process.advance(SECOND * 3);
    assert_eq!(only(&said(&newest(&process)).load).departed, 5, "without a replica they count from the start");
}

#[test]
fn the_leader_reports_requests_in_flight_of_other_workers() {
    let process = process(2).with_cluster(CLUSTER);
    let workers = workers(&process);
    let [_, other] = leader(&process);
    let mut stream =
        INBOUND.iter().fold(workers[other].stream(), |stream, (path, value)| stream.with_property(path, value));
    assert!(stream.request_headers(GET, true).continues());
    process.deliver();
    assert_eq!(only(&said(&newest(&process)).load).in_flight, 1);
    process.advance(SECOND * 70);
    assert_eq!(only(&said(&newest(&process)).load).in_flight, 1, "also after a recount");
    stream.done();
    count(&process, &newest(&process), REPLICAS[0]);
    assert_eq!(only(&said(&newest(&process)).load).in_flight, 0);
}

#[test]
fn each_event_is_counted_once_across_two_replicas() {
    let process = process(3).with_cluster(CLUSTER);
    let workers = workers(&process);
    leader(&process);
    let (mut served, mut counted) = (0, 0);
    for round in 0..20 {
        for _ in 0..round % 4 {
            serve(&workers[round % 2]);
            served += 1;
        }
        process.deliver();
        process.advance(SECOND * 3);
        // Superseded polls end without being counted.
        while process.http_calls().len() > 1 {
            process.answer(&process.http_calls()[0], 304, &[], b"");
        }
        let (call, asked) = (newest(&process), said(&newest(&process)));
        match round % 5 {
            3 => process.fail(&call),
            4 => process.answer(&call, 503, &[], b""),
            _ => {
                counted += asked.last.as_ref().map_or(0, |_| asked.load.first().map_or(0, |load| load.departed));
                count(&process, &call, REPLICAS[round % 2]);
            }
        }
        process.advance(SECOND * 6);
    }
    for _ in 0..2 {
        let asked = said(&newest(&process));
        let last = asked.last.expect("a replica has answered");
        assert!(last.reported_ms.is_some());
        counted += only(&asked.load).departed;
        count(&process, &newest(&process), REPLICAS[0]);
    }
    assert_eq!(counted, served);
}

#[test]
fn a_poll_says_which_replica_answered_last_and_when() {
    let process = process(4).with_cluster(CLUSTER);
    let _workers = workers(&process);
    leader(&process);
    assert_eq!(said(&newest(&process)).last, Some(Last::default()));
    process.advance(SECOND * 5);
    count(&process, &newest(&process), REPLICAS[0]);
    let last = said(&newest(&process)).last.unwrap();
    assert_eq!((&*last.replica, last.reported_ms.is_some()), (REPLICAS[0], true));
    process.advance(SECOND * 5);
    process.answer(&newest(&process), 304, &[], b"");
    process.advance(SECOND * 3);
    assert_eq!(said(&newest(&process)).last.unwrap().replica, "");
}

#[test]
fn a_superseded_poll_that_another_replica_counts_is_not_counted_again() {
    let process = process(5).with_cluster(CLUSTER);
    let workers = workers(&process);
    let [leading, other] = leader(&process);
    serve(&workers[leading]);
    process.deliver();
    let first = newest(&process);
    assert_eq!((only(&said(&first).load).departed, said(&first).last.is_some()), (1, true));
    let mut stream =
        INBOUND[..1].iter().fold(workers[other].stream(), |stream, (path, value)| stream.with_property(path, value));
    stream.set_property(INBOUND[1].0, ANOTHER);
    assert!(stream.request_headers(GET, true).continues());
    process.deliver();
    let second = newest(&process);
    assert_ne!(first.token(), second.token(), "there is something new to report");
    let events = |call: &HttpCall| said(call).load.iter().map(|load| load.departed + load.arrived).collect::<Vec<_>>();
    assert_eq!(events(&second), [0, 0]);
    count(&process, &second, REPLICAS[1]);
    count(&process, &first, REPLICAS[0]);
    count(&process, &newest(&process), REPLICAS[0]);
    assert_eq!(events(&newest(&process)), [0, 0]);
}
