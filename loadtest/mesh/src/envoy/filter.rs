//! The Wasm filters in an HTTP filter chain.

use bloc_policy::wire::headers::{BID, ENDPOINTS, LOAD, REJECT};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The cluster that a plugin configuration names as `controlPlane.cluster`.
pub const CONTROL_PLANE_CLUSTER: &str = "bloc-control-plane";

/// The filters of this project in one sidecar.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The path of `bloc.wasm`.
    pub module: PathBuf,
    /// The plugin configuration (JSON) of `bloc.inbound` or `bloc.outbound`; `bloc.attempt` gets
    /// none.
    pub configuration: String,
    /// Where the control plane listens. If set, the bootstrap has a cluster
    /// [`CONTROL_PLANE_CLUSTER`].
    pub control_plane: Option<SocketAddr>,
}

/// Makes the route configuration around `bloc.inbound` remove our headers from requests once the
/// filter has read them, and from the application's answers. Envoy does this itself, at a tenth of
/// the cost of a call from a Wasm filter, and also when the filter has failed.
pub fn strip_inbound(route_configuration: &mut Value) {
    route_configuration["request_headers_to_remove"] = json!([BID, ENDPOINTS, LOAD, REJECT]);
    route_configuration["response_headers_to_remove"] = json!([BID, ENDPOINTS, LOAD, REJECT]);
}

/// The same around `bloc.outbound`: from requests before `bloc.attempt` adds its own headers, from
/// answers once it has read them. Requests keep `x-bloc-endpoints`, because Envoy has yet to choose
/// a server by it. Answers keep `x-bloc-reject`, because `bloc.outbound` counts and removes it.
pub fn strip_outbound(route_configuration: &mut Value) {
    route_configuration["request_headers_to_remove"] = json!([BID, LOAD, REJECT]);
    route_configuration["response_headers_to_remove"] = json!([BID, ENDPOINTS, LOAD]);
}

/// The HTTP filter for one root id of the module. All share one VM per worker, because VM id,
/// module and VM configuration are the same.
pub fn wasm_filter(root_id: &str, module: &std::path::Path, configuration: Option<&str>) -> Value {
    let mut config = json!({
        "name": root_id,
        "root_id": root_id,
        "vm_config": {
            "vm_id": "bloc",
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": module}},
        },
        // The next request after a crash gets a new VM. Envoy refuses requests until the base
        // interval has passed since the last new VM, so it is the shortest possible (with 1 ms
        // Envoy 1.40 divides by zero at the first crash). The module itself limits a series of
        // crashes.
        "failure_policy": "FAIL_RELOAD",
        "reload_config": {"backoff": {"base_interval": "0.002s"}},
    });
    if let Some(text) = configuration {
        config["configuration"] = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text});
    }
    json!({
        "name": "envoy.filters.http.wasm",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": config},
    })
}
