//! Rejections and retries.

use crate::support::{Place, Pod, eventually, from_sidecar, grpc, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;

fn knows(pods: &[&Pod]) -> serde_json::Value {
    let endpoints: Vec<String> = pods.iter().map(|pod| pod.address.to_string()).collect();
    json!({"services": {SERVICE: {"endpoints": endpoints, "retries": 3}}})
}

/// Fills the only place of a pod; returns the handle of the request that holds it.
async fn fill(pod: &Pod) -> tokio::task::JoinHandle<Result<crate::support::Answer, String>> {
    let address = pod.address;
    let before = pod.app.seen("/hold").len();
    let held = tokio::spawn(async move { send(address, request("/hold"), "").await });
    eventually("the held request's arrival", async || (pod.app.seen("/hold").len() > before).then_some(())).await;
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_post_reaches_another_server_with_its_body_intact() {
    let place = Place::new();
    let (full, free) = (Pod::with_capacity(&place, "full", 1).await, Pod::with_capacity(&place, "free", 1).await);
    let endpoints = [full.address, free.address];
    let (envoy, to) = sender(&place, &outbound(&place, &endpoints, &knows(&[&full, &free]), None)).await;
    let held = fill(&full).await;

    let body = Box::leak("0123456789abcdef".repeat(2048).into_boxed_str());
    for _ in 0..20 {
        let post = hyper::Request::post("/order").header("host", SERVICE);
        let answer = send(to, post, body).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("free")));
        assert_eq!(answer.body, body.as_bytes(), "the answer is the application's, byte for byte");
        assert_eq!(answer.ours(), Vec::<String>::new());
    }
    assert_eq!(full.app.seen("/order").len(), 0, "no request reached the full server's application");
    let orders = free.app.seen("/order");
    assert_eq!(orders.len(), 20, "each order once");
    assert!(orders.iter().all(|order| order.body == body.as_bytes() && order.method == "POST"));

    full.app.release();
    assert_eq!(held.await.unwrap().unwrap().app(), Some("full"));
    // Counters on both sides lag by a tick, so they agree only in the end.
    let counted = eventually("the same count of rejections on both sides", async || {
        let rejected = full.metric("rejected_capacity").await;
        let counted = crate::support::metric(&envoy, "outbound", "rejections").await;
        (rejected > 0 && counted == rejected).then_some(counted)
    })
    .await;
    assert!(counted <= 20, "{counted} rejections for 20 requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_server_full_the_client_gets_a_plain_429() {
    let place = Place::new();
    let (one, two) = (Pod::with_capacity(&place, "one", 1).await, Pod::with_capacity(&place, "two", 1).await);
    let (envoy, to) = sender(&place, &outbound(&place, &[one.address, two.address], &knows(&[&one, &two]), None)).await;
    let held = [fill(&one).await, fill(&two).await];

    let answer = send(to, request("/x"), "").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.app()), (429, None));
    assert_eq!(answer.ours(), Vec::<String>::new());
    assert_eq!(one.app.seen("/x").len() + two.app.seen("/x").len(), 0);
    eventually("the count of exhausted retries", async || {
        (crate::support::metric(&envoy, "outbound", "retries_exhausted").await == 1).then_some(())
    })
    .await;
    assert_eq!(crate::support::metric(&envoy, "outbound", "attempts").await, 4, "three retries");

    for (pod, held) in [&one, &two].into_iter().zip(held) {
        pod.app.release();
        assert_eq!(held.await.unwrap().unwrap().status.as_u16(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_a_caller_with_our_filters_the_load_and_the_reject_reason() {
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 1).await;
    let answer = send(pod.address, from_sidecar("/x"), "").await.unwrap();
    assert_eq!(answer.load(), Some((true, Some(0), Some(1))));
    assert_eq!(answer.header("x-bloc-reject"), None);

    let held = fill(&pod).await;
    assert_eq!(pod.metric("in_flight").await, 1);
    let answer = send(pod.address, from_sidecar("/x"), "").await.unwrap();
    assert_eq!(answer.status.as_u16(), 429);
    assert_eq!(answer.header("x-bloc-reject"), Some("capacity"));
    assert_eq!(answer.load(), Some((false, Some(1), Some(1))));

    let answer = grpc(pod.address, "/package.Service/Method").await.unwrap();
    assert_eq!(answer.status.as_u16(), 200);
    assert_eq!(answer.header("grpc-status"), Some("8"), "in the headers, since the answer has no body and no trailers");
    assert_eq!(answer.header("content-type"), Some("application/grpc"));
    assert_eq!(answer.header("x-bloc-reject"), Some("capacity"));
    assert_eq!(answer.load(), Some((false, Some(1), Some(1))));
    assert_eq!(answer.body.len(), 0);
    assert_eq!(pod.app.seen("/package.Service/Method").len(), 0);

    pod.app.release();
    held.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_our_filters_sees_only_the_status() {
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 1).await;
    let answer = send(pod.address, request("/x"), "").await.unwrap();
    assert_eq!((answer.app(), answer.ours()), (Some("pod"), vec![]));
    let held = fill(&pod).await;
    let answer = send(pod.address, request("/x"), "").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.app(), answer.ours()), (429, None, vec![]));
    pod.app.release();
    held.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_grpc_request_is_retried_or_ends_resource_exhausted() {
    let place = Place::new();
    let (full, free) = (Pod::with_capacity(&place, "full", 1).await, Pod::with_capacity(&place, "free", 1).await);
    let endpoints = [full.address, free.address];
    let (_envoy, to) = sender(&place, &outbound(&place, &endpoints, &knows(&[&full, &free]), None)).await;
    let held = fill(&full).await;
    for _ in 0..5 {
        let answer = grpc(to, "/s/m").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("free")));
    }
    let also_held = fill(&free).await;
    let answer = grpc(to, "/s/m").await.unwrap();
    assert_eq!((answer.header("grpc-status"), answer.app()), (Some("8"), None));
    assert_eq!(answer.ours(), Vec::<String>::new());
    full.app.release();
    free.app.release();
    held.await.unwrap().unwrap();
    also_held.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_own_429_is_passed_on_and_not_retried() {
    let place = Place::new();
    let (one, two) = (Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await);
    let (_envoy, to) =
        sender(&place, &outbound(&place, &[one.address, two.address], &knows(&[&one, &two]), None)).await;
    for sent in 1..=10 {
        let answer = send(to, request("/own-429"), "its own body").await.unwrap();
        assert_eq!(answer.status.as_u16(), 429);
        assert!(answer.app().is_some(), "the application's answer");
        assert_eq!(answer.body, "its own body");
        assert_eq!(one.app.seen("/own-429").len() + two.app.seen("/own-429").len(), sent, "one attempt each");
    }
}
