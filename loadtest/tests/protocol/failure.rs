//! Servers that die under load.

use crate::support::{Place, Pod, outbound, request, send, sender};
use bloc_lab::envoy::SERVICE;
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
    killed.app.crash();
    killed.sidecar.kill().await;
    let survivors = |pods: &[Pod]| pods.iter().map(|pod| pod.app.seen("/slow").len()).sum::<usize>();
    let before = survivors(&pods);
    let mut lost = Vec::new();
    for client in clients {
        lost.extend(client.await.unwrap());
    }
    // Those that were inside, at most one a client; who came later found a refused connection and was retried elsewhere.
    assert!(lost.len() <= CLIENTS, "lost: {lost:?}");
    assert!(lost.iter().all(|&(_, status)| status == 503), "lost: {lost:?}");
    assert!(survivors(&pods) > before + CLIENTS * REQUESTS / 4, "the others took over");
}
