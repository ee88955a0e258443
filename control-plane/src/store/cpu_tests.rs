//! What proxies are told about the CPU of their pods, in virtual time.

use super::tests::World;
use super::*;
use crate::agents::cpu::{CpuMessage, GAP};
use bloc_policy::sync::{Last, ServiceLoad, SyncRequest};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, timeout};

const PROXY: &str = "sidecar~10.0.0.1~checkout-0.shop~shop.svc.cluster.local";

/// A poll of the proxy of `checkout-0`, which knows of these cores.
fn request(version: &str, cpu: Option<f64>) -> SyncRequest {
    let (proxy, version) = (PROXY.to_owned(), version.to_owned());
    SyncRequest { proxy, version, cpu, services: vec!["a".into()], serves: vec!["a".into()], ..SyncRequest::default() }
}

/// Sends a poll and lets it run as far as it can.
async fn send(world: &World, request: SyncRequest) -> JoinHandle<Outcome> {
    let poll = Poll::try_from(request).unwrap();
    let store = world.store.clone();
    let task = tokio::spawn(async move { store.sync(poll).await.unwrap() });
    tokio::task::yield_now().await;
    task
}

async fn poll(world: &World, version: &str, cpu: Option<f64>) -> JoinHandle<Outcome> {
    send(world, request(version, cpu)).await
}

/// The answer as the proxy reads it, and when it came.
async fn answer(task: JoinHandle<Outcome>) -> (Value, Instant) {
    let outcome = timeout(Duration::from_secs(61), task).await.unwrap().unwrap();
    let value = match outcome {
        Outcome::Changed(answer) => serde_json::to_value(answer).unwrap(),
        Outcome::Cpu(answer) => serde_json::to_value(answer).unwrap(),
        Outcome::Unchanged => json!("unchanged"),
        other => panic!("{other:?}"),
    };
    (value, Instant::now())
}

/// The answer to a poll that must be over.
async fn now(task: JoinHandle<Outcome>) -> Value {
    tokio::task::yield_now().await;
    assert!(task.is_finished(), "held");
    answer(task).await.0
}

fn receive(world: &World, pod: &str, cores: f64, seconds: f64) {
    let pod = json!({"namespace": "shop", "name": pod, "cores": cores, "usedSeconds": seconds});
    let message = json!({"node": "n1", "pods": [pod]}).to_string();
    assert_eq!(world.store.receive_cpu(&CpuMessage::read(message.as_bytes()).unwrap()), Some(Vec::new()));
}

/// A world whose proxy has the state in force, and its version.
async fn world() -> (World, String) {
    let world = World::new("services: {a: {}}");
    let version = now(poll(&world, "", None).await).await["version"].as_str().unwrap().to_owned();
    (world, version)
}

/// Waits until a proxy may be told again.
async fn wait() {
    advance(GAP).await;
}

#[tokio::test(start_paused = true)]
async fn a_held_poll_is_answered_when_its_pod_has_other_cores() {
    let (world, version) = world().await;
    let held = poll(&world, &version, None).await;
    receive(&world, "checkout-1", 1.0, 0.0);
    tokio::task::yield_now().await;
    assert!(!held.is_finished(), "of another pod");
    receive(&world, "checkout-0", 20.0, 0.0);
    assert_eq!(now(held).await, json!({"version": version, "cpu": {"cores": 20.0}}), "without services");
    wait().await;
    let held = poll(&world, &version, Some(20.0)).await;
    for cores in [20.9, 19.1] {
        receive(&world, "checkout-0", cores, 0.0);
        tokio::task::yield_now().await;
        assert!(!held.is_finished(), "less than 5%");
    }
    receive(&world, "checkout-0", 21.0, 0.0);
    assert_eq!(now(held).await["cpu"], json!({"cores": 21.0}));
    wait().await;
    assert_eq!(
        now(poll(&world, &version, Some(20.0)).await).await["cpu"],
        json!({"cores": 21.0}),
        "the answer was lost"
    );
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_told_at_most_five_times_a_second() {
    let (world, version) = world().await;
    let (mut has, mut told, start) = (None, 0, Instant::now());
    let mut held = poll(&world, &version, has).await;
    for i in 0..100 {
        receive(&world, "checkout-0", f64::from(1 + i), 0.0);
        tokio::task::yield_now().await;
        if held.is_finished() {
            has = answer(held).await.0["cpu"]["cores"].as_f64();
            assert_eq!(has, Some(f64::from(1 + i)), "the newest");
            told += 1;
            held = poll(&world, &version, has).await;
        }
        advance(Duration::from_millis(10)).await;
    }
    assert_eq!((told, start.elapsed()), (5, Duration::from_secs(1)));
    let (last, at) = answer(held).await;
    assert_eq!(
        (last["cpu"]["cores"].as_f64(), at - start),
        (Some(100.0), Duration::from_secs(1)),
        "nothing is left out"
    );
}

#[tokio::test(start_paused = true)]
async fn news_within_the_gap_comes_at_its_end_without_another_message() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 1.0, 0.0);
    assert_eq!(now(poll(&world, &version, None).await).await["cpu"], json!({"cores": 1.0}));
    let start = Instant::now();
    advance(Duration::from_millis(50)).await;
    let held = poll(&world, &version, Some(1.0)).await;
    receive(&world, "checkout-0", 2.0, 0.0);
    let (told, at) = answer(held).await;
    assert_eq!((&told["cpu"], at - start), (&json!({"cores": 2.0}), GAP));
}

#[tokio::test(start_paused = true)]
async fn the_gap_begins_with_the_answer_of_another_replica() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    wait().await;
    let last = |replica: &str, answered_ms| Some(Last { replica: replica.into(), answered_ms, ..Last::default() });
    for (last, millis) in [
        (last("other", 50), 150),
        (last("other", 200), 0),
        (last("other", 1 << 50), 0),
        (last("", 0), 0),
        (last(world.store.replica(), 0), 0),
        (None, 0),
    ] {
        let start = Instant::now();
        let held = send(&world, SyncRequest { last: last.clone(), ..request(&version, Some(1.0)) }).await;
        let (told, at) = answer(held).await;
        assert_eq!((&told["cpu"]["cores"], at - start), (&json!(2.0), Duration::from_millis(millis)), "{last:?}");
        wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_which_nothing_is_heard_for_15_seconds_is_unknown() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    let heard = Instant::now();
    let mut unknown = None;
    while unknown.is_none() {
        let (told, at) = answer(poll(&world, &version, Some(2.0)).await).await;
        assert!(at - heard <= Duration::from_secs(15), "{told}");
        unknown = (told["cpu"] == json!({})).then_some(at);
    }
    assert_eq!(unknown.unwrap() - heard, Duration::from_secs(15));
    wait().await;
    let held = poll(&world, &version, None).await;
    assert!(!held.is_finished(), "the proxy knows");
    assert_eq!(answer(held).await.0, json!("unchanged"));
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_waits_for_silence_goes_on_when_the_agent_speaks() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    advance(Duration::from_secs(14)).await;
    let held = poll(&world, &version, Some(2.0)).await;
    receive(&world, "checkout-0", 2.0, 0.0);
    advance(Duration::from_millis(1_500)).await;
    tokio::task::yield_now().await;
    assert!(!held.is_finished());
    receive(&world, "checkout-0", 3.0, 0.0);
    assert_eq!(now(held).await["cpu"]["cores"], 3.0, "it is still held where the agent's message finds it");
    assert_eq!(world.store.counts().polls_held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_replica_says_nothing_of_a_pod_that_it_has_never_heard_of() {
    let (world, version) = world().await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        receive(&world, "checkout-1", 1.0, 0.0);
        let full = now(poll(&world, "", Some(2.0)).await).await;
        assert_eq!((full.get("cpu"), full["services"].is_object()), (None, true));
        assert_eq!(answer(poll(&world, &version, Some(2.0)).await).await.0, json!("unchanged"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_answer_says_that_a_pod_is_silent_until_it_is_no_longer_kept() {
    let (world, _) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    advance(Duration::from_secs(15)).await;
    let full = now(poll(&world, "", Some(2.0)).await).await;
    assert_eq!((&full["cpu"], full["services"].is_object()), (&json!({}), true));
    assert_eq!(now(poll(&world, "", None).await).await.get("cpu"), None, "the proxy knows");
    advance(Duration::from_secs(45)).await;
    assert_eq!(now(poll(&world, "", Some(2.0)).await).await.get("cpu"), None, "60 s");
}

#[tokio::test(start_paused = true)]
async fn a_full_answer_and_the_end_of_a_wait_tell_what_is_known() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    advance(Duration::from_secs(1)).await;
    receive(&world, "checkout-0", 2.0, 0.5);
    let full = now(poll(&world, "", Some(2.0)).await).await;
    assert_eq!((&full["cpu"], full["services"].is_object()), (&json!({"cores": 2.0, "used": 0.5}), true));
    let start = Instant::now();
    receive(&world, "checkout-0", 5.0, 0.5);
    let held = poll(&world, &version, Some(2.0)).await;
    assert_eq!(answer(held).await.1 - start, GAP, "it was told with the full answer");
    let start = Instant::now();
    let held = poll(&world, &version, Some(5.0)).await;
    advance(Duration::from_millis(1_800)).await;
    receive(&world, "checkout-0", 5.0, 2.5);
    let (told, at) = answer(held).await;
    assert_eq!(
        (told, at - start),
        (json!({"version": version, "cpu": {"cores": 5.0, "used": 1.0}}), Duration::from_secs(5))
    );
    receive(&world, "checkout-0", 0.0, 2.5);
    wait().await;
    assert_eq!(now(poll(&world, &version, Some(5.0)).await).await["cpu"]["cores"], Value::Null);
    assert_eq!(
        answer(poll(&world, &version, None).await).await.0,
        json!("unchanged"),
        "without cores there is nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_a_version_is_told_with_its_first_state() {
    let world = World::empty();
    receive(&world, "checkout-0", 2.0, 0.0);
    let held = poll(&world, "", Some(1.0)).await;
    assert!(!held.is_finished());
    world.publish("services: {a: {}}");
    let first = now(held).await;
    assert_eq!((&first["cpu"]["cores"], first["services"].is_object()), (&json!(2.0), true));
}

#[tokio::test(start_paused = true)]
async fn other_proxies_see_nothing_of_it() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    let router = SyncRequest { proxy: PROXY.replace("sidecar", "router"), ..request(&version, None) };
    assert_eq!(answer(send(&world, router).await).await.0, json!("unchanged"));
}

#[tokio::test(start_paused = true)]
async fn ignores_cores_that_cannot_be() {
    let (world, version) = world().await;
    receive(&world, "checkout-0", 2.0, 0.0);
    for cores in [0.0, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        wait().await;
        assert_eq!(now(poll(&world, &version, Some(cores)).await).await["cpu"]["cores"], 2.0, "{cores}");
    }
    for cores in [f64::MAX, f64::MIN_POSITIVE] {
        wait().await;
        assert_eq!(now(poll(&world, &version, Some(cores)).await).await["cpu"]["cores"], 2.0, "{cores}");
    }
}

#[tokio::test(start_paused = true)]
async fn news_of_cpu_is_no_news_of_the_state() {
    let (world, version) = world().await;
    world.publish("services: {a: {retries: 1}}");
    // It does not take the state, and is stale after 10 s.
    for _ in 0..3 {
        receive(&world, "checkout-0", 2.0, 0.0);
        assert!(now(poll(&world, &version, None).await).await["services"].is_object(), "the state comes first");
        advance(Duration::from_secs(3)).await;
    }
    assert_eq!(world.store.counts().proxies_stale, 0, "it has presented its version for 9 s");
    advance(Duration::from_secs(1)).await;
    assert_eq!(world.store.counts().proxies_stale, 1);
    world.publish("services: {a: {}}");
    assert_eq!(
        now(poll(&world, &version, None).await).await,
        json!({"version": version, "cpu": {"cores": 2.0, "used": 0.0}})
    );
    world.publish("services: {a: {retries: 1}}");
    assert!(now(poll(&world, &version, Some(2.0)).await).await["services"].is_object());
    assert_eq!(world.store.counts().proxies_stale, 0, "it had the state in between");
}

#[tokio::test(start_paused = true)]
async fn learns_what_a_request_costs_from_the_reports_that_it_counts() {
    let (world, version) = world().await;
    let load = |departed| vec![ServiceLoad { service: "a".into(), departed, ..ServiceLoad::default() }];
    let report = |departed, reported_ms| {
        let last = Some(Last { reported_ms, ..Last::default() });
        SyncRequest { last, load: load(departed), ..request(&version, Some(1.0)) }
    };
    let cost =
        |world: &World| world.store.service_report("a").unwrap().servers[0].cpu.and_then(|cpu| cpu.per_request_us);
    let mut used = 0.0;
    for _ in 0..4 {
        receive(&world, "checkout-0", 1.0, used);
        advance(Duration::from_secs(2)).await;
        used += 1.0;
    }
    let held = send(&world, report(100, Some(4_000))).await;
    receive(&world, "checkout-0", 1.0, used);
    assert_eq!(cost(&world), None, "a held poll is not counted yet");
    let (told, _) = answer(held).await;
    assert_eq!(told["cpu"], json!({"cores": 1.0, "used": 0.5, "perRequestUs": 20_000.0}), "2 s for 100 requests");
    assert_eq!(cost(&world), Some(20_000.0));
    for since in [None, Some(1 << 50)] {
        receive(&world, "checkout-0", 1.0, used);
        let _ = answer(send(&world, report(5, since)).await).await;
    }
    assert_eq!(cost(&world), Some(20_000.0), "of an unknown time");
}
