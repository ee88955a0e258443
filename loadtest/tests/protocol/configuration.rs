//! Configuration and its update under load.

use crate::support::{App, Place, Pod, dynamic, eventually, from_sidecar, inbound, metric, request, send};
use bloc_mesh::envoy::{Envoy, SERVICE, workspace};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn capacity(limit: u32) -> Value {
    json!({"service": SERVICE, "services": {SERVICE: {"capacity": {"estimator": "static", "limit": limit}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_a_valid_update_under_load_and_ignores_an_invalid_one() {
    let place = Place::new();
    let app = App::start("pod").await;
    let mut bootstrap = inbound(&place, app.address, &capacity(100), None);
    let mut listeners = dynamic(&mut bootstrap, place.path());
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 2).await.unwrap();
    let address = sidecar.listener("inbound").unwrap();
    let pod = Pod { app, sidecar, address };
    assert_eq!(capacity_of(&pod).await, Some(100));

    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = send(address, request("/x"), "").await.expect("no request is lost");
                    assert_eq!(answer.app(), Some("pod"));
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();

    listeners.update(1, &capacity(50));
    eventually("the new capacity", async || (pod.metric("capacity").await == 50).then_some(())).await;
    eventually("its use by the workers", async || (capacity_of(&pod).await == Some(50)).then_some(())).await;

    listeners.update(2, &json!({"service": SERVICE, "services": {SERVICE: {"retries": 11}}}));
    let log = place.path().join("pod.log");
    let said = eventually("a refusal in Envoy's log", async || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().find(|line| line.contains("configuration refused")).map(str::to_owned)
    })
    .await;
    assert!(said.contains("services.backend.retries: 11 is not allowed; allowed: 0 to 10"), "{said}");
    let before = sent.load(Ordering::Relaxed);
    eventually("traffic after the refusal", async || (sent.load(Ordering::Relaxed) > before + 100).then_some(())).await;
    assert!((capacity_of(&pod).await == Some(50)), "the running configuration stays");

    // A valid one after the invalid one is applied.
    listeners.update(3, &capacity(25));
    eventually("the capacity after that", async || (capacity_of(&pod).await == Some(25)).then_some(())).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
}

async fn capacity_of(pod: &Pod) -> Option<u32> {
    send(pod.address, from_sidecar("/probe"), "").await.unwrap().load()?.2
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_at_the_start_is_refused_with_path_value_and_range() {
    let place = Place::new();
    let app = App::start("pod").await;
    let bad = json!({"services": {SERVICE: {"headroom": 1.5}}});
    let error = Envoy::start(&place.envoy, place.path(), "pod", &inbound(&place, app.address, &bad, None), 2)
        .await
        .unwrap_err();
    let said = std::fs::read_to_string(place.path().join("pod.log")).unwrap();
    let expected = "services.backend.headroom: 1.5 is not allowed; allowed: a number above 0 and at most 1";
    assert!(said.contains(expected), "{error}\n{said}");
}

/// The example of `docs/envoy.md`, with this application, these servers and this module.
fn example(place: &Place, app: SocketAddr, servers: &[SocketAddr]) -> Value {
    let at = |address: SocketAddr| json!({"socket_address": {"address": "127.0.0.1", "port_value": address.port()}});
    let text = std::fs::read_to_string(workspace().join("docs/envoy.yaml")).unwrap();
    let text = text.replace("target/bloc.wasm", place.module.to_str().unwrap());
    let mut bootstrap: Value = serde_saphyr::from_str(&text).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    bootstrap["admin"] = json!({"address": at(any)});
    let resources = &mut bootstrap["static_resources"];
    for listener in resources["listeners"].as_array_mut().unwrap() {
        listener["address"] = at(any);
    }
    for (cluster, endpoints) in [("application", &[app][..]), ("backend", servers)] {
        let clusters = resources["clusters"].as_array_mut().unwrap();
        let found = clusters.iter_mut().find(|one| one["name"] == cluster).unwrap();
        let hosts: Vec<Value> = endpoints.iter().map(|one| json!({"endpoint": {"address": at(*one)}})).collect();
        found["load_assignment"]["endpoints"] = json!([{"lb_endpoints": hosts}]);
    }
    bootstrap
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_documentation_works() {
    let place = Place::new();
    let app = App::start("pod").await;
    let start = async |name, servers: &[SocketAddr]| {
        Envoy::start(&place.envoy, place.path(), name, &example(&place, app.address, servers), 1).await.unwrap()
    };
    let server = start("server", &[]).await;
    let caller = start("caller", &[server.listener("inbound").unwrap()]).await;
    for _ in 0..20 {
        let answer = send(caller.listener("outbound").unwrap(), request("/x"), "").await.unwrap();
        assert_eq!((answer.app(), answer.ours()), (Some("pod"), vec![]));
    }
    for seen in app.seen("/x") {
        assert!(!seen.headers.keys().any(|name| name.as_str().starts_with("x-bloc")), "{:?}", seen.headers);
    }
    eventually("all counters", async || {
        let counts = (metric(&caller, "outbound", "attempts").await, metric(&server, "inbound", "chips_granted").await);
        (counts == (20, 20)).then_some(())
    })
    .await;
}
