//! Servers without a configured list are learned from `upstream.address`.

use crate::support::fleet::{ROUTINGS, send_all};
use crate::support::{Answer, Place, Pod, balance, eventually, outbound, request, send, sender};
use bloc_mesh::envoy::{Envoy, ROUTE_RETRIES, SERVICE, route_configuration};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio::net::TcpSocket;

/// The endpoints of the sender's cluster in a file, as a mesh's control plane would send them.
struct Endpoints {
    file: PathBuf,
    version: u32,
}

impl Endpoints {
    /// Moves the endpoints of a bootstrap into the file, which is still to be written.
    fn of(place: &Place, bootstrap: &mut Value) -> (Self, Value) {
        let file = place.path().join("endpoints.json");
        let cluster = &mut bootstrap["static_resources"]["clusters"][0];
        let assignment = cluster["load_assignment"].take();
        cluster.as_object_mut().unwrap().remove("load_assignment");
        cluster["type"] = json!("EDS");
        cluster["eds_cluster_config"] = json!({"eds_config": {"resource_api_version": "V3",
            "path_config_source": {"path": file, "watched_directory": {"path": place.path()}}}});
        bootstrap["node"] = json!({"id": "sender", "cluster": "test"});
        (Self { file, version: 0 }, assignment)
    }

    fn write(&mut self, assignment: &Value) {
        self.version += 1;
        let mut resource = assignment.clone();
        resource["@type"] = json!("type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment");
        let new = self.file.with_extension("new");
        let response = json!({"version_info": self.version.to_string(), "resources": [resource]});
        std::fs::write(&new, response.to_string()).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }

    /// The same, and waits until a gauge of the cluster has this value.
    async fn change(&mut self, assignment: &Value, envoy: &Envoy, gauge: &str, value: u64) {
        self.write(assignment);
        let name = format!("cluster.{SERVICE}.{gauge}");
        eventually("the update of the endpoints", async || {
            (envoy.stats(&name).await.unwrap().get(&name) == Some(&value)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn learns_servers_from_responses_and_forgets_one_that_left() {
    let place = Place::new();
    let (one, two) = (Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await);
    let mut bootstrap = outbound(&place, &[one.address, two.address], &json!({"services": {SERVICE: {}}}), None);
    let (mut endpoints, mut assignment) = Endpoints::of(&place, &mut bootstrap);
    endpoints.write(&assignment);
    let (envoy, to) = sender(&place, &bootstrap).await;
    let counter = async |name: &str| crate::support::metric(&envoy, "outbound", name).await;

    for _ in 0..200 {
        assert_eq!(send(to, request("/x"), "").await.unwrap().status.as_u16(), 200);
    }
    let shares = [one.app.seen("/x").len(), two.app.seen("/x").len()];
    assert!(shares.iter().all(|&share| share > 40), "{shares:?}");
    let fallbacks =
        eventually("counts", async || (counter("requests").await == 200).then_some(counter("fallbacks").await)).await;
    // Each worker learns on its own. It needs at least one request, and at most some dozens, to
    // learn both servers.
    assert!((2..120).contains(&fallbacks), "{fallbacks} of 200 requests went without a list");

    // One leaves the cluster: no request is lost, and the list no longer names it.
    assignment["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap().remove(0);
    endpoints.change(&assignment, &envoy, "membership_total", 1).await;
    for _ in 0..200 {
        let answer = send(to, request("/y"), "").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("two")));
    }
}

/// Envoy's own policy places the requests by which servers are found, and prefers a server that
/// refuses connections, since it has no requests. Envoy repeats a request twice, elsewhere, as the
/// control plane says; with a single retry, every third run lost a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_caller_loses_no_request_to_a_server_that_refuses_connections() {
    let place = Place::new();
    let (pods, mut servers) = pods(&place, &["one", "two", "three"]).await;
    pods.iter().for_each(|pod| pod.app.takes(30));
    // Bound, so that nobody else listens there.
    let refuses = TcpSocket::new_v4().unwrap();
    refuses.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    servers.push(refuses.local_addr().unwrap());
    for routing in ROUTINGS {
        let configuration = json!({"services": {SERVICE: {"routing": routing, "routeRetries": ROUTE_RETRIES}}});
        let mut bootstrap = outbound(&place, &servers, &configuration, None);
        balance(&mut bootstrap);
        // How many of its requests meet that server is up to chance, so try several callers.
        let mut refused = 0;
        for _ in 0..10 {
            let envoy = Envoy::start(&place.envoy, place.path(), routing, &bootstrap, 1).await.unwrap();
            let to = envoy.listener("outbound").unwrap();
            let answers = send_all(to, 16, 300, |_| request("/work")).await;
            let lost: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
            assert!(lost.is_empty(), "{routing}: of {}: {lost:?}", answers.len());
            let failed = format!("cluster.{SERVICE}.upstream_cx_connect_fail");
            refused += envoy.stats(&failed).await.unwrap()[&failed];
            if refused > 10 {
                break;
            }
        }
        assert!(refused > 10, "{routing}: only {refused} connections were refused");
    }
}

/// While the servers of priority 0 are ill, those of priority 1 are found. Then Envoy chooses only
/// the former again.
#[tokio::test(flavor = "multi_thread")]
async fn forgets_the_servers_of_the_backup_priority_when_envoy_no_longer_chooses_them() {
    let place = Place::new();
    let (_pods, servers) = pods(&place, &["one", "two", "backup"]).await;
    let mut bootstrap = outbound(&place, &servers, &json!({"services": {SERVICE: {}}}), None);
    let (mut endpoints, mut well) = Endpoints::of(&place, &mut bootstrap);
    let backup = well["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap().pop().unwrap();
    well["endpoints"].as_array_mut().unwrap().push(json!({"priority": 1, "lb_endpoints": [backup]}));
    let mut ill = well.clone();
    for endpoint in ill["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap() {
        endpoint["health_status"] = json!("UNHEALTHY");
    }
    endpoints.write(&well);
    // One worker, so that all requests share its knowledge.
    let envoy = Envoy::start(&place.envoy, place.path(), "sender", &bootstrap, 1).await.unwrap();
    let to = envoy.listener("outbound").unwrap();
    let to_backup = async |count: usize| {
        let answers = send_all(to, 4, count, |_| request("/x")).await;
        assert!(answers.iter().all(|answer| answer.status == 200));
        answers.iter().filter(|answer| Answer::app(answer) == Some("backup")).count()
    };
    assert_eq!(to_backup(200).await, 0);
    endpoints.change(&ill, &envoy, "membership_healthy", 1).await;
    // One in fifty requests explores. Servers that Envoy no longer chooses are forgotten when it
    // has not chosen them for 12 * (2 + 1) of these.
    let mut found = 0;
    for _ in 0..20 {
        found = to_backup(200).await;
        if found >= 150 {
            break;
        }
    }
    assert!(found >= 150, "{found} of 200 requests go to the only server that is well");
    endpoints.change(&well, &envoy, "membership_healthy", 3).await;
    let mut left = 200;
    for _ in 0..20 {
        left = to_backup(200).await;
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "of 200 requests");
    assert_eq!(to_backup(1_000).await, 0);
}

/// One server hangs, and the caller's Envoy does not eject it. Its policy prefers that server,
/// which has the fewest requests.
#[tokio::test(flavor = "multi_thread")]
async fn few_requests_that_explore_meet_a_server_that_hangs() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 4_000;
    /// One in 400 requests explores, and a probe comes every 400 ms. One in 50 would be 80.
    const MOST: usize = 18;
    let place = Place::new();
    let (pods, servers) = pods(&place, &["one", "two", "three", "four"]).await;
    pods.iter().for_each(|pod| pod.app.takes(10));
    for routing in ROUTINGS {
        let configuration = json!({"services": {SERVICE: {"routing": routing, "resetInterval": "400ms"}}});
        let mut bootstrap = outbound(&place, &servers, &configuration, None);
        balance(&mut bootstrap);
        let route = &mut route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
        // Much longer than a stall of the machine.
        route["retry_policy"]["per_try_timeout"] = json!("1s");
        route["retry_policy"]["retry_on"] = json!("5xx");
        let envoy = Envoy::start(&place.envoy, place.path(), routing, &bootstrap, 1).await.unwrap();
        let to = envoy.listener("outbound").unwrap();
        let send = async |count| {
            let answers = send_all(to, CLIENTS, count, |_| request("/work")).await;
            let lost: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
            assert!(lost.is_empty(), "{routing}: of {count}: {lost:?}");
        };
        send(300).await;
        pods[0].app.takes(60_000);
        send(100).await;
        let before = pods[0].app.seen("/work").len();
        send(REQUESTS).await;
        let met = pods[0].app.seen("/work").len() - before;
        pods[0].app.takes(10);
        println!("{routing}: {met} of {REQUESTS} met it");
        assert!(met <= MOST, "{routing}: {met} of {REQUESTS} met it");
    }
}

async fn pods(place: &Place, names: &[&str]) -> (Vec<Pod>, Vec<SocketAddr>) {
    let mut pods = Vec::new();
    for name in names {
        pods.push(Pod::start(place, name, json!({"service": SERVICE, "services": {SERVICE: {}}})).await);
    }
    let addresses = pods.iter().map(|pod| pod.address).collect();
    (pods, addresses)
}
