//! An endpoint that becomes unready, with real Envoys and a real API server.
//!
//! Kubernetes refuses loopback addresses as endpoints. Therefore `run.sh` runs the tests in their
//! own network namespace, whose loopback device also has [`POD_IP`].

use crate::cluster::{Cluster, LIMIT, until};
use bloc_mesh::envoy::{Balancing, Envoy, Outbound, Plugin, locate, sidecar_outbound, target_directory};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const POD_IP: &str = "10.99.0.1";
const CLUSTER: &str = "outbound|80||a.shop.svc.cluster.local";
const SENDERS: usize = 3;
/// The number of servers; the first becomes unready.
const SERVERS: usize = 3;

/// A server, and the times of its requests.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind((POD_IP, 0)).await.unwrap_or_else(|error| {
            panic!("{POD_IP}: {error}; control-plane/tests/kube/run.sh runs the tests where there is this address")
        });
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&asked);
        let router = axum::Router::new().fallback(move || {
            seen.lock().unwrap().push(Instant::now());
            async { "ok" }
        });
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, asked }
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver, etcd, Envoy and the module: make test-kube"]
async fn an_endpoint_that_becomes_unready_gets_no_more_requests() {
    let module = target_directory().join("bloc.wasm");
    assert!(module.is_file(), "{} is missing: run make wasm", module.display());
    let cluster = Cluster::start().await;
    cluster.policy("services: {a: {routing: least_request}}").await;
    cluster.service("a").await;
    let mut servers = Vec::new();
    for i in 0..SERVERS {
        servers.push(Server::start().await);
        cluster.slice_at("a", &format!("a-{i}"), servers[i].address.port(), &[(POD_IP, true)]).await;
    }
    let control_plane = cluster.control_plane("one").await;
    until("readiness", async || control_plane.is_ready().await).await;

    // Envoy's own discovery never removes a server here, so only the filter decides where requests
    // go.
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let plugin = Plugin {
        module,
        configuration: serde_json::json!({"controlPlane": {"cluster": "bloc-control-plane", "wait": "10s"}})
            .to_string(),
        control_plane: Some(control_plane.url.strip_prefix("http://").unwrap().parse().unwrap()),
    };
    let outbound = Outbound {
        cluster: CLUSTER,
        endpoints: &addresses,
        balancing: Balancing::ChosenByFilter,
        plugin: Some(&plugin),
    };
    let (binary, directory) = (locate().unwrap(), tempfile::tempdir().unwrap());
    let (mut senders, mut clients) = (Vec::new(), Vec::new());
    for i in 0..SENDERS {
        let envoy =
            Envoy::start(&binary, directory.path(), &format!("sender-{i}"), &sidecar_outbound(&outbound), 2).await;
        let envoy = envoy.unwrap();
        let url = format!("http://{}/", envoy.listener("outbound").unwrap());
        senders.push(envoy);
        clients.push(tokio::spawn(async move {
            let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
            loop {
                assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
                sleep(Duration::from_millis(2)).await;
            }
        }));
    }
    until("a poll of every sidecar for the service", async || {
        let status: serde_json::Value = serde_json::from_str(&control_plane.get("/v1/status").await).unwrap();
        status["proxies"]["current"] == SENDERS && status["services"][0]["senders"] == SENDERS
    })
    .await;
    let before = servers[0].count();
    until("requests at the server that is to leave", async || servers[0].count() > before + 20).await;

    cluster.slice_at("a", "a-0", servers[0].address.port(), &[(POD_IP, false)]).await;
    let unready = Instant::now();
    // There is no limit on how soon, because a busy machine is slow, not wrong. Requests to it must
    // end while those to the others go on.
    until("a time without a request", async || {
        let (asked, others) = (servers[0].count(), servers[1].count() + servers[2].count());
        until("requests at the others", async || servers[1].count() + servers[2].count() > others + 300).await;
        servers[0].count() == asked
    })
    .await;
    let last = servers[0].asked.lock().unwrap().last().copied().unwrap();
    println!(
        "the last request reached the unready endpoint {:?} after the API server took the change",
        last.saturating_duration_since(unready)
    );
    for client in clients {
        assert!(!client.is_finished(), "a request failed");
        client.abort();
    }
}
