//! The Wasm filters in an HTTP filter chain.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The cluster that a plugin configuration names as `controlPlane.cluster`.
pub const CONTROL_PLANE_CLUSTER: &str = "bloc-control-plane";

/// The filters of this project, as one sidecar has them.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The path of `bloc.wasm`.
    pub module: PathBuf,
    /// The plugin configuration (JSON) of `bloc.inbound` or `bloc.outbound`; `bloc.attempt` gets none.
    pub configuration: String,
    /// Where the control plane listens; then the bootstrap has a cluster [`CONTROL_PLANE_CLUSTER`].
    pub control_plane: Option<SocketAddr>,
}

/// The HTTP filter for one root id of the module. All share one VM per worker: same VM id, module and VM configuration.
pub fn wasm_filter(root_id: &str, module: &std::path::Path, configuration: Option<&str>) -> Value {
    let mut config = json!({
        "name": root_id,
        "root_id": root_id,
        "vm_config": {
            "vm_id": "bloc",
            "runtime": "envoy.wasm.runtime.v8",
            "code": {"local": {"filename": module}},
        },
        // A filter that trapped must not take the service down with it.
        "failure_policy": "FAIL_OPEN",
    });
    if let Some(text) = configuration {
        config["configuration"] = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text});
    }
    json!({
        "name": "envoy.filters.http.wasm",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": config},
    })
}
