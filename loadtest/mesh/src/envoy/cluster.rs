//! Clusters of fixed addresses.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// How Envoy's load balancer chooses an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    /// Uniformly at random.
    Random,
    /// One after the other.
    RoundRobin,
    /// Of two at random, the one with fewer requests in flight (Envoy's default).
    LeastRequestOfTwo,
    /// The one with the fewest requests in flight: join the shortest queue, if this proxy sees all
    /// requests.
    LeastRequestOfAll,
    /// The endpoints that `bloc.outbound` lists in `x-bloc-endpoints`, the nth for attempt n; then
    /// two choices.
    ChosenByFilter,
    /// Weighted by the load that the endpoints report (ORCA).
    WeightedByReports,
}

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const POLICIES: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies";
/// Queues should be long here, and circuit breakers would limit them.
const UNLIMITED: u32 = u32::MAX;

/// A cluster `name` of `endpoints`, with circuit breakers that never open. It uses the protocol
/// (HTTP/1.1 or HTTP/2) of the request.
pub fn static_cluster(name: &str, endpoints: &[SocketAddr], balancing: Balancing) -> Value {
    let hosts: Vec<Value> = endpoints.iter().map(|at| json!({"endpoint": {"address": address(*at)}})).collect();
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
        "load_balancing_policy": {"policies": [policy(balancing)]},
        "circuit_breakers": {"thresholds": [{
            "max_connections": UNLIMITED,
            "max_pending_requests": UNLIMITED,
            "max_requests": UNLIMITED,
            "max_retries": UNLIMITED,
        }]},
        "typed_extension_protocol_options": {HTTP_OPTIONS: {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "use_downstream_protocol_config": {"http_protocol_options": {}, "http2_protocol_options": {}},
        }},
    })
}

/// Makes a cluster use HTTP/2 to its endpoints, whatever the version of the requests.
pub fn speak_http2(cluster: &mut Value) {
    let options = &mut cluster["typed_extension_protocol_options"][HTTP_OPTIONS];
    if let Some(fields) = options.as_object_mut() {
        fields.remove("use_downstream_protocol_config");
    }
    options["explicit_http_config"] = json!({"http2_protocol_options": {}});
}

/// Makes all clusters of `bootstrap` close connections after this idle time.
pub fn close_idle(bootstrap: &mut Value, timeout: Duration) {
    for cluster in bootstrap["static_resources"]["clusters"].as_array_mut().into_iter().flatten() {
        let options = &mut cluster["typed_extension_protocol_options"][HTTP_OPTIONS];
        options["common_http_protocol_options"] = json!({"idle_timeout": format!("{:.3}s", timeout.as_secs_f64())});
    }
}

/// An address as Envoy writes it.
pub(super) fn address(at: SocketAddr) -> Value {
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}

fn policy(balancing: Balancing) -> Value {
    let extension = |name: &str, message: &str, mut fields: Value| {
        fields["@type"] = json!(format!("{POLICIES}.{name}.v3.{message}"));
        json!({"typed_extension_config": {"name": format!("envoy.load_balancing_policies.{name}"), "typed_config": fields}})
    };
    match balancing {
        Balancing::Random => extension("random", "Random", json!({})),
        Balancing::RoundRobin => extension("round_robin", "RoundRobin", json!({})),
        Balancing::LeastRequestOfTwo => extension("least_request", "LeastRequest", json!({})),
        Balancing::LeastRequestOfAll => {
            extension("least_request", "LeastRequest", json!({"selection_method": "FULL_SCAN"}))
        }
        Balancing::WeightedByReports => extension(
            "client_side_weighted_round_robin",
            "ClientSideWeightedRoundRobin",
            json!({"blackout_period": "1s", "weight_update_period": "1s"}),
        ),
        Balancing::ChosenByFilter => extension(
            "override_host",
            "OverrideHost",
            json!({
                "override_host_sources": [{"header": "x-bloc-endpoints"}],
                "fallback_policy": {"policies": [policy(Balancing::LeastRequestOfTwo)]},
            }),
        ),
    }
}
