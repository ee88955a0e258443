//! The local mesh: what a request passes is what it would pass in a cluster, only that all of it
//! listens on loopback.
//!
//! ```text
//! client ──► gateway ──► frontend sidecars ──► backend sidecars ──► backends
//!            least         (outbound)            (inbound)
//!            request            └──── control plane ────┘
//! ```
//!
//! Every box is a process of its own, so that each frontend's filter has a VM and a state of its
//! own, as separate pods have.

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
