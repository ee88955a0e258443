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

use cluster::{Cluster, ControlPlane, until};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use leases::LeaseHolder;
use proxy::Proxy;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

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
    let refusals = async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().filter(|event| event.note.as_deref().is_some_and(|note| note.ends_with(reason))).count()
    };
    until("the Event", async || refusals().await == 1).await;
    // The status may be a second old.
    until("the status", async || control_plane.get("/v1/status").await.contains(reason)).await;
    assert!(!proxy.poll().await);
    // A replica that never read the good content takes its copy.
    let late = cluster.control_plane("two").await;
    let mut other = Proxy::new("q", A, std::slice::from_ref(&late.url), 0);
    until("the copy", async || other.poll().await).await;
    assert_eq!(other.state.services[A].retries, Some(2));
    cluster.policy("services: {a: {retries: 3}}").await;
    until("the good one", async || proxy.poll().await && proxy.state.services[A].retries == Some(3)).await;
    for count in [2, 3] {
        cluster.policy("services: {a: {retries: 11}}").await;
        until("an Event of each refused revision", async || refusals().await == count).await;
        cluster.policy("services: {a: {retries: 3}}").await;
        until("its end", async || !control_plane.get("/v1/status").await.contains(reason)).await;
    }
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
async fn a_made_up_version_delays_only_its_own_proxy_and_causes_no_list() {
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    let control_plane = cluster.control_plane("one").await;
    until("readiness", async || control_plane.is_ready().await).await;
    let urls = std::slice::from_ref(&control_plane.url);
    let (mut proxy, mut forger) = (Proxy::new("p", A, urls, 0), Proxy::new("forger", A, urls, 0));
    proxy.endpoints(&[]).await;
    let lists = cluster.lists();
    assert!(lists > 0, "the audit log counts");
    // More of the slices, so that the watch tells something afterwards.
    forger.state.version = format!("{}@e1000000000", "0".repeat(16));
    let begun = Instant::now();
    assert!(!forger.poll().await, "held for {}", forger.state.version);
    cluster.slice("a", "a-1", &ips(0..1)).await;
    proxy.endpoints(&ips(0..1)).await;
    until("the state", async || forger.poll().await).await;
    assert_eq!(forger.state, proxy.state);
    let waited = begun.elapsed().as_millis();
    assert!((3_000..5_000).contains(&waited), "{waited} ms");
    assert_eq!(cluster.lists(), lists);
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make test-kube"]
async fn proxies_go_back_for_no_paused_replica_but_for_an_etcd_that_is_put_back() {
    let mut cluster = Cluster::start().await;
    cluster.policy("services: {a: {}}").await;
    cluster.service("a").await;
    let slice = async |cluster: &Cluster, generation: usize| {
        cluster.slice("a", "a-1", &ips(generation..generation + 1)).await;
    };
    slice(&cluster, 0).await;
    let (one, two) = tokio::join!(cluster.control_plane("one"), cluster.control_plane("two"));
    let urls = [one.url.clone(), two.url.clone()];
    // The generation that each of these proxies has; they go to the other replica after each poll.
    let seen: Vec<_> = (0..6).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let proxies: Vec<_> = (0..seen.len())
        .map(|i| {
            let (mut proxy, seen) = (Proxy::new(&format!("p{i}"), A, &urls, i % 2), Arc::clone(&seen[i]));
            tokio::spawn(async move {
                loop {
                    if proxy.poll().await {
                        let known = proxy.known().unwrap_or_default();
                        seen.lock().unwrap().push((0..100).find(|i| known == [format!("{}:8080", ips(*i..*i + 1)[0])]));
                    }
                    proxy.turn();
                }
            })
        })
        .collect();
    let all_have = async |generation| {
        let has = || seen.iter().all(|seen| seen.lock().unwrap().last() == Some(&Some(generation)));
        until("all proxies at a generation", async || has()).await;
    };
    let is_sorted = || seen.iter().all(|seen| seen.lock().unwrap().is_sorted());
    all_have(0).await;
    let mut agent = LeaseHolder::new("n1", 300_000);
    until("a part", async || agent.step(&one).await && agent.part() > 0).await;
    cluster.back_up(false).await;
    for pause in [2, 20] {
        tokio::join!(two.pause(Duration::from_secs(pause)), async {
            for generation in 1..=10 {
                slice(&cluster, generation).await;
                sleep(Duration::from_millis(300)).await;
            }
        });
        all_have(10).await;
        slice(&cluster, 11).await;
        all_have(11).await;
        assert!(is_sorted(), "{seen:?}");
        for seen in &seen {
            println!("paused for {pause} s: {:?}", seen.lock().unwrap());
            seen.lock().unwrap().clear();
        }
        slice(&cluster, 0).await;
        all_have(0).await;
        seen.iter().for_each(|seen| seen.lock().unwrap().clear());
    }
    // What is written after the backup: a copy of a ConfigMap, and a lease record.
    cluster.policy("services: {a: {retries: 2}}").await;
    until("the copy", async || cluster.copy().await.contains("retries: 2")).await;
    agent.wants = 600_000;
    until("a larger part", async || agent.step(&two).await && agent.part() > 300_000).await;
    slice(&cluster, 12).await;
    all_have(12).await;
    let lists = cluster.lists();
    cluster.back_up(true).await;
    let begun = Instant::now();
    let has_listed = async |replica: &ControlPlane| {
        while !replica.get(&format!("/v1/status/services/{A}")).await.contains(&format!("{}:8080", ips(0..1)[0])) {
            // Later, silence would cause the list.
            assert!(begun.elapsed() < Duration::from_secs(60), "no list");
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(has_listed(&one), has_listed(&two));
    println!("listed after {:?}, {} lists", begun.elapsed(), cluster.lists() - lists);
    let before: Vec<_> = seen.iter().map(|seen| std::mem::take(&mut *seen.lock().unwrap())).collect();
    for generation in 20..30 {
        slice(&cluster, generation).await;
        sleep(Duration::from_millis(200)).await;
    }
    until("all proxies at the last state", async || {
        seen.iter().all(|seen| seen.lock().unwrap().last() == Some(&Some(29)))
    })
    .await;
    for (before, seen) in before.iter().zip(&seen) {
        println!("put back: {before:?}, all listed: {:?}", seen.lock().unwrap());
    }
    assert!(is_sorted(), "{seen:?}");
    proxies.iter().for_each(tokio::task::JoinHandle::abort);
    // Revisions are those of the backup again, below those of the copy and the record before.
    cluster.policy("services: {a: {retries: 4}}").await;
    until("the copy", async || cluster.copy().await.contains("retries: 4")).await;
    for replica in [&one, &two] {
        let mut proxy = Proxy::new("late", A, std::slice::from_ref(&replica.url), 0);
        let has = async || proxy.poll().await && proxy.state.services[A].retries == Some(4);
        until("the ConfigMap in force", has).await;
    }
    for replica in [&one, &two] {
        until("the record", async || agent.step(replica).await).await;
    }
}
