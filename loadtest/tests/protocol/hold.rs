//! The wait queue: over all workers, the application never works on more than `concurrency`
//! requests, and each held request is answered.

use crate::support::bootstraps::manager;
use crate::support::{Place, Pod, eventually, from_sidecar, request, send};
use bloc_mesh::envoy::SERVICE;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const WORKERS: usize = 4;

/// Connections are balanced over the workers, so that all four hold requests.
async fn pod(place: &Place, spec: Value) -> Pod {
    // Peers are inside the mesh: Envoy accepts x-envoy-* headers only from them.
    let inside = |bootstrap: &mut Value| {
        let manager = manager(&mut bootstrap["static_resources"]["listeners"][0]);
        manager["use_remote_address"] = json!(true);
        manager["internal_address_config"] = json!({"cidr_ranges": [{"address_prefix": "127.0.0.0", "prefix_len": 8}]});
    };
    Pod::balanced(place, "pod", spec, WORKERS, inside).await
}

/// Thousands of short requests, a third of which the client cancels at a random moment. The bound
/// holds, and all others are served. At the end the concurrency limiter is empty: a request that
/// arrives then is not held.
#[tokio::test(flavor = "multi_thread")]
async fn four_workers_respect_the_concurrency_and_lose_no_wakeup() {
    let place = Place::new();
    let pod = pod(&place, json!({"concurrency": 3, "hold": true})).await;
    let to = pod.address;
    let mut random = fastrand::Rng::with_seed(42);
    let mut requests = tokio::task::JoinSet::new();
    let (mut served, mut cancelled) = (0, 0);
    for i in 0..3000u32 {
        let patience = (i % 3 == 0).then(|| Duration::from_micros(random.u64(0..20_000)));
        requests.spawn(async move {
            match patience {
                Some(patience) => timeout(patience, send(to, request("/fleeting"), "")).await.ok(),
                None => Some(send(to, request("/brief"), "").await),
            }
        });
        while requests.len() >= 40 {
            match requests.join_next().await.unwrap().unwrap() {
                Some(answer) => {
                    assert_eq!(answer.expect("an answer").app(), Some("pod"));
                    served += 1;
                }
                None => cancelled += 1,
            }
        }
    }
    while let Some(done) = requests.join_next().await {
        if let Some(answer) = done.unwrap() {
            assert_eq!(answer.expect("an answer").app(), Some("pod"));
            served += 1;
        }
    }
    // When all clients stay, each request is served.
    let mut staying = tokio::task::JoinSet::new();
    for _ in 0..600 {
        staying.spawn(send(to, request("/brief"), ""));
        while staying.len() >= 40 {
            assert_eq!(staying.join_next().await.unwrap().unwrap().unwrap().app(), Some("pod"));
        }
    }
    while let Some(done) = staying.join_next().await {
        assert_eq!(done.unwrap().unwrap().app(), Some("pod"));
    }
    let most = pod.app.most_at_once();
    println!("served {served}, cancelled {cancelled}, at once {most}");
    assert!(served >= 2000 && cancelled > 100);
    assert_eq!(most, 3, "the bound is reached, and never passed");
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    let held =
        eventually("the count of held requests", async || Some(pod.metric("held").await).filter(|&held| held > 500))
            .await;
    assert!(held < 3600);
    let rescued = pod.metric("rescued").await;
    println!("held {held}, rescued {rescued}");
    // A tick may occur between a wakeup and its arrival. Without wakeups nearly all would wait for
    // a tick.
    assert!(rescued * 20 < held, "{rescued} of {held} held requests were admitted only by a tick");
    // All three slots are free again: three requests are inside at once, the fourth waits.
    let holding: Vec<_> = (0..4).map(|_| tokio::spawn(send(to, request("/hold"), ""))).collect();
    eventually("three inside", async || (pod.app.seen("/hold").len() == 3).then_some(())).await;
    eventually("the fourth in the sidecar", async || (pod.metric("in_flight").await == 4).then_some(())).await;
    assert_eq!(pod.app.seen("/hold").len(), 3);
    for _ in 0..4 {
        pod.app.release();
    }
    for held in holding {
        assert_eq!(held.await.unwrap().unwrap().app(), Some("pod"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_held_requests_first_come_first_served_with_intact_bodies() {
    let place = Place::new();
    let pod = pod(&place, json!({"concurrency": 1, "hold": true})).await;
    let to = pod.address;
    let first = tokio::spawn(send(to, request("/hold"), ""));
    eventually("the first inside", async || (pod.app.seen("/hold").len() == 1).then_some(())).await;
    let mut others = Vec::new();
    for i in 0..12u64 {
        let post = hyper::Request::post(format!("/n/{i}")).header("host", SERVICE);
        others.push(tokio::spawn(send(to, post, "a body that waits with its request")));
        // They enter the wait queue one after the other, on any worker.
        eventually("its position in the wait queue", async || (pod.metric("in_flight").await == i + 2).then_some(()))
            .await;
    }
    pod.app.release();
    first.await.unwrap().unwrap();
    for other in others {
        assert_eq!(other.await.unwrap().unwrap().body, "a body that waits with its request");
    }
    let order: Vec<String> =
        pod.app.all_seen().into_iter().map(|seen| seen.path).filter(|path| path.starts_with("/n/")).collect();
    let expected: Vec<String> = (0..12).map(|i| format!("/n/{i}")).collect();
    assert_eq!(order, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_request_that_waited_too_long_or_cannot_meet_its_deadline() {
    let place = Place::new();
    let pod = pod(&place, json!({"concurrency": 1, "hold": true, "maxQueueWait": "300ms"})).await;
    let to = pod.address;
    let first = tokio::spawn(send(to, request("/hold"), ""));
    eventually("the first inside", async || (pod.app.seen("/hold").len() == 1).then_some(())).await;
    let began = Instant::now();
    let late = send(to, from_sidecar("/x"), "").await.unwrap();
    assert_eq!((late.status.as_u16(), late.app()), (429, None));
    assert_eq!(late.header("x-bloc-reject"), Some("deadline"));
    assert_eq!(late.load(), Some((false, Some(1), None)));
    assert!(began.elapsed() >= Duration::from_millis(300), "not before its time");
    assert_eq!(pod.app.seen("/x").len(), 0);
    pod.app.release();
    first.await.unwrap().unwrap();
    eventually("the count", async || (pod.metric("rejected_deadline").await == 1).then_some(())).await;

    // The execution time is known now (some hundred milliseconds), so a deadline of 20 ms cannot be
    // met behind another request.
    let deadline = |ms: &str| from_sidecar("/x").header("x-envoy-expected-rq-timeout-ms", ms);
    let first = tokio::spawn(send(to, request("/hold"), ""));
    eventually("the next inside", async || (pod.app.seen("/hold").len() == 2).then_some(())).await;
    let hopeless = send(to, deadline("20"), "").await.unwrap();
    assert_eq!((hopeless.header("x-bloc-reject"), hopeless.app()), (Some("deadline"), None));
    pod.app.release();
    first.await.unwrap().unwrap();
    assert_eq!(send(to, deadline("20"), "").await.unwrap().app(), Some("pod"), "a slot is free");
    assert_eq!(send(to, deadline("10000"), "").await.unwrap().app(), Some("pod"));
    for invalid in ["", "soon", "-1", "0"] {
        assert_eq!(send(to, deadline(invalid), "").await.unwrap().app(), Some("pod"), "{invalid:?} is no deadline");
    }
    assert_eq!(pod.metric("in_flight").await, 0);
}
