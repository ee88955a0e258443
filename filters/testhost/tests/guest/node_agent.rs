//! The poll at the node agent itself: one for the process; its word reaches every worker.

use crate::support::{SERVICE, metric, process, worker};
use bloc_testhost::{HttpCall, LogLine, Process, Root};
use serde_json::json;
use std::time::Duration;

const CONTROL_PLANE: &str = "bloc-control-plane";
const AGENT: &str = "agent";
const SECOND: Duration = Duration::from_secs(1);
const WARNING: u32 = 3;

fn workers(process: &Process) -> [Root; 2] {
    let services = json!({SERVICE: {"capacity": {"estimator": "static", "perCore": 8}}});
    let agent = json!({"nodeAgent": {"cluster": AGENT}});
    // As it is written for modules of several versions.
    let configuration = json!({
        "service": SERVICE,
        "services": services,
        "controlPlane": {"cluster": CONTROL_PLANE, "wait": "30s"},
        "with": {"node-agent": agent},
    });
    [0, 1].map(|_| worker(process).root("bloc.inbound", configuration.to_string()).expect("a valid configuration"))
}

fn only(process: &Process) -> HttpCall {
    let calls: Vec<HttpCall> = process.http_calls().into_iter().filter(|call| call.cluster == AGENT).collect();
    assert_eq!(calls.len(), 1, "one poll for the process");
    calls.into_iter().next().unwrap()
}

#[test]
fn one_worker_asks_by_get_and_the_answer_moves_the_capacity_at_once() {
    let process = process(1).with_cluster(CONTROL_PLANE).with_cluster(AGENT);
    let _workers = workers(&process);
    process.advance(SECOND * 3);
    let call = only(&process);
    let headers: Vec<(String, String)> = [":method", ":authority", ":path", "content-type"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), call.headers.text(name)?.to_owned())))
        .collect();
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers, [text(":method", "GET"), text(":authority", "node-agent"), text(":path", "/v1/self?wait=10s")]);
    assert_eq!((&*call.body, call.timeout), (&b""[..], Some(SECOND * 15)));
    process.answer(&call, 200, &[], br#"{"cores":0.5,"used":0.25}"#);
    assert_eq!(metric(&process, "inbound", "capacity"), Some(4));
    assert_eq!(process.wakeups(), 1, "the other worker is told");
    assert_eq!(only(&process).headers.text(":path"), Some("/v1/self?wait=10s&cores=0.5"));
    assert!(process.take_faults().is_empty());
}

#[test]
fn its_word_ends_20_s_after_its_last_answer() {
    let process = process(2).with_cluster(CONTROL_PLANE).with_cluster(AGENT);
    let _workers = workers(&process);
    process.advance(SECOND * 3);
    process.answer(&only(&process), 200, &[], br#"{"cores":0.5}"#);
    process.deliver();
    process.fail(&only(&process));
    process.advance(SECOND * 19);
    assert_eq!(metric(&process, "inbound", "capacity"), Some(4));
    process.advance(SECOND * 6);
    assert_eq!(metric(&process, "inbound", "capacity"), Some(0), "no limit");
}

#[test]
fn the_first_failure_in_a_row_is_a_warning() {
    let process = process(4).with_cluster(CONTROL_PLANE).with_cluster(AGENT);
    let _workers = workers(&process);
    process.advance(SECOND * 3);
    for _ in 0..5 {
        process.fail(&only(&process));
        process.advance(SECOND * 10);
    }
    let loud = loud(&process);
    assert!(loud.len() == 1 && loud[0].text.contains("no answer"), "{loud:?}");
    process.answer(&only(&process), 200, &[], br#"{"cores":0.5}"#);
    process.deliver();
    process.fail(&only(&process));
    assert_eq!(self::loud(&process).len(), 1);
}

/// What the log has said of the node agent, as a warning or louder.
fn loud(process: &Process) -> Vec<LogLine> {
    let is_loud = |line: &LogLine| line.text.contains("node agent") && line.level >= WARNING;
    process.take_log().into_iter().filter(is_loud).collect()
}

#[test]
fn a_proxy_without_the_socket_does_not_fill_the_log_or_wake_a_thread_each_second() {
    let process = process(3).with_cluster(CONTROL_PLANE);
    let _workers = workers(&process);
    process.advance(SECOND * 60);
    let loud = loud(&process);
    assert!(loud.is_empty(), "{loud:?}");
    let ticks = process.ticks();
    process.advance(SECOND * 60);
    let ticks = process.ticks() - ticks;
    assert!((20..=30).contains(&ticks), "{ticks} ticks of two threads in a minute");
}
