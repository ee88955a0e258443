//! The poll at the control plane: one for the process; its news reaches every worker.

use crate::support::{GET, SERVICE, metric, process, worker};
use bloc_policy::sync::SyncRequest;
use bloc_testhost::{Caller, HttpCall, Process, Response, Root};
use serde_json::json;
use std::time::Duration;

const CLUSTER: &str = "bloc-control-plane";
const SECOND: Duration = Duration::from_secs(1);

fn workers(process: &Process) -> [Root; 2] {
    let configuration = json!({"service": SERVICE, "controlPlane": {"cluster": CLUSTER, "wait": "30s"}}).to_string();
    [0, 1].map(|_| worker(process).root("bloc.inbound", &configuration).expect("a valid configuration"))
}

fn only(process: &Process) -> HttpCall {
    let calls = process.http_calls();
    assert_eq!(calls.len(), 1, "one poll for the process");
    calls.into_iter().next().unwrap()
}

fn news(version: &str, limit: u32) -> Vec<u8> {
    let spec = json!({"capacity": {"estimator": "static", "limit": limit}});
    json!({"version": version, "services": {SERVICE: spec}}).to_string().into_bytes()
}

#[test]
fn one_worker_polls_and_wakes_the_other_with_the_news() {
    let process = process(1).with_cluster(CLUSTER);
    let _workers = workers(&process);
    process.advance(SECOND * 3);
    let call = only(&process);
    assert_eq!(call.headers.text(":path"), Some("/v1/sync"));
    let request: SyncRequest = serde_json::from_slice(&call.body).unwrap();
    assert_eq!((request.version, request.serves), (String::new(), vec![SERVICE.to_owned()]));
    assert_eq!(request.wait.as_deref(), Some("30000ms"));

    process.answer(&call, 200, &[], &news("7", 5));
    assert_eq!(metric(&process, "inbound", "capacity"), Some(5));
    assert_eq!(process.wakeups(), 1, "the other worker is told");
    process.deliver();
    process.advance(SECOND);
    let again: SyncRequest = serde_json::from_slice(&only(&process).body).unwrap();
    assert_eq!(again.version, "7");
    assert_eq!(again.load[0].capacity, Some(5));
}

#[test]
fn polls_at_once_for_a_service_that_is_called_for_the_first_time() {
    let process = process(6).with_cluster(CLUSTER);
    let configuration = json!({"controlPlane": {"cluster": CLUSTER, "wait": "30s"}}).to_string();
    let caller = Caller::new(&worker(&process), SERVICE, &configuration, &["10.0.0.1:80"]).unwrap();
    let asks = || {
        let last = process.http_calls().pop();
        last.map(|call| serde_json::from_slice::<SyncRequest>(&call.body).unwrap().services)
    };
    process.advance(SECOND * 10);
    assert_eq!(asks(), Some(vec![]));
    caller.send(GET, |_, _| Some(Response::new(200, &[], b"")));
    process.deliver();
    assert_eq!(asks(), Some(vec![SERVICE.to_owned()]));
}

#[test]
fn every_worker_applies_the_news_even_if_its_wakeup_is_lost() {
    let process = process(2).with_cluster(CLUSTER);
    let workers = workers(&process);
    process.advance(SECOND * 3);
    process.answer(&only(&process), 200, &[], &news("1", 1));
    process.lose_wakeups();
    process.advance(SECOND * 5);
    for worker in &workers {
        let _only = crate::support::admitted(worker);
        assert_eq!(crate::support::refused(worker, &[]).status(), 429);
    }
}

#[test]
fn keeps_the_last_good_parameters_and_logs_a_bad_answer() {
    let process = process(3).with_cluster(CLUSTER);
    let _workers = workers(&process);
    process.advance(SECOND * 3);
    process.answer(&only(&process), 200, &[], &news("1", 5));
    process.advance(SECOND);
    process.take_log();
    process.answer(&only(&process), 200, &[], &news("2", 0));
    assert_eq!(metric(&process, "inbound", "capacity"), Some(5));
    assert!(process.take_log().iter().any(|line| line.level == 3 && line.text.contains("limit")));
    process.advance(SECOND * 6);
    process.fail(&only(&process));
    assert!(process.take_log().iter().any(|line| line.text.contains("no answer")));
    process.advance(SECOND * 6);
    assert_eq!(metric(&process, "inbound", "capacity"), Some(5), "the last good state stays");
    only(&process);
}

#[test]
fn another_worker_polls_when_the_leader_is_gone() {
    let process = process(4).with_cluster(CLUSTER);
    let workers = workers(&process);
    process.advance(SECOND * 3);
    let leader = only(&process).vm();
    workers[leader].vm().trap();
    process.advance(SECOND * 20);
    let calls = process.http_calls();
    assert!(calls.iter().any(|call| call.vm() == 1 - leader), "{calls:?}");
}

#[test]
fn retries_an_unknown_control_plane_cluster_at_a_low_rate() {
    let process = process(5);
    let workers = workers(&process);
    process.advance(SECOND * 60);
    let lines = process.take_log();
    let tries = lines.iter().filter(|line| line.text.contains("no such cluster")).count();
    assert!((10..=30).contains(&tries), "{tries} tries in a minute");
    assert!(workers.iter().all(|worker| !worker.vm().is_dead()));
}
