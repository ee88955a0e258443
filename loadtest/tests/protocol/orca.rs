//! ORCA: what our servers report to Envoy's own balancer, and what our senders learn from servers
//! that send only ORCA reports.

use crate::support::{App, Place, Pod, eventually, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;

const ORCA: &str = "endpoint-load-metrics";

/// A pod whose application works on `concurrency` requests at once; the sidecar reports ORCA.
async fn pod(place: &Place, name: &str, concurrency: u32) -> Pod {
    let spec = json!({"concurrency": concurrency, "hold": true, "orca": true});
    Pod::start(place, name, json!({"service": SERVICE, "services": {SERVICE: spec}})).await
}

/// Sends `count` requests to `/slow`, sixteen at once.
async fn load(to: std::net::SocketAddr, count: usize) {
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..count {
        under_way.spawn(send(to, request("/slow"), ""));
        while under_way.len() >= 16 {
            assert_eq!(under_way.join_next().await.unwrap().unwrap().unwrap().status.as_u16(), 200);
        }
    }
    while let Some(done) = under_way.join_next().await {
        assert_eq!(done.unwrap().unwrap().status.as_u16(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envoys_weighted_round_robin_favours_our_larger_server() {
    let place = Place::new();
    let (small, large) = (pod(&place, "small", 1).await, pod(&place, "large", 4).await);
    let mut bootstrap = outbound(&place, &[small.address, large.address], &json!({}), None);
    bootstrap["static_resources"]["clusters"][0]["load_balancing_policy"] = json!({"policies": [{"typed_extension_config": {
        "name": "envoy.load_balancing_policies.client_side_weighted_round_robin",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
            "blackout_period": "0s",
            "weight_update_period": "0.1s",
        },
    }}]});
    let (_envoy, to) = sender(&place, &bootstrap).await;
    // Envoy has weights once both servers have measured a rate.
    for pod in [&small, &large] {
        eventually("a report", async || {
            load(pod.address, 16).await;
            let answer = send(pod.address, request("/x"), "").await.unwrap();
            answer.header(ORCA).is_some().then_some(())
        })
        .await;
    }
    let served = || [&small, &large].map(|pod| pod.app.seen("/slow").len());
    eventually("shares in proportion to the rates", async || {
        let before = served();
        load(to, 80).await;
        let [small, large] = [0, 1].map(|i| served()[i] - before[i]);
        println!("small {small}, large {large}");
        // One to four; without weights one to one.
        (large > 2 * small).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_sender_strips_the_orca_report_of_our_server() {
    let place = Place::new();
    let pod = pod(&place, "pod", 4).await;
    let known = json!({"services": {SERVICE: {"endpoints": [pod.address.to_string()], "orca": true}}});
    let (_envoy, to) = sender(&place, &outbound(&place, &[pod.address], &known, None)).await;
    eventually("a report", async || {
        load(pod.address, 16).await;
        send(pod.address, request("/x"), "").await.unwrap().header(ORCA).is_some().then_some(())
    })
    .await;
    let answer = send(to, request("/x"), "").await.unwrap();
    assert_eq!((answer.app(), answer.header(ORCA)), (Some("pod"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_bloc_are_weighed_by_their_orca_reports() {
    let place = Place::new();
    // Twenty requests a second, and eighty.
    let (small, large) = (App::start("20").await, App::start("80").await);
    let addresses = [small.address, large.address];
    let endpoints: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let known = json!({"services": {SERVICE: {"endpoints": endpoints, "routing": "mu"}}});
    let bootstrap = outbound(&place, &addresses, &known, None);
    let (_envoy, to) = sender(&place, &bootstrap).await;
    for _ in 0..100 {
        let answer = send(to, request("/orca"), "").await.unwrap();
        assert!(answer.header(ORCA).is_some(), "the client sees the application's own header");
    }
    let served = [small.seen("/orca").len(), large.seen("/orca").len()];
    // Each of the two workers has to learn both servers. Without the reports each server gets half.
    assert!(served[1] > 80, "{served:?}");
}
