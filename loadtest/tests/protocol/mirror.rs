//! Mirrored requests: Envoy copies the headers after it has chosen a server, and before
//! `bloc.attempt` has removed the addresses. The mirror's application has no sidecar.

use crate::support::{App, Place, Pod, eventually, outbound, send, sender};
use bloc_mesh::envoy::{Balancing, Outbound, SERVICE, route_configuration, sidecar_outbound, static_cluster};
use hyper::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MIRROR: &str = "mirror";
const ENDPOINTS: &str = "x-bloc-endpoints";

type Headers = BTreeMap<String, String>;

/// The sidecar that mirrors.
enum Sidecar {
    /// Envoy without the filters.
    Stock,
    /// With the filters and a list of the servers.
    Told,
    /// With the filters; its first request has no list, for it has yet to learn the servers.
    Learning,
}
use Sidecar::{Learning, Stock, Told};

/// The headers of the first request at the mirror, without those that differ between requests.
/// `edit` changes the mirror's cluster.
async fn mirrored(sidecar: Sidecar, policy: Value, edit: impl FnOnce(&mut Value)) -> Headers {
    let place = Place::new();
    let pod = Pod::with_capacity(&place, "pod", 10).await;
    let mirror = App::start(MIRROR).await;
    let with_filters = |spec: Value| outbound(&place, &[pod.address], &json!({"services": {SERVICE: spec}}), None);
    let mut bootstrap = match sidecar {
        Told => with_filters(json!({"endpoints": [pod.address.to_string()]})),
        Learning => with_filters(json!({})),
        Stock => sidecar_outbound(&Outbound {
            cluster: SERVICE,
            endpoints: &[pod.address],
            balancing: Balancing::LeastRequestOfTwo,
            plugin: None,
        }),
    };
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut().unwrap();
    let mut cluster = static_cluster(MIRROR, &[mirror.address], Balancing::RoundRobin);
    edit(&mut cluster);
    clusters.push(cluster);
    let route = &mut route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
    route["request_mirror_policies"] = json!([policy]);
    let (_envoy, to) = sender(&place, &bootstrap).await;
    let request = Request::post("/echo").header("host", SERVICE).header("x-custom", "kept");
    let answer = send(to, request, "a body").await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.app(), answer.body.as_ref()), (200, Some("pod"), &b"a body"[..]));
    let copy = eventually("the mirrored request", async || mirror.seen("/echo").pop()).await;
    assert_eq!((copy.method.as_str(), copy.body.as_ref()), ("POST", &b"a body"[..]));
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = copy.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    headers.filter(|(name, _)| name != "x-request-id").collect()
}

/// A mirror policy without further settings.
fn plain() -> Value {
    json!({"cluster": MIRROR})
}

/// The setting that the guide names for the remaining cases.
fn removing() -> Value {
    json!({"cluster": MIRROR, "request_headers_mutations": [{"remove": ENDPOINTS}]})
}

/// Gives a cluster its own filters, which replace the router's.
fn own_filters(cluster: &mut Value) {
    let extension = |name: &str, message: &str| {
        let config = format!("type.googleapis.com/envoy.extensions.filters.http.{name}.v3.{message}");
        json!({"name": format!("envoy.filters.http.{name}"), "typed_config": {"@type": config}})
    };
    let options = &mut cluster["typed_extension_protocol_options"];
    options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["http_filters"] =
        json!([extension("header_mutation", "HeaderMutation"), extension("upstream_codec", "UpstreamCodec")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirrored_request_arrives_as_in_stock_envoy() {
    let stock = mirrored(Stock, plain(), |_| ()).await;
    assert_eq!((stock["host"].as_str(), stock["x-custom"].as_str()), ("backend-shadow", "kept"));
    assert_eq!(mirrored(Told, plain(), |_| ()).await, stock);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_policy_removes_addresses_that_the_filters_cannot() {
    let told = mirrored(Told, plain(), own_filters).await;
    assert!(told[ENDPOINTS].starts_with("127.0.0.1:"), "bloc.attempt is not in that cluster: {told:?}");
    let told = mirrored(Learning, plain(), |_| ()).await;
    let key = told[ENDPOINTS].strip_prefix('~').expect("the key alone");
    assert_eq!(key.len(), 16);
    let left = mirrored(Told, removing(), own_filters).await;
    assert!(!left.contains_key(ENDPOINTS), "{left:?}");
    let left = mirrored(Learning, removing(), |_| ()).await;
    assert!(!left.contains_key(ENDPOINTS), "{left:?}");
}
