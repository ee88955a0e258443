//! Complete bootstraps: gateway, the sidecar of a frontend, the sidecar of a backend.
//!
//! Each has one listener on a free loopback port (named after its role: `gateway`, `outbound`,
//! `inbound`) and an admin interface on another port. Routes and streams have no timeouts, so only
//! the experiment decides when a request ends.

use super::cluster::{Balancing, address, static_cluster};
use super::filter::{CONTROL_PLANE_CLUSTER, Plugin, strip_inbound, strip_outbound, wasm_filter};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The service behind the frontends, and the name of their cluster for it.
pub const SERVICE: &str = "backend";

/// Before a retry Envoy waits a random number of whole milliseconds: below the first of these at
/// first, then below twice as much, and so on up to the second. So with these it never waits, which
/// saves a sleep and a wake-up for each retry.
pub const BACK_OFF: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(1)];

/// Retries of an Istio route by default.
pub const ROUTE_RETRIES: u32 = 2;

/// The upstream of a frontend's sidecar.
#[derive(Clone, Debug)]
pub struct Outbound<'a> {
    /// The name of the cluster, which is the name of the service.
    pub cluster: &'a str,
    /// The endpoints: the inbound listeners of the backends' sidecars.
    pub endpoints: &'a [SocketAddr],
    /// How Envoy chooses an endpoint.
    pub balancing: Balancing,
    /// The filters; `None`: stock Envoy.
    pub plugin: Option<&'a Plugin>,
}

/// The gateway: least request over the frontends. If it cannot connect to one, it tries another,
/// and the request does not fail.
pub fn gateway(frontends: &[SocketAddr]) -> Value {
    let route = json!({"cluster": "frontend", "timeout": "0s", "retry_policy": {
        "retry_on": "connect-failure",
        "num_retries": 3,
        "retry_back_off": back_off(),
        "retry_host_predicate": elsewhere(),
        "host_selection_retry_max_attempts": 5,
    }});
    let filters = vec![router(vec![])];
    bootstrap("gateway", route, filters, vec![static_cluster("frontend", frontends, Balancing::LeastRequestOfTwo)])
}

/// The sidecar of a frontend: listener `outbound`, filters `bloc.outbound` and, for each attempt,
/// `bloc.attempt`.
pub fn sidecar_outbound(outbound: &Outbound<'_>) -> Value {
    let mut route = json!({"cluster": outbound.cluster, "timeout": "0s", "retry_policy": istio_retries()});
    let mut clusters = vec![static_cluster(outbound.cluster, outbound.endpoints, outbound.balancing)];
    let Some(plugin) = outbound.plugin else {
        return bootstrap("outbound", route, vec![router(vec![])], clusters);
    };
    // Envoy's default backoff of 25 ms would outweigh the gain.
    route["retry_policy"]["retry_back_off"] = back_off();
    clusters.extend(control_plane(plugin));
    let filters = vec![
        wasm_filter("bloc.outbound", &plugin.module, Some(&plugin.configuration)),
        router(vec![wasm_filter("bloc.attempt", &plugin.module, None), upstream_codec()]),
    ];
    let mut whole = bootstrap("outbound", route, filters, clusters);
    strip_outbound(route_configuration(&mut whole));
    whole
}

/// The sidecar of a backend: listener `inbound`, filter `bloc.inbound` if there is a plugin, then
/// the application.
pub fn sidecar_inbound(app: SocketAddr, plugin: Option<&Plugin>) -> Value {
    // Istio's, without those for gRPC.
    let retries = json!({"retry_on": "reset-before-request", "num_retries": ROUTE_RETRIES});
    let route = json!({"cluster": "app", "timeout": "0s", "retry_policy": retries});
    let mut clusters = vec![static_cluster("app", &[app], Balancing::RoundRobin)];
    clusters.extend(plugin.and_then(control_plane));
    let mut filters: Vec<Value> =
        plugin.iter().map(|plugin| wasm_filter("bloc.inbound", &plugin.module, Some(&plugin.configuration))).collect();
    filters.push(router(vec![]));
    let mut whole = bootstrap("inbound", route, filters, clusters);
    if plugin.is_some() {
        strip_inbound(route_configuration(&mut whole));
    }
    whole
}

/// The route configuration of a bootstrap's first listener.
pub fn route_configuration(bootstrap: &mut Value) -> &mut Value {
    &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
}

/// An Envoy that answers by itself with status 200 and these `headers`, on the given number of
/// listeners: `upstream-0`, `upstream-1`, ...
pub fn upstream(listeners: usize, headers: &[(&str, &str)]) -> Value {
    let added: Vec<Value> =
        headers.iter().map(|(key, value)| json!({"header": {"key": key, "value": value}})).collect();
    let mut whole = bootstrap("upstream", json!({}), vec![router(vec![])], vec![]);
    let listener = &mut whole["static_resources"]["listeners"][0];
    let route = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"]
        [0];
    *route = json!({
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": "served\n"}},
        "response_headers_to_add": added,
    });
    let listener = listener.take();
    let all = (0..listeners).map(|n| {
        let mut listener = listener.clone();
        listener["name"] = json!(format!("upstream-{n}"));
        listener
    });
    whole["static_resources"]["listeners"] = all.collect();
    whole
}

/// Adds filters to a bootstrap of one listener: `downstream` before its own filters, `upstream` in
/// the router, where they see each attempt.
pub fn add_filters(bootstrap: &mut Value, downstream: &[Value], upstream: &[Value]) {
    let manager = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    let Some(filters) = manager["http_filters"].as_array_mut() else { return };
    if let Some(router) = filters.last_mut().filter(|_| !upstream.is_empty()) {
        let own = router["typed_config"]["upstream_http_filters"].as_array().cloned();
        let own = own.unwrap_or_else(|| vec![upstream_codec()]);
        router["typed_config"]["upstream_http_filters"] = upstream.iter().cloned().chain(own).collect();
    }
    filters.splice(0..0, downstream.iter().cloned());
}

/// What Istio 1.29 sets on routes whose users configure no retries.
fn istio_retries() -> Value {
    json!({
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
        "num_retries": ROUTE_RETRIES,
        "retry_host_predicate": elsewhere(),
        "host_selection_retry_max_attempts": 5,
    })
}

fn elsewhere() -> Value {
    json!([{
        "name": "envoy.retry_host_predicates.previous_hosts",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
    }])
}

fn back_off() -> Value {
    let [base, max] = BACK_OFF.map(|time| format!("{:.3}s", time.as_secs_f64()));
    json!({"base_interval": base, "max_interval": max})
}

fn control_plane(plugin: &Plugin) -> Option<Value> {
    plugin.control_plane.map(|at| static_cluster(CONTROL_PLANE_CLUSTER, &[at], Balancing::RoundRobin))
}

fn router(upstream_http_filters: Vec<Value>) -> Value {
    let mut config = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"});
    if !upstream_http_filters.is_empty() {
        config["upstream_http_filters"] = json!(upstream_http_filters);
    }
    json!({"name": "envoy.filters.http.router", "typed_config": config})
}

fn upstream_codec() -> Value {
    json!({
        "name": "envoy.filters.http.upstream_codec",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"},
    })
}

fn bootstrap(name: &str, route: Value, http_filters: Vec<Value>, clusters: Vec<Value>) -> Value {
    let loopback = address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let connection_manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "codec_type": "AUTO",
        "stream_idle_timeout": "0s",
        "route_config": {"virtual_hosts": [
            {"name": name, "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}
        ]},
        "http_filters": http_filters,
    });
    json!({
        "admin": {"address": loopback},
        "stats_config": {"stats_tags": [
            {"tag_name": "bloc_service", "regex": r"^wasmcustom\.bloc\.(?:inbound|outbound)\.((.+)\.)[a-z_0-9]+$"}
        ]},
        "static_resources": {
            "listeners": [{
                "name": name,
                "address": loopback,
                "filter_chains": [{"filters": [
                    {"name": "envoy.filters.network.http_connection_manager", "typed_config": connection_manager}
                ]}],
            }],
            "clusters": clusters,
        },
    })
}

/// Writes a bootstrap to a file (Envoy reads JSON from a file that ends in `.json`).
pub(super) fn write(bootstrap: &Value, file: &Path) -> std::io::Result<()> {
    std::fs::write(file, format!("{bootstrap:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_filters_come_first_and_the_router_keeps_its_codec() {
        let mut whole = gateway(&[]);
        add_filters(&mut whole, &[json!({"name": "a"}), json!({"name": "b"})], &[json!({"name": "c"})]);
        add_filters(&mut whole, &[], &[json!({"name": "d"})]);
        let manager = &whole["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
        let names = |filters: &Value| -> Vec<String> {
            filters.as_array().unwrap().iter().map(|filter| filter["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&manager["http_filters"]), ["a", "b", "envoy.filters.http.router"]);
        let upstream = &manager["http_filters"][2]["typed_config"]["upstream_http_filters"];
        assert_eq!(names(upstream), ["d", "c", "envoy.filters.http.upstream_codec"]);
    }
}
