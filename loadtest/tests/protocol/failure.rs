//! Servers that are killed, or lose their application, under load.

use crate::support::{Place, Pod, metric, outbound, request, send, sender};
use bloc_mesh::envoy::SERVICE;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_killed_under_load_costs_only_the_requests_inside_it() {
    let place = Place::new();
    let mut pods = Vec::new();
    for name in ["one", "two", "three"] {
        pods.push(Pod::with_capacity(&place, name, 20).await);
    }
    let endpoints: Vec<_> = pods.iter().map(|pod| pod.address).collect();
    let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let configuration = json!({"services": {SERVICE: {"endpoints": names, "resetInterval": "200ms"}}});
    let (_envoy, to) = sender(&place, &outbound(&place, &endpoints, &configuration, None)).await;

    const CLIENTS: usize = 8;
    const REQUESTS: usize = 60;
    let done = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let done = Arc::clone(&done);
            tokio::spawn(async move {
                let mut lost = Vec::new();
                for i in 0..REQUESTS {
                    let answer = send(to, request("/slow"), "").await.unwrap();
                    if answer.status.as_u16() != 200 {
                        lost.push((i, answer.status.as_u16()));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                lost
            })
        })
        .collect();
    crate::support::eventually("load", async || (done.load(Ordering::Relaxed) > CLIENTS * REQUESTS / 4).then_some(()))
        .await;
    let killed = pods.remove(0);
    killed.app.crash().await;
    killed.sidecar.kill().await;
    let survivors = |pods: &[Pod]| pods.iter().map(|pod| pod.app.seen("/slow").len()).sum::<usize>();
    let before = survivors(&pods);
    let mut lost = Vec::new();
    for client in clients {
        lost.extend(client.await.unwrap());
    }
    // Only requests that were inside may be lost, at most one for each client. Later ones met a
    // refused connection and were retried elsewhere.
    assert!(lost.len() <= CLIENTS, "lost: {lost:?}");
    assert!(lost.iter().all(|&(_, status)| status == 503), "lost: {lost:?}");
    assert!(survivors(&pods) > before + CLIENTS * REQUESTS / 4, "the others took over");
}

/// A sidecar whose application is gone answers at once, and must not attract load. It tells callers
/// that no application saw the request, and they retry elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn loses_no_request_when_one_sidecar_has_lost_its_application() {
    let place = Place::new();
    let (gone, well) = (Pod::with_capacity(&place, "gone", 20).await, Pod::with_capacity(&place, "well", 20).await);
    let endpoints = [gone.address, well.address];
    let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let configuration = json!({"services": {SERVICE: {"endpoints": names, "resetInterval": "100ms"}}});
    let (envoy, to) = sender(&place, &outbound(&place, &endpoints, &configuration, None)).await;
    gone.app.crash().await;
    for n in 0..40 {
        let answer = send(to, request("/slow").method("POST"), "body").await.unwrap();
        assert_eq!(answer.status.as_u16(), 200, "request {n}");
        assert_eq!(answer.ours(), Vec::<String>::new());
    }
    let unreachable = crate::support::eventually("counters", async || {
        Some(gone.metric("rejected_unreachable").await).filter(|count| *count > 0)
    });
    let rejections = unreachable.await;
    assert_eq!(well.metric("rejected_unreachable").await, 0);
    assert_eq!(gone.metric("departed").await, 0, "nothing was measured");
    crate::support::eventually("rejections", async || {
        (metric(&envoy, "outbound", "rejections").await == gone.metric("rejected_unreachable").await).then_some(())
    })
    .await;
    assert!(rejections < 40, "senders avoid it in between");

    // A caller without our filters gets Envoy's answer unchanged.
    let plain = send(gone.address, request("/slow"), "").await.unwrap();
    assert_eq!(plain.status.as_u16(), 503);
    assert_eq!(plain.ours(), Vec::<String>::new());
    // When no server is left, the sender's client gets this answer too.
    well.app.crash().await;
    let answer = send(to, request("/slow"), "").await.unwrap();
    assert_eq!(answer.status.as_u16(), 503);
    assert_eq!(answer.ours(), Vec::<String>::new());
}
