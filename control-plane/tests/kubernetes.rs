//! The Kubernetes source at an API that does what a real one does on its bad days.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::source::{KubernetesSource, Publisher, kubernetes};
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

/// A control plane without its HTTP.
struct Replica {
    store: Store,
    metrics: Arc<Metrics>,
    running: JoinHandle<()>,
}

impl Replica {
    fn begin(api: &FakeApi) -> Self {
        let metrics = Arc::new(Metrics::default());
        let store = Store::new("kubernetes", Clock::system(), ReportInterval::default());
        let publisher = Publisher::new(store.clone(), Arc::clone(&metrics));
        let client = kubernetes::client(kube::Config::new(api.url.parse().unwrap())).unwrap();
        let running = tokio::spawn(KubernetesSource::new(client, "bloc-system", "cluster.local").run(publisher));
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

    /// The value of a metric; 0 as long as it has no series.
    fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode(self.store.counts(), &BTreeMap::new()).unwrap();
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

fn endpoints(state: &SyncResponse, host: &str) -> Vec<String> {
    state.services[host].endpoints_by_port[&80].clone()
}

/// An API with the Services a and b, both managed, and a third that nobody manages.
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

#[tokio::test]
async fn an_unready_endpoint_is_told_to_those_who_call_it() {
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
async fn a_lost_history_is_made_good_by_a_list_and_nobody_sees_it() {
    let api = shop().await;
    let replica = Replica::start(&api).await;
    let a = replica.state("p", "", &[A]).await;
    let b = replica.state("q", "", &[B]).await;
    let (of_a, of_b) = (replica.hold("p", &a.version, &[A]).await, replica.hold("q", &b.version, &[B]).await);
    let lists = api.lists();
    // While nobody watches, b changes and the history is lost.
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
async fn without_rights_what_is_known_stays_in_force() {
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
async fn a_bad_config_map_is_refused_where_its_owner_looks() {
    let api = shop().await;
    let (replica, other) = (Replica::start(&api).await, Replica::start(&api).await);
    let first = replica.state("p", "", &[A]).await;
    let poll = replica.hold("p", &first.version, &[A]).await;
    api.policy("shop", "services: {a: {retries: 11}, b: {}}");
    for replica in [&replica, &other] {
        until("the refusal", || replica.metric("bloc_config_refused") == 1.0).await;
        let refusal = replica.store.overview().refusal.unwrap();
        assert_eq!(refusal.message, "ConfigMap shop/bloc: services.a.retries: 11 is not allowed, only 0 to 10");
        assert!(!refusal.resolved);
    }
    until("the Event", || !api.events().is_empty()).await;
    let [event] = &api.events()[..] else { panic!("one for both replicas: {:?}", api.events()) };
    assert_eq!((&event["regarding"]["name"], &event["type"]), (&"bloc".into(), &"Warning".into()));
    assert!(
        event["note"].as_str().unwrap().ends_with("services.a.retries: 11 is not allowed, only 0 to 10"),
        "{event}"
    );
    assert!(!poll.is_finished());
    api.policy("shop", "services: {a: {retries: 2}, b: {}}");
    assert_eq!(state(poll).await.services[A].retries, Some(2));
    until("peace", || replica.metric("bloc_config_refused") == 0.0).await;
    assert_eq!(replica.metric("bloc_config_rejected_total"), 1.0);
}

#[tokio::test]
async fn a_proxy_moves_between_replicas_and_hears_every_change_from_both() {
    let api = shop().await;
    let old = Replica::start(&api).await;
    // The newer one has listed at a revision that the older one's quiet watches never saw.
    api.pass(50);
    let new = Replica::start(&api).await;
    let mut version = new.state("p", "", &[A]).await.version;
    assert_ne!(old.state("q", "", &[A]).await.version, version, "the revisions differ");
    for (round, replica) in [&old, &new, &old, &new].into_iter().enumerate() {
        let poll = replica.hold("p", &version, &[A]).await;
        let ip = format!("10.0.1.{round}");
        api.slice("shop", "a", &[(&ip, true)]);
        let state = state(poll).await;
        assert_eq!(endpoints(&state, A), [format!("{ip}:8080")]);
        version = state.version;
    }
    let digest = |version: &str| version.split('@').next().unwrap().to_owned();
    assert_eq!(digest(&old.state("r", "", &[A]).await.version), digest(&version));
}

#[tokio::test]
async fn a_restored_cluster_speaks_to_its_proxies_again() {
    let api = shop().await;
    api.pass(1_000);
    let before = Replica::start(&api).await;
    let version = before.state("p", "", &[A]).await.version;
    drop(before);
    api.restore(7);
    api.slice("shop", "a", &[("10.0.0.5", true)]);
    let after = Replica::start(&api).await;
    assert_eq!(endpoints(&after.state("p", &version, &[A]).await, A), ["10.0.0.5:8080"]);
}
