//! A local mesh of real Envoys, its faults, and the load on it.
//!
//! The experiments of the lab, the end-to-end tests and the tests at an API server share it. What
//! is measured, and how results are shown, is not here but in `bloc-lab`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`Mesh`] and its parts (folder `fleet`) | backends, sidecars, control plane, frontends and gateway, started in waves; their faults |
//! | [`envoy`] | bootstraps for gateway and sidecars, finding and running Envoy |
//! | [`backend`] | the application: a paced HTTP server |
//! | [`load`] | closed-loop and open-loop clients, and their results |
//! | [`policy`] | what balances the load |
//! | [`process`] | a child process that ends when its guard is dropped |
//! | [`cgroups`] | groups of containers with CPU quotas |
//! | [`throttle`] | limits the CPU of a process |
//! | [`network_faults`] | loses and delays packets in a network namespace |
//! | [`http`] | one GET, for admin interfaces and readiness |
//! | [`seeds`] | independent random streams from one seed |
//! | [`quantity`] | command line values with their ranges |

pub mod backend;
pub mod cgroups;
pub mod envoy;
mod fleet;
pub mod http;
pub mod load;
pub mod network_faults;
pub mod policy;
pub mod process;
pub mod quantity;
pub mod seeds;
pub mod throttle;

pub use fleet::{
    Admins, Counters, Mesh, MeshError, MeshSpec, Parts, Role, Throttled, Tools, ToolsMissing, read_capacity,
    show_capacity, target_directory,
};
