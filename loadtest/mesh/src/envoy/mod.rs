//! Envoy: bootstraps, the binary, a running instance.
//!
//! Which processes form a mesh is not here but in `fleet`.
//!
//! The builders return plain JSON, so a test can change any detail before it starts the instance.

mod binary;
mod bootstrap;
mod cluster;
mod discovery;
mod filter;
mod guard;
mod instance;
mod listeners;
mod tls;

pub use binary::{EnvoyMissing, locate, target_directory, version, workspace};
pub use bootstrap::{
    BACK_OFF, Outbound, ROUTE_RETRIES, SERVICE, add_filters, gateway, route_configuration, sidecar_inbound,
    sidecar_outbound, upstream,
};
pub use cluster::{Balancing, close_idle, speak_http2, static_cluster};
pub use discovery::Discovery;
pub use filter::{CONTROL_PLANE_CLUSTER, Plugin, strip_inbound, strip_outbound, wasm_filter};
pub use guard::Guard;
pub use instance::{Envoy, EnvoyError, counters};
pub use listeners::Listeners;
pub use tls::Certificates;
