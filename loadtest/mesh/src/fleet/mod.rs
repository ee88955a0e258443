//! The local mesh. A request passes the same proxies as in a cluster, but all of them listen on
//! loopback.
//!
//! Envoy's configuration is not here but in `envoy`; the clients are in `load`.
//!
//! ```text
//! client ──► gateway ──► frontend sidecars ──► backend sidecars ──► backends
//!            least         (outbound)            (inbound)
//!            request            └──── control plane ────┘
//! ```
//!
//! Every box is its own process, so each frontend's filter has its own VM and state, as in separate
//! pods.

mod builder;
mod capacity;
mod changes;
mod clocks;
mod counters;
mod error;
mod faults;
mod registry;
mod reseeding;
mod running;
mod spec;
mod tools;

pub use capacity::{read_capacity, show_capacity};
pub use counters::{Admins, Counters};
pub use error::MeshError;
pub use faults::{Parts, Role, Throttled};
pub use running::Mesh;
pub use spec::MeshSpec;
pub use tools::{Tools, ToolsMissing, target_directory};
