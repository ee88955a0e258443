//! A client outside the mesh that forges our headers and Envoy's: at a gateway they have no effect
//! and are not passed on.

use crate::support::{Answer, Connection, Place, Pod, outbound, request, sender};
use bloc_mesh::envoy::{Envoy, SERVICE};
use hyper::http::request::Builder;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Headers that tell Envoy's router what to do when a caller inside sends them, and ours.
const FORGED: [(&str, &str); 16] = [
    ("x-bloc-bid", "1"),
    ("x-bloc-load", "chip=1, queue=0, capacity=1000000"),
    ("x-bloc-reject", "capacity"),
    ("x-bloc-endpoints", "127.0.0.1:1"),
    ("x-envoy-retry-on", "5xx,retriable-4xx,retriable-status-codes,retriable-headers,reset"),
    ("x-envoy-retry-grpc-on", "unavailable,resource-exhausted"),
    ("x-envoy-retriable-status-codes", "429,200"),
    ("x-envoy-retriable-header-names", "x-app,x-envoy-upstream-service-time"),
    ("x-envoy-max-retries", "9"),
    ("x-envoy-hedge-on-per-try-timeout", "true"),
    ("x-envoy-upstream-rq-timeout-ms", "10"),
    ("x-envoy-upstream-rq-per-try-timeout-ms", "10"),
    ("x-envoy-upstream-rq-timeout-alt-response", "1"),
    ("x-envoy-upstream-alt-stat-name", "mine"),
    ("x-envoy-expected-rq-timeout-ms", "1"),
    ("x-envoy-force-trace", "1"),
];

fn forged(path: &str) -> Builder {
    FORGED.iter().fold(request(path), |request, (name, value)| request.header(*name, *value))
}

/// A gateway: all its clients count as outside.
async fn gateway(place: &Place, pods: &[SocketAddr], configuration: &Value) -> (Envoy, SocketAddr) {
    let mut bootstrap = outbound(place, pods, configuration, None);
    let manager = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    manager["use_remote_address"] = json!(true);
    sender(place, &bootstrap).await
}

fn assert_clean(answer: &Answer) {
    let odd: Vec<&str> = answer
        .headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| name.starts_with("x-bloc") || name.contains("retr") || name.contains("attempt"))
        .collect();
    assert_eq!(odd, Vec::<&str>::new(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_headers_change_nothing_and_reach_no_application() {
    let place = Place::new();
    let pods = [Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await];
    let addresses = [pods[0].address, pods[1].address];
    // A configured service, and one that is not.
    for configuration in [json!({"services": {SERVICE: {"endpoints": addresses.map(|at| at.to_string())}}}), json!({})]
    {
        let (envoy, to) = gateway(&place, &addresses, &configuration).await;
        let before: usize = pods.iter().map(|pod| pod.app.all_seen().len()).sum();
        let mut sent = 0;
        for (path, status) in [("/x", 200), ("/own-429", 429), ("/slow", 200), ("/lie", 200)] {
            for _ in 0..5 {
                let answer = Connection::open(to).await.send(forged(path), "").await.unwrap();
                sent += 1;
                assert_eq!(answer.status.as_u16(), status, "{path}: {answer:?}");
                assert!(answer.app().is_some(), "{path}: {answer:?}");
                assert_clean(&answer);
            }
        }
        let seen: Vec<_> = pods.iter().flat_map(|pod| pod.app.all_seen()).collect();
        assert_eq!(seen.len() - before, sent, "each request once: no retry, no hedge");
        for seen in &seen {
            for (name, value) in FORGED {
                let there = seen.headers.get_all(name).iter().any(|there| there.as_bytes() == value.as_bytes());
                assert!(!there, "{}: {name}: {value} reached the application", seen.path);
            }
            let ours = seen.headers.keys().filter(|name| name.as_str().starts_with("x-bloc")).count();
            assert_eq!(ours, 0, "{seen:?}");
        }
        envoy.end().await;
    }
}

/// Not with one header or two, nor with another spelling, nor by naming it in `connection` for
/// removal at the next hop.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_outside_the_mesh_cannot_choose_a_server() {
    let place = Place::new();
    let (wanted, other) =
        (Pod::with_capacity(&place, "wanted", 10).await, Pod::with_capacity(&place, "other", 10).await);
    let addresses = [wanted.address, other.address];
    let configuration = json!({"services": {SERVICE: {"endpoints": [other.address.to_string()]}}});
    let (_envoy, to) = gateway(&place, &addresses, &configuration).await;
    let address = wanted.address.to_string();
    let variants: Vec<Box<dyn Fn(Builder) -> Builder>> = vec![
        Box::new(|request| request.header("x-bloc-endpoints", &address)),
        Box::new(|request| request.header("x-bloc-endpoints", &address).header("x-bloc-endpoints", &address)),
        Box::new(|request| request.header("X-Bloc-Endpoints", &address).header("connection", "x-bloc-endpoints")),
        Box::new(|request| {
            request.header("x-bloc-endpoints", format!("{address},{address}")).header("x-host", &address)
        }),
        Box::new(|request| request.header("x-envoy-original-dst-host", &address)),
        Box::new(|request| request.header("x-envoy-original-dst-host", &address).header("x-forwarded-host", &address)),
    ];
    for variant in &variants {
        for _ in 0..10 {
            let answer = Connection::open(to).await.send(variant(request("/x")), "").await.unwrap();
            assert_eq!(answer.app(), Some("other"), "{answer:?}");
        }
    }
    assert_eq!(wanted.app.all_seen().len(), 0);
}
