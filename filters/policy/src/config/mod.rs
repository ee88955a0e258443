//! Configuration: what a user writes, and what the code may rely on.
//!
//! This module reads and checks a configuration. The engine and the control plane fetch it.
//!
//! One schema serves the plugin configuration of the filters, the services file, the ConfigMap and
//! the sync protocol. The raw types ([`ServiceSpec`], [`PluginSpec`]) are what serde reads:
//! camelCase, no unknown fields, durations such as `250ms`. Validation turns them into types with
//! private fields ([`ServiceParameters`], [`PluginConfig`]). Every error is a [`ConfigError`] that
//! names the path, the value and the allowed range.
//!
//! [`features`]: what a neighbour of another version is sent. [`cluster_name`]: which service a
//! cluster belongs to, and which of its endpoints it has.

pub mod cluster_name;
pub(crate) mod error;
pub mod features;
mod kinds;
mod plugin;
pub(crate) mod routing;
mod seen;
mod service;

pub use error::ConfigError;
pub use plugin::{ControlPlane, ControlPlaneSpec, PluginConfig, PluginSpec};
pub use routing::RoutingKind;
#[cfg(feature = "schema")]
pub use service::Documented;
pub use service::{CapacityParameters, CapacitySpec, ServiceParameters, ServiceSpec, Services, ServicesSpec};
