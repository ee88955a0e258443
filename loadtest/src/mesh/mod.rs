//! The local mesh: what a request passes is what it would pass in a cluster, only that all of it listens on loopback.
//!
//! ```text
//! client ──► gateway ──► frontend sidecars ──► backend sidecars ──► backends
//!            least         (outbound)            (inbound)
//!            request            └──── control plane ────┘
//! ```
//!
//! Every box is a process of its own, so that each frontend's filter has a VM and a state of its own, as separate pods have.

mod counters;
mod running;
mod tools;

pub use counters::{Admins, Counters};
pub use running::{Mesh, MeshError, MeshSpec};
pub use tools::{Tools, ToolsMissing, target_directory};
