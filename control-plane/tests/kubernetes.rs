//! The Kubernetes source with a fake API server that fails as a real one does.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::agents::leases::LeaseView;
use bloc_control_plane::metrics::{LatencyMetrics, Metrics};
use bloc_control_plane::source::{KubernetesSource, kubernetes};
use bloc_control_plane::store::{Outcome, Poll};
use bloc_control_plane::{Clock, ReportInterval, Store};
use bloc_policy::sync::{SyncRequest, SyncResponse};
use common::LIMIT;
use common::fake_api::FakeApi;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const A: &str = "a.shop.svc.cluster.local";
const B: &str = "b.shop.svc.cluster.local";

/// A control plane without its HTTP server.
struct Replica {
    store: Store,
    metrics: Arc<Metrics>,
    running: JoinHandle<()>,
}

impl Replica {
    fn begin(api: &FakeApi) -> Self {
        let metrics = Arc::new(Metrics::default());
        let store = Store::new("kubernetes", Clock::system(), ReportInterval::default());
        let client = kubernetes::client(kube::Config::new(api.url.parse().unwrap())).unwrap();
        let running = tokio::spawn(
            KubernetesSource::new(client, "bloc-system", "cluster.local").run(store.clone(), Arc::clone(&metrics)),
        );
        Self { store, metrics, running }
    }

    async fn start(api: &FakeApi) -> Self {
        let replica = Self::begin(api);
        until("readiness", || replica.store.is_ready()).await;
        replica
    }

    fn poll(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Outcome> {
        let services = services.iter().map(ToString::to_string).collect();
        let request = SyncRequest { proxy: proxy.into(), version: version.into(), services, ..SyncRequest::default() };
        let (store, poll) = (self.store.clone(), Poll::try_from(request).unwrap());
        tokio::spawn(async move { store.sync(poll).await.unwrap() })
    }

    async fn state(&self, proxy: &str, version: &str, services: &[&str]) -> SyncResponse {
        state(self.poll(proxy, version, services)).await
    }

    async fn hold(&self, proxy: &str, version: &str, services: &[&str]) -> JoinHandle<Outcome> {
        let before = self.store.counts().polls_held;
        let poll = self.poll(proxy, version, services);
        until("a held poll", || self.store.counts().polls_held > before).await;
        poll
    }

    /// The value of a metric; 0 if it has no series.
    fn metric(&self, name: &str) -> f64 {
        let text = self
            .metrics
            .encode(self.store.counts(), &BTreeMap::new(), LatencyMetrics::default(), &LeaseView::default())
            .unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0.0)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "{what} did not come to pass");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn state(poll: JoinHandle<Outcome>) -> SyncResponse {
    match timeout(LIMIT, poll).await.unwrap().unwrap() {
        Outcome::Changed(answer) => serde_json::from_value(serde_json::to_value(answer).unwrap()).unwrap(),
        other => panic!("no state: {other:?}"),
    }
}

/// Polls until there is a state: who may be behind answers "unchanged" after 3 s.
async fn next_state(replica: &Replica, proxy: &str, version: &str, services: &[&str]) -> SyncResponse {
    loop {
        match timeout(LIMIT, replica.poll(proxy, version, services)).await.unwrap().unwrap() {
            Outcome::Unchanged => {}
            outcome => return state(tokio::spawn(async { outcome })).await,
        }
    }
}

fn endpoints(state: &SyncResponse, host: &str) -> Vec<String> {
    state.services[host].endpoints_by_port[&80].clone()
}

/// An API with the Services a and b, both managed, and a third without a ConfigMap.
async fn shop() -> FakeApi {
    let api = FakeApi::start().await;
    for name in ["a", "b", "c"] {
        api.service("shop", name);
    }
    api.slice("shop", "a", &[("10.0.0.1", true), ("10.0.0.2", true)]);
    api.slice("shop", "b", &[("10.0.0.3", true)]);
    api.policy("shop", "services: {a: {retries: 1}, b: {}}");
    api
}

/// The same with a VirtualService for a.
async fn shop_with_route(attempts: u32) -> FakeApi {
    let api = shop().await;
    api.refuse_routes(None);
    api.route("shop", "v", "a", attempts);
    api
}

#[tokio::test]
async fn pushes_an_unready_endpoint_to_its_callers_only() {
    let api = shop().await;
    let replica = Replica::start(&api).await;
    let first = replica.state("p", "", &[A, "c.shop.svc.cluster.local"]).await;
    assert_eq!(first.services.len(), 1);
    assert_eq!((endpoints(&first, A).len(), first.services[A].retries), (2, Some(1)));
    let other = replica.state("q", "", &[B]).await;
    let (poll, unconcerned) =
        (replica.hold("p", &first.version, &[A]).await, replica.hold("q", &other.version, &[B]).await);
    api.slice("shop", "a", &[("10.0.0.1", true), ("10.0.0.2", false)]);
    assert_eq!(endpoints(&state(poll).await, A), ["10.0.0.1:8080"]);
    assert!(!unconcerned.is_finished());
    api.delete("services", "shop", "b");
    assert!(state(unconcerned).await.services.is_empty());
}

#[tokio::test]
async fn lists_again_after_a_lost_history_and_pushes_only_the_changes() {
    let api = shop().await;
    let replica = Replica::start(&api).await;
    let a = replica.state("p", "", &[A]).await;
    let b = replica.state("q", "", &[B]).await;
    let (of_a, of_b) = (replica.hold("p", &a.version, &[A]).await, replica.hold("q", &b.version, &[B]).await);
    let lists = api.lists();
    // While no watch works, b changes and the history is lost.
    api.refuse(Some(503));
    until("a failure", || replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="endpointslices"}"#) > 0.0).await;
    api.slice("shop", "b", &[("10.0.0.9", true)]);
    api.delete("services", "shop", "c");
    api.forget();
    api.refuse(None);
    assert_eq!(endpoints(&state(of_b).await, B), ["10.0.0.9:8080"]);
    assert!(api.lists() > lists);
    assert!(!of_a.is_finished(), "a did not change");
    api.slice("shop", "a", &[]);
    assert!(endpoints(&state(of_a).await, A).is_empty());
}

#[tokio::test]
async fn keeps_what_it_knows_in_force_without_rights() {
    let api = shop().await;
    api.refuse(Some(403));
    let replica = Replica::begin(&api);
    until("a failure", || replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="configmaps"}"#) > 0.0).await;
    assert!(!replica.store.is_ready());
    api.refuse(None);
    until("readiness", || replica.store.is_ready()).await;
    let first = replica.state("p", "", &[A]).await;
    let poll = replica.hold("p", &first.version, &[A]).await;
    let before = replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="services"}"#);
    api.refuse(Some(403));
    until("failures", || replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="services"}"#) > before + 1.0).await;
    assert!(replica.store.is_ready() && !poll.is_finished());
    api.slice("shop", "a", &[("10.0.0.7", true)]);
    api.refuse(None);
    assert_eq!(endpoints(&state(poll).await, A), ["10.0.0.7:8080"]);
}

#[tokio::test]
async fn reports_a_bad_config_map_by_one_event_and_in_the_status() {
    let api = shop().await;
    let (replica, other) = (Replica::start(&api).await, Replica::start(&api).await);
    let first = replica.state("p", "", &[A]).await;
    let poll = replica.hold("p", &first.version, &[A]).await;
    api.policy("shop", "services: {a: {retries: 11}, b: {}}");
    for replica in [&replica, &other] {
        until("the refusal", || replica.metric("bloc_config_refused") == 1.0).await;
        let refusals = replica.store.status().refusals;
        let messages: Vec<_> = refusals.iter().filter_map(|refusal| refusal.message.as_deref()).collect();
        assert_eq!(messages, ["ConfigMap shop/bloc: services.a.retries: 11 is not allowed; allowed: 0 to 10"]);
    }
    until("the Event", || !api.events().is_empty()).await;
    let [event] = &api.events()[..] else { panic!("one for both replicas: {:?}", api.events()) };
    assert_eq!((&event["regarding"]["name"], &event["type"]), (&"bloc".into(), &"Warning".into()));
    assert!(
        event["note"].as_str().unwrap().ends_with("services.a.retries: 11 is not allowed; allowed: 0 to 10"),
        "{event}"
    );
    assert!(!poll.is_finished());
    api.policy("shop", "services: {a: {retries: 2}, b: {}}");
    assert_eq!(state(poll).await.services[A].retries, Some(2));
    until("the end of the refusal", || replica.metric("bloc_config_refused") == 0.0).await;
    assert_eq!(replica.metric("bloc_config_rejected_total"), 1.0);
}

#[tokio::test]
async fn a_proxy_that_switches_replicas_gets_every_change_from_both() {
    let api = shop().await;
    let old = Replica::start(&api).await;
    // The newer replica has listed at a revision that the older one's quiet watches never saw.
    api.pass(50);
    let new = Replica::start(&api).await;
    let mut version = new.state("p", "", &[A]).await.version;
    assert_eq!(old.state("q", "", &[A]).await.version, version, "equal states have equal versions");
    for (round, replica) in [&old, &new, &old, &new].into_iter().enumerate() {
        let poll = replica.hold("p", &version, &[A]).await;
        let ip = format!("10.0.1.{round}");
        api.slice("shop", "a", &[(&ip, true)]);
        let state = state(poll).await;
        assert_eq!(endpoints(&state, A), [format!("{ip}:8080")]);
        version = state.version;
    }
    let digest = |version: &str| version.split('@').next().unwrap().to_owned();
    // The older replica reads the last change too, a moment later at most.
    let start = Instant::now();
    while digest(&old.state("r", "", &[A]).await.version) != digest(&version) {
        assert!(start.elapsed() < LIMIT, "the replicas give one state two digests");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn proxies_get_new_state_after_the_cluster_is_restored() {
    let api = shop().await;
    api.pass(1_000);
    let before = Replica::start(&api).await;
    let version = before.state("p", "", &[A]).await.version;
    drop(before);
    api.restore(7);
    api.slice("shop", "a", &[("10.0.0.5", true)]);
    let after = Replica::start(&api).await;
    let poll = after.hold("p", &version, &[A]).await;
    api.bookmark();
    let state = state(poll).await;
    assert_eq!(endpoints(&state, A), ["10.0.0.5:8080"]);
    after.hold("p", &state.version, &[A]).await;
}

#[tokio::test]
async fn reads_routes_as_soon_as_they_exist_and_may_be_read() {
    let api = shop().await;
    let retries = |state: &SyncResponse| {
        let spec = &state.services[A];
        assert!(spec.route_retries.is_none() && spec.virtual_service_retries.is_empty(), "older proxies refuse it");
        (state.routes[A].retries, state.routes[A].virtual_services.clone().into_iter().collect::<Vec<_>>())
    };
    // Istio's definitions do not exist yet.
    let replica = Replica::start(&api).await;
    let first = replica.state("p", "", &[A]).await;
    assert_eq!(retries(&first), (2, vec![]));
    assert_eq!(replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="virtualservices"}"#), 0.0);
    // They are defined now, but the right to read them is missing.
    let poll = replica.hold("p", &first.version, &[A]).await;
    api.route("shop", "v", "a", 5);
    api.refuse_routes(Some(403));
    let late = Replica::start(&api).await;
    assert_eq!(retries(&late.state("q", "", &[A]).await), (2, vec![]));
    until("a failure", || late.metric(r#"bloc_kubernetes_watch_errors_total{kind="virtualservices"}"#) > 0.0).await;
    api.refuse_routes(None);
    let second = state(poll).await;
    assert_eq!(retries(&second), (2, vec![("shop/v".into(), 5)]));
    // Without the right, the routes stay in force; without the definition, they are removed in the
    // end.
    let poll = replica.hold("p", &second.version, &[A]).await;
    let failures = || replica.metric(r#"bloc_kubernetes_watch_errors_total{kind="virtualservices"}"#);
    let before = failures();
    api.refuse_routes(Some(403));
    until("a failure", || failures() > before).await;
    assert!(!poll.is_finished());
    api.refuse_routes(Some(404));
    assert_eq!(retries(&state(poll).await), (2, vec![]));
}

#[tokio::test]
async fn a_replica_that_may_not_read_routes_serves_proxies_that_know_them() {
    let serves = async |status| {
        let api = shop_with_route(5).await;
        let with = Replica::start(&api).await;
        let first = with.state("p", "", &[A, B]).await;
        assert_eq!(first.routes[A].virtual_services.len(), 1);
        api.refuse_routes(Some(status));
        let without = Replica::start(&api).await;
        api.slice("shop", "b", &[("10.0.0.9", true)]);
        let state = next_state(&without, "p", &first.version, &[A, B]).await;
        assert_eq!(endpoints(&state, B), ["10.0.0.9:8080"], "{status}");
    };
    tokio::join!(serves(403), serves(404));
}

#[tokio::test]
async fn keeps_routes_through_a_short_outage_and_does_not_list_in_a_loop() {
    let api = shop_with_route(1).await;
    let replica = Replica::start(&api).await;
    let first = replica.state("p", "", &[A]).await;
    let poll = replica.hold("p", &first.version, &[A]).await;
    let lists = api.lists();
    api.refuse_routes(Some(404));
    sleep(Duration::from_millis(700)).await;
    api.refuse_routes(None);
    until("a list", || api.lists() > lists).await;
    api.refuse_route_watches(Some(404));
    let lists = api.lists();
    sleep(Duration::from_secs(1)).await;
    assert!(api.lists() - lists < 20, "{} lists in a second", api.lists() - lists);
    assert!(!poll.is_finished(), "nothing has changed");
    // Lists alone bring changes too.
    api.route("shop", "v", "a", 3);
    assert_eq!(state(poll).await.routes[A].virtual_services["shop/v"], 3);
}

#[tokio::test]
async fn a_route_to_an_external_name_counts_for_the_service_it_points_to() {
    let api = shop().await;
    api.refuse_routes(None);
    api.route("web", "v", "alias", 1);
    let replica = Replica::start(&api).await;
    let first = replica.state("p", "", &[A]).await;
    assert!(first.routes[A].virtual_services.is_empty());
    let poll = replica.hold("p", &first.version, &[A]).await;
    let ports = serde_json::json!([{"name": "web", "port": 80}]);
    let spec = serde_json::json!({"spec": {"type": "ExternalName", "externalName": A, "ports": ports}});
    api.put("services", "web", "alias", spec);
    let second = state(poll).await;
    assert_eq!(second.routes[A].virtual_services["web/v"], 1);
    let poll = replica.hold("p", &second.version, &[A]).await;
    api.delete("services", "web", "alias");
    assert!(state(poll).await.routes[A].virtual_services.is_empty());
}

#[tokio::test]
async fn replicas_that_may_not_read_routes_any_more_reach_the_same_state() {
    let api = shop_with_route(5).await;
    let with = Replica::start(&api).await;
    let mut version = with.state("p", "", &[A]).await.version;
    api.refuse_routes(Some(403));
    let without = Replica::start(&api).await;
    let digest = |version: &str| version.split('@').next().unwrap().to_owned();
    let (begun, mut answers) = (Instant::now(), 0);
    // A proxy polls both in turn, each as soon as the other has answered.
    for replica in [&without, &with].into_iter().cycle() {
        match timeout(Duration::from_secs(15), replica.poll("p", &version, &[A])).await {
            Ok(Ok(Outcome::Changed(answer))) => (answers, version) = (answers + 1, answer.version.to_string()),
            Ok(Ok(Outcome::Unchanged)) => {}
            _ => break,
        }
        assert!(begun.elapsed() < 2 * LIMIT && answers < 100, "{answers} answers");
    }
    let states = [with.state("q", "", &[A]).await, without.state("q", "", &[A]).await];
    assert!(states.iter().all(|state| digest(&state.version) == digest(&version)), "{version}: {states:?}");
    assert!(states[0].routes[A].virtual_services.is_empty());
}
