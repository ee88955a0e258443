//! The count of requests in flight.

use crate::support::{App, Place, Pod, eventually, from_sidecar, inbound, request, send};
use bloc_mesh::envoy::{Envoy, SERVICE};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

const CAPACITY: u32 = 15;

/// A thousand requests over two workers: served, rejected, timed out by the sidecar, reset by the
/// application, cancelled by the client.
#[tokio::test(flavor = "multi_thread")]
async fn the_in_flight_count_returns_to_zero_however_requests_end() {
    let place = Place::new();
    let app = App::start("pod").await;
    let capacity = json!({"capacity": {"estimator": "static", "limit": CAPACITY}});
    let configuration = json!({"service": SERVICE, "services": {SERVICE: capacity}});
    let mut bootstrap = inbound(&place, app.address, &configuration, None);
    let listener = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    listener["typed_config"]["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["timeout"] = json!("0.06s");
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 2).await.unwrap();
    let to = sidecar.listener("inbound").unwrap();
    let pod = Pod { app, sidecar, address: to };
    let mut requests = tokio::task::JoinSet::new();
    let (mut served, mut rejected, mut late, mut reset, mut cancelled) = (0, 0, 0, 0, 0);
    let mut highest = 0;
    for i in 0..1000 {
        requests.spawn(async move {
            match i % 5 {
                0 => Some(send(to, request("/abort"), "").await),
                1 => Some(send(to, request("/slow"), "").await),
                2 => timeout(Duration::from_millis(30), send(to, request("/slow"), "")).await.ok(),
                _ => Some(send(to, request("/x"), "body").await),
            }
        });
        if i % 100 == 0 {
            highest = highest.max(pod.metric("in_flight").await);
        }
        // Twenty at once.
        while requests.len() >= 20 {
            match requests.join_next().await.unwrap().unwrap() {
                None => cancelled += 1,
                Some(Err(_)) => reset += 1,
                Some(Ok(answer)) => match answer.status.as_u16() {
                    200 => served += 1,
                    429 => rejected += 1,
                    504 => late += 1,
                    503 => reset += 1,
                    other => panic!("status {other}"),
                },
            }
        }
    }
    while requests.join_next().await.is_some() {}
    println!(
        "served {served}, rejected {rejected}, late {late}, reset {reset}, cancelled {cancelled}, highest {highest}"
    );
    assert!([served, rejected, late, reset, cancelled].iter().all(|&n| n > 0), "every end must occur");
    assert!((1..=u64::from(CAPACITY) + 20).contains(&highest), "the gauge showed {highest} requests in flight");
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    let counted = eventually("the complete count", async || {
        let sum = pod.metric("admitted").await + pod.metric("rejected_capacity").await;
        (sum >= 980).then_some(sum)
    })
    .await;
    // A client may have cancelled its request before it was sent.
    assert!(counted <= 1000, "{counted} of 1000 requests counted");
    assert_eq!(send(to, from_sidecar("/x"), "").await.unwrap().load(), Some((true, Some(0), Some(CAPACITY))));
}
