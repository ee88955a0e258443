//! With a fake API server: forged versions cause no lists, and replicas share the key of their
//! seals.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::metrics::Metrics;
use bloc_control_plane::source::{KubernetesSource, Publisher, kubernetes};
use bloc_control_plane::store::{Outcome, Poll};
use bloc_control_plane::{Clock, ReportInterval, Store};
use bloc_policy::sync::{SyncRequest, SyncResponse};
use common::LIMIT;
use common::fake_api::FakeApi;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const A: &str = "a.shop.svc.cluster.local";
const SECRET: &str = "bloc-control-plane-seal";
const NAMESPACE: &str = "bloc-system";
/// EndpointSlices, Services, ConfigMaps and VirtualServices.
const PLACES: usize = 4;

struct Replica {
    store: Store,
    running: JoinHandle<()>,
}

impl Replica {
    fn begin(api: &FakeApi) -> Self {
        Self::at(&api.url)
    }

    fn at(url: &str) -> Self {
        let store = Store::new("kubernetes", Clock::system(), ReportInterval::default());
        let publisher = Publisher::new(store.clone(), Arc::new(Metrics::default()));
        let client = kubernetes::client(kube::Config::new(url.parse().unwrap())).unwrap();
        let running = tokio::spawn(KubernetesSource::new(client, NAMESPACE, "cluster.local").run(publisher));
        Self { store, running }
    }

    async fn start(api: &FakeApi) -> Self {
        let replica = Self::begin(api);
        until("readiness", || replica.store.is_ready()).await;
        replica
    }

    fn poll(&self, proxy: &str, version: &str) -> JoinHandle<Outcome> {
        let services = vec![A.to_owned()];
        let request = SyncRequest { proxy: proxy.into(), version: version.into(), services, ..SyncRequest::default() };
        let (store, poll) = (self.store.clone(), Poll::try_from(request).unwrap());
        tokio::spawn(async move { store.sync(poll).await.unwrap() })
    }

    async fn state(&self, proxy: &str, version: &str) -> SyncResponse {
        state(self.poll(proxy, version)).await
    }

    async fn hold(&self, proxy: &str, version: &str) -> JoinHandle<Outcome> {
        let before = self.store.counts().polls_held;
        let poll = self.poll(proxy, version);
        until("a held poll", || self.store.counts().polls_held > before).await;
        poll
    }

    /// The refusals in force.
    fn refused(&self) -> Vec<String> {
        self.store.status().refusals.into_iter().filter_map(|refusal| refusal.message).collect()
    }

    fn wants(&self) -> bool {
        (0..PLACES).any(|place| self.store.wants_at(place))
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

async fn shop() -> FakeApi {
    let api = FakeApi::start().await;
    api.service("shop", "a");
    api.slice("shop", "a", &[("10.0.0.1", true)]);
    api.policy("shop", "services: {a: {}}");
    api
}

/// The numbers of a version after its digest.
fn numbers(version: &str) -> Vec<u64> {
    let (_, numbers) = version.split_once('@').unwrap();
    numbers.split('.').map(|number| number.parse().unwrap()).collect()
}

/// A version of this digest and these numbers.
fn version(digest: &str, numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("{digest}@{}", numbers.join("."))
}

/// Versions with more progress in one place: without a seal, with an invented one, and with the
/// genuine one's.
fn forged(genuine: &str) -> Vec<String> {
    let (digest, _) = genuine.split_once('@').unwrap();
    let genuine = numbers(genuine);
    (0..PLACES)
        .flat_map(|place| {
            let mut more = genuine.clone();
            more[place] += 1_000_000;
            let unsealed = more[..PLACES].to_vec();
            let guessed = [&unsealed[..], &[17]].concat();
            [more, unsealed, guessed].map(|numbers| version(digest, &numbers))
        })
        .collect()
}

#[tokio::test]
async fn forged_versions_cause_no_list() {
    let api = shop().await;
    let replica = Replica::start(&api).await;
    let genuine = replica.state("p", "").await.version;
    assert_eq!(numbers(&genuine).len(), PLACES + 1, "four revisions and a seal: {genuine}");
    let lists = api.lists();
    // Of another state: answered at once, like a proxy without any state.
    for forged in forged(&genuine.replace(&genuine[..16], "0123456789abcdef")) {
        assert_eq!(replica.state("forger", &forged).await.version, genuine, "{forged}");
        assert!(!replica.wants(), "{forged}");
    }
    // Of the state in force: up to date, and held.
    for forged in forged(&genuine) {
        let poll = replica.hold("forger", &forged).await;
        assert!(!replica.wants(), "{forged}");
        poll.abort();
        until("the end of the poll", || replica.store.counts().polls_held == 0).await;
    }
    assert_eq!(api.lists(), lists);
    // The watches still work.
    let poll = replica.hold("p", &genuine).await;
    api.slice("shop", "a", &[("10.0.0.2", true)]);
    assert_eq!(state(poll).await.services[A].endpoints_by_port[&80], ["10.0.0.2:8080"]);
    assert_eq!(api.lists(), lists);
}

#[tokio::test]
async fn replicas_agree_on_one_key_and_keep_it_over_a_restart() {
    let api = shop().await;
    // Each looks for the Secret, finds none and creates it; the later one reads the one that
    // exists.
    api.hide_secrets(2);
    let (one, other) = tokio::join!(Replica::start(&api), Replica::start(&api));
    assert_eq!(api.secrets(NAMESPACE).keys().collect::<Vec<_>>(), [SECRET]);
    let issued = one.state("p", "").await.version;
    assert_eq!(other.state("q", "").await.version, issued);
    drop(one);
    let restarted = Replica::start(&api).await;
    let secret = api.secrets(NAMESPACE)[SECRET].clone();
    assert_eq!((&secret["immutable"], secret["data"]["key"].as_str().unwrap().len()), (&json!(true), 44));
    for replica in [&other, &restarted] {
        replica.hold("p", &issued).await.abort();
        assert!(replica.refused().is_empty(), "{:?}", replica.refused());
    }
    // A genuine version makes a lagging replica list.
    api.pass(1_000);
    let ahead = Replica::start(&api).await.state("r", "").await.version;
    let lists = api.lists();
    let poll = other.hold("s", &ahead).await;
    until("a list", || api.lists() > lists).await;
    poll.abort();
}

#[tokio::test]
async fn serves_proxies_without_a_readable_key_and_reports_why() {
    let short = json!({"key": "c2hvcnQ="});
    for (status, data, reason) in [
        (Some(403), None, "Secret bloc-system/bloc-control-plane-seal: cannot be read or created: "),
        (Some(500), None, "Secret bloc-system/bloc-control-plane-seal: cannot be read or created: "),
        (
            None,
            Some(short),
            "Secret bloc-system/bloc-control-plane-seal: data.key: 5 bytes are not allowed; allowed: 32 bytes;",
        ),
        (None, Some(json!({})), "Secret bloc-system/bloc-control-plane-seal: data.key: missing; allowed: 32 bytes"),
    ] {
        let api = shop().await;
        api.refuse_secrets(status);
        if let Some(data) = data.clone() {
            api.put_secret(NAMESPACE, SECRET, Some(data));
        }
        let replica = Replica::start(&api).await;
        let [refused] = &replica.refused()[..] else { panic!("{:?}", replica.refused()) };
        assert!(refused.starts_with(reason), "{refused}");
        let unsealed = replica.state("p", "").await.version;
        assert_eq!(numbers(&unsealed).len(), PLACES, "no seal: {unsealed}");
        let poll = replica.hold("p", &unsealed).await;
        let bad = api.secrets(NAMESPACE).get(SECRET).cloned();
        assert_eq!(bad.map(|secret| secret["data"].clone()), data, "it is not overwritten");
        // With a readable key, versions have seals, and unsealed ones are not answered anew.
        api.put_secret(NAMESPACE, SECRET, None);
        api.refuse_secrets(None);
        until("a seal", || replica.refused().is_empty()).await;
        assert!(!poll.is_finished());
        let sealed = replica.state("q", "").await.version;
        assert_eq!(numbers(&sealed)[..PLACES], numbers(&unsealed)[..]);
        assert_eq!(numbers(&sealed).len(), PLACES + 1);
        replica.hold("r", &unsealed).await.abort();
        poll.abort();
    }
}

#[tokio::test]
async fn reports_no_refusal_when_the_api_server_answers_late() {
    let api = shop().await;
    // As behind a sidecar that is starting: the first connections fail.
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let replica = Replica::at(&format!("http://{}", front.local_addr().unwrap()));
    let back: SocketAddr = api.url.strip_prefix("http://").unwrap().parse().unwrap();
    let passing = tokio::spawn(async move {
        for _ in 0..2 {
            drop(front.accept().await.unwrap());
        }
        loop {
            let (mut near, _) = front.accept().await.unwrap();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(back).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    until("readiness", || replica.store.is_ready()).await;
    assert_eq!(
        replica.store.history().iter().filter_map(|event| event.message.as_ref()).count(),
        0,
        "not even for a moment"
    );
    assert_eq!(numbers(&replica.state("p", "").await.version).len(), PLACES + 1);
    passing.abort();
}
