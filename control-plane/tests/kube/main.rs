//! The control plane with a real kube-apiserver and etcd, which `build.sh` builds. Run by `run.sh`.
//!
//! Only tests that need these belong here. `tests/kubernetes.rs` tests the source with a fake API
//! server.
#![allow(missing_docs, reason = "tests")]

mod cluster;
mod envoys;
mod features;
mod flood;
mod leases;
mod node_agent;
mod programs;
mod proxy;
mod replicas;

use cluster::{Cluster, until};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const A: &str = "a.shop.svc.cluster.local";

fn ips(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("10.1.{}.{}", i / 250, i % 250 + 1)).collect()
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_proxy_follows_a_service_as_it_appears_grows_shrinks_and_goes() {
    let cluster = Cluster::start().await;
    let control_plane = cluster.control_plane("one").await;
    until("readiness", async || control_plane.is_ready().await).await;
    let mut proxy = Proxy::new("p", A, std::slice::from_ref(&control_plane.url), 0);
    assert!(proxy.poll().await && proxy.known().is_none());

    cluster.policy("services: {a: {retries: 2}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..1)).await;
    proxy.endpoints(&ips(0..1)).await;
    assert_eq!(proxy.state.services[A].retries, Some(2));
    // The largest slices that Kubernetes allows.
    cluster.slice("a", "a-1", &ips(0..1_000)).await;
    cluster.slice("a", "a-2", &ips(1_000..2_000)).await;
    let mut all = ips(0..2_000);
    all.sort_by_key(|ip| ip.parse::<std::net::Ipv4Addr>().unwrap());
    proxy.endpoints(&all).await;
    cluster.slice("a", "a-1", &[]).await;
    cluster.slice("a", "a-2", &ips(7..8)).await;
    proxy.endpoints(&ips(7..8)).await;
    cluster.delete_service("a").await;
    until("the service to go", async || {
        proxy.poll().await;
        proxy.known().is_none()
    })
    .await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_proxy_follows_the_retries_of_a_virtual_service() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    let control_plane = cluster.control_plane("one").await;
    let mut proxy = Proxy::new("p", A, std::slice::from_ref(&control_plane.url), 0);
    proxy.endpoints(&[]).await;
    assert_eq!(proxy.state.routes[A].retries, 2);
    assert!(proxy.state.routes[A].virtual_services.is_empty(), "the API knows no VirtualService");
    cluster.virtual_services().await;
    for attempts in [5, 1] {
        cluster.route("v", "a", attempts).await;
        until("the route's number", async || {
            proxy.poll().await;
            proxy.state.routes[A].virtual_services.get("shop/v") == Some(&attempts.into())
        })
        .await;
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn a_bad_config_map_gets_an_event_and_changes_nothing() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {retries: 2}}").await;
    cluster.service("a").await;
    let control_plane = cluster.control_plane("one").await;
    let mut proxy = Proxy::new("p", A, std::slice::from_ref(&control_plane.url), 0);
    proxy.endpoints(&[]).await;
    cluster.policy("services: {a: {retries: 11}}").await;
    let events = Api::<Event>::namespaced(cluster.client.clone(), "shop");
    let reason = "services.a.retries: 11 is not allowed; allowed: 0 to 10";
    until("the Event", async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().any(|event| event.note.as_deref().is_some_and(|note| note.ends_with(reason)))
    })
    .await;
    assert!(control_plane.get("/v1/status").await.contains(reason));
    assert!(!proxy.poll().await);
    // A replica that never read the good content takes its copy.
    let late = cluster.control_plane("two").await;
    let mut other = Proxy::new("q", A, std::slice::from_ref(&late.url), 0);
    until("the copy", async || other.poll().await).await;
    assert_eq!(other.state.services[A].retries, Some(2));
    cluster.policy("services: {a: {retries: 3}}").await;
    until("the good one", async || proxy.poll().await && proxy.state.services[A].retries == Some(3)).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn keeps_the_last_good_state_without_rights_or_an_api_server() {
    let mut cluster = Cluster::start().await;
    cluster.policy("services: {'*': {}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..1)).await;
    let control_plane = cluster.control_plane("one").await;
    let mut proxy = Proxy::new("p", A, std::slice::from_ref(&control_plane.url), 0);
    proxy.endpoints(&ips(0..1)).await;
    let errors = r#"bloc_kubernetes_watch_errors_total{kind="endpointslices"}"#;

    // Running watches survive the loss of rights until they are renewed, which a restart of the API
    // server forces here.
    cluster.rights(false).await;
    cluster.kill_server().await;
    cluster.restart_server().await;
    until("a failure", async || control_plane.metric(errors).await.unwrap_or(0.0) > 0.0).await;
    until("the refusal", async || cluster.log("one").contains("forbidden")).await;
    cluster.slice("a", "a-1", &ips(0..2)).await;
    assert!(control_plane.is_ready().await);
    assert!(!proxy.poll().await);
    cluster.rights(true).await;
    proxy.endpoints(&ips(0..2)).await;

    cluster.kill_server().await;
    // It has tried again several times.
    let before = control_plane.metric(errors).await.unwrap();
    until("three more failures", async || control_plane.metric(errors).await.unwrap() >= before + 3.0).await;
    assert!(control_plane.is_ready().await);
    let mut new = Proxy::new("q", A, std::slice::from_ref(&control_plane.url), 0);
    new.endpoints(&ips(0..2)).await;
    cluster.restart_server().await;
    cluster.slice("a", "a-1", &ips(0..3)).await;
    proxy.endpoints(&ips(0..3)).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn forged_versions_make_no_replica_list_the_cluster_again() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    let (one, two) = tokio::join!(cluster.control_plane("one"), cluster.control_plane("two"));
    let sealed = "versions are sealed";
    until("seals", async || ["one", "two"].iter().all(|name| cluster.log(name).contains(sealed))).await;
    let [secret] = &cluster.secrets().await[..] else { panic!("one Secret for both") };
    assert_eq!(secret.metadata.name.as_deref(), Some("bloc-control-plane-seal"));
    assert_eq!(secret.data.as_ref().unwrap()["key"].0.len(), 32);
    // Each replica lists until it is ready; after that only a forged version could cause a list.
    for replica in [&one, &two] {
        until("readiness", async || replica.is_ready().await).await;
    }
    for replica in [&one, &two] {
        let mut proxy = Proxy::new("p", A, std::slice::from_ref(&replica.url), 0);
        proxy.endpoints(&[]).await;
        let (_, numbers) = proxy.state.version.split_once('@').unwrap();
        let mut numbers: Vec<u64> = numbers.split('.').map(|number| number.parse().unwrap()).collect();
        let (lists, mut forger) = (cluster.lists(), Proxy::new("forger", A, std::slice::from_ref(&replica.url), 0));
        assert!(lists > 0, "the audit log counts");
        for more in 1..=10 {
            for number in numbers.iter_mut().take(4) {
                *number += more;
            }
            let text: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            // With the seal of another version, and without a seal, as in versions of older builds.
            for numbers in [&text[..], &text[..4]] {
                forger.state.version = format!("0123456789abcdef@{}", numbers.join("."));
                assert!(forger.poll().await, "held for {}", forger.state.version);
            }
        }
        assert_eq!(cluster.lists(), lists);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn proxies_never_go_back_while_they_switch_replicas_and_one_is_killed() {
    const PROXIES: usize = 100;
    const GENERATIONS: usize = 60;
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    cluster.slice("a", "a-1", &ips(0..1)).await;
    let one = cluster.control_plane("one").await;
    let two = cluster.control_plane("two").await;
    for replica in [&one, &two] {
        until("readiness", async || replica.is_ready().await).await;
    }
    let urls = [one.url.clone(), two.url.clone()];
    let arrived = Arc::new(AtomicUsize::new(0));
    let proxies: Vec<_> = (0..PROXIES)
        .map(|i| {
            let (mut proxy, arrived) = (Proxy::new(&format!("p{i}"), A, &urls, i), Arc::clone(&arrived));
            proxy.turn();
            tokio::spawn(async move {
                let mut generation = 0;
                while generation < GENERATIONS {
                    // After every answer it goes to the other replica, which may lag but must not
                    // undo the change.
                    if proxy.poll().await {
                        proxy.turn();
                    }
                    let known = proxy.known().unwrap_or_default().first().cloned().unwrap_or_default();
                    let now = (0..=GENERATIONS).find(|i| known == format!("{}:8080", ips(*i..*i + 1)[0])).unwrap_or(0);
                    assert!(now >= generation, "from {generation} back to {now}");
                    generation = now;
                }
                arrived.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    for generation in 1..GENERATIONS / 2 {
        cluster.slice("a", "a-1", &ips(generation..generation + 1)).await;
    }
    one.kill().await;
    for generation in GENERATIONS / 2..=GENERATIONS {
        cluster.slice("a", "a-1", &ips(generation..generation + 1)).await;
    }
    until("all proxies at the last state", async || arrived.load(Ordering::Relaxed) == PROXIES).await;
    for proxy in proxies {
        proxy.await.unwrap();
    }
}
