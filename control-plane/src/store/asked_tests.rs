//! The polls and reports of proxies whose pods agents ask for, in virtual time.

use super::tests::World;
use super::*;
use crate::agents::cpu::CpuMessage;
use bloc_policy::sync::latency::Histogram;
use bloc_policy::sync::{Last, ServerLatency, ServiceLoad, SyncRequest};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, advance};

const SIDECAR: &str = "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local";

/// Asks for a pod of `shop`: returns its number of responses, and the time that they took.
fn ask(world: &World, pod: &str) -> (u64, f64) {
    let message = json!({"node": "n1", "asks": [{"namespace": "shop", "name": pod}]}).to_string();
    let answers = world.store.receive_cpu(&CpuMessage::read(message.as_bytes()).unwrap()).unwrap();
    let [of] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((&*of.pod.namespace, &*of.pod.name), ("shop", pod));
    (of.count, of.seconds)
}

fn poll(proxy: &str, version: &str, serves: &[&str]) -> SyncRequest {
    let (proxy, version) = (proxy.to_owned(), version.to_owned());
    let serves = serves.iter().map(ToString::to_string).collect();
    SyncRequest { proxy, version, services: vec!["a".into()], serves, ..SyncRequest::default() }
}

/// A poll that reports `count` responses of `a`, of a quarter of a second each.
fn report(version: &str, count: u64, last: Option<Last>) -> SyncRequest {
    let response = Histogram { sum_us: 250_000 * count, counts: vec![(80, count)] };
    let latency = Some(ServerLatency { response, ..ServerLatency::default() });
    let load = vec![ServiceLoad { service: "a".into(), departed: count, latency, ..ServiceLoad::default() }];
    SyncRequest { load, last, ..poll(SIDECAR, version, &["a"]) }
}

/// How long a poll is held, in seconds.
async fn held(world: &World, request: SyncRequest) -> f64 {
    let start = Instant::now();
    let _ = world.store.sync(Poll::try_from(request).unwrap()).await.unwrap();
    start.elapsed().as_secs_f64()
}

async fn world() -> (World, String) {
    let world = World::new("services: {a: {}}");
    let version = world.answered("p", "", &["a"]).await.version;
    (world, version)
}

#[tokio::test(start_paused = true)]
async fn the_proxy_of_a_pod_that_is_asked_for_reports_once_a_second() {
    let (world, version) = world().await;
    let serving = || poll(SIDECAR, &version, &["a"]);
    assert_eq!(held(&world, serving()).await, 5.0);
    assert_eq!(ask(&world, "checkout-0"), (0, 0.0));
    assert_eq!(held(&world, serving()).await, 1.0);
    assert_eq!(held(&world, poll(SIDECAR, &version, &[])).await, 30.0, "it serves nothing");
    ask(&world, "checkout-1");
    assert_eq!(held(&world, serving()).await, 5.0, "another pod");
    ask(&world, "checkout-0");
    assert_eq!(held(&world, poll(&SIDECAR.replace("sidecar", "router"), &version, &["a"])).await, 5.0);
    advance(Duration::from_secs(9)).await;
    assert_eq!(held(&world, serving()).await, 1.0);
    assert_eq!(held(&world, serving()).await, 5.0, "15 s after the last question");
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_held_already_stays_so() {
    let (world, version) = world().await;
    let (request, store) = (poll(SIDECAR, &version, &["a"]), world.store.clone());
    let task = tokio::spawn(async move { store.sync(Poll::try_from(request).unwrap()).await.unwrap() });
    tokio::task::yield_now().await;
    let start = Instant::now();
    ask(&world, "checkout-0");
    assert!(matches!(task.await.unwrap(), Outcome::Unchanged));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_report_counts_once_and_when_its_poll_is_answered() {
    let (world, version) = world().await;
    let last = |reported_ms| Some(Last { reported_ms, ..Last::default() });
    held(&world, report(&version, 100, last(Some(1_000)))).await;
    assert_eq!(ask(&world, "checkout-0"), (0, 0.0), "before the first question");
    let (store, request) = (world.store.clone(), report(&version, 3, last(Some(1_000))));
    let task = tokio::spawn(async move { store.sync(Poll::try_from(request).unwrap()).await.unwrap() });
    tokio::task::yield_now().await;
    assert_eq!(ask(&world, "checkout-0"), (0, 0.0), "held");
    task.await.unwrap();
    assert_eq!(ask(&world, "checkout-0"), (3, 0.75));
    held(&world, report("", 4, last(Some(1_000)))).await;
    assert_eq!(ask(&world, "checkout-0"), (7, 1.75), "answered with a state");
    held(&world, report(&version, 5, last(None))).await;
    assert_eq!(ask(&world, "checkout-0"), (12, 3.0), "since its start");
    assert_eq!((ask(&world, "checkout-1"), world.store.counts().node_agent_asks), ((0, 0.0), 2));
    advance(Duration::from_secs(15)).await;
    assert_eq!(world.store.counts().node_agent_asks, 0);
}
