//! Calls with a deadline.

use super::client::{Client, Kind, Outcome};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::{Place, eventually};
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;
use tonic::{Code, Request};

/// How long a client waits.
const DEADLINE: Duration = Duration::from_secs(6);
/// How much earlier than the client its sidecar gives up.
const OFFSET: Duration = Duration::from_secs(4);
/// A shorter deadline, at which client and sidecar give up at about the same time.
const SHORT: Duration = Duration::from_millis(300);
/// How often a call is tried until it gets inside before its deadline.
const TRIES: usize = 5;
/// The timeout of a route.
const TIMEOUT: Duration = Duration::from_secs(2);

async fn within(client: &Client, deadline: Duration, kind: Kind, message: &str) -> Outcome {
    let mut request = Request::new(vec![message.to_owned()]);
    // It is sent as `grpc-timeout`; tonic's client observes it, too.
    request.set_timeout(deadline);
    client.call_with(kind, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_call_ends_as_in_stock_envoy_and_is_no_longer_counted() {
    let place = Place::new();
    let pod = Pod::start(&place, "pod", json!({"concurrency": 1, "hold": true})).await;
    // The caller's sidecar answers DEADLINE_EXCEEDED before the caller gives up.
    let caller = Caller::start(&place, &[&pod], |route| {
        let offset = format!("{:.3}s", OFFSET.as_secs_f64());
        route["max_stream_duration"] = json!({"grpc_timeout_header_max": "0s", "grpc_timeout_header_offset": offset});
    })
    .await;
    let stock = within(&caller.stock().await, DEADLINE, Kind::Echo, "hold").await.unwrap_err();
    pod.works_on(0).await;
    assert_eq!(stock.code(), Code::DeadlineExceeded);
    let client = caller.client("bloc").await;
    // On a very busy machine a call may not reach the application in time.
    for tries in 1.. {
        let late = within(&client, DEADLINE, Kind::Echo, "hold").await.unwrap_err();
        assert_eq!((late.code(), late.message()), (stock.code(), stock.message()), "alone");
        pod.works_on(0).await;
        pod.has_in_flight(0).await;
        if pod.calls("Echo") > 1 {
            break;
        }
        let (held, rescued) = (pod.metric("held").await, pod.metric("rescued").await);
        println!("call {tries} did not get inside; {held} were held, {rescued} rescued");
        assert!(tries < TRIES, "never inside in {tries} calls; {held} were held, {rescued} rescued");
    }
    let before = pod.app.calls().len();

    let inside = client.hold();
    pod.works_on(1).await;
    // With the short deadline tonic itself gives up, and reports CANCELLED.
    for (deadline, codes) in
        [(DEADLINE, &[Code::DeadlineExceeded][..]), (SHORT, &[Code::Cancelled, Code::DeadlineExceeded])]
    {
        let both = [Kind::Echo, Kind::Talk].map(|kind| within(&client, deadline, kind, "x"));
        for late in join_all(both).await {
            let late = late.unwrap_err();
            assert!(codes.contains(&late.code()), "held: {late:?}");
        }
        pod.has_in_flight(1).await;
    }
    assert_eq!(pod.app.calls().len(), before + 1, "no late call reached the application");
    pod.app.release(1);
    inside.await.unwrap().unwrap();
    client.call(Kind::Echo, &["x"]).await.unwrap();
    pod.has_in_flight(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_answers_a_call_that_one_cannot_answer_in_time() {
    let place = Place::new();
    let spec = json!({"concurrency": 2, "hold": true});
    let (slow, fast) = (Pod::start(&place, "slow", spec.clone()).await, Pod::start(&place, "fast", spec).await);
    // One of them takes longer than the route's timeout, which Envoy sends to the servers. Each
    // worker has to measure that itself.
    let client = slow.client().await;
    let held = [client.hold(), client.hold()];
    slow.works_on(2).await;
    sleep(TIMEOUT + Duration::from_millis(500)).await;
    slow.app.release(2);
    for held in held {
        held.await.unwrap().unwrap();
    }
    // With a free slot it serves, whatever service time it expects.
    let held = [client.hold(), client.hold()];
    slow.works_on(2).await;
    let timeout = format!("{:.3}s", TIMEOUT.as_secs_f64());
    let caller = Caller::start(&place, &[&slow, &fast], |route| route["timeout"] = json!(timeout)).await;
    for way in ROUTINGS {
        let client = caller.client(way).await;
        for _ in 0..5 {
            for kind in Kind::ALL {
                let answer = client.call(kind, &["1"]).await.unwrap();
                assert_eq!(answer.app(), "fast", "{way}, {kind:?}");
            }
        }
    }
    assert_eq!(slow.app.calls().len(), 4);
    slow.app.release(2);
    for held in held {
        held.await.unwrap().unwrap();
    }
    eventually("rejections", async || (slow.metric("rejected_deadline").await > 0).then_some(())).await;
    slow.has_in_flight(0).await;
    fast.has_in_flight(0).await;
}
