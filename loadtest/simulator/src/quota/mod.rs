//! CPU quotas under one limit: containers whose load wanders, and who sets their quotas.
//!
//! Each container gets Poisson arrivals, an open load; each request needs CPU time. A client waits
//! for its answer for some time (`patience`). What has not been begun by then is dropped, what has
//! been goes on for nothing. Bursts wander: 10 s of every 20 s one container of each four has one.
//! All allocators see the same requests for one seed.
//!
//! The periods of a container begin at a time of its own; the agent looks each 100 ms. A quota that
//! is written is filled up at once, as the kernel does (seen on 6.18: a busy container with 0.2
//! cores uses 0.41 if another quota is written each 100 ms). Not modelled: the kernel's slices of 5
//! ms per core, and that cores are taken by others.
//!
//! | module | what it is for |
//! |---|---|
//! | `cgroup` | a container in the kernel's bandwidth control |
//! | `allocator` | the node agent, and what it is compared with |
//! | `load` | what comes |
//! | `case`, `run` | what is simulated, and what came out |

mod allocator;
#[cfg(test)]
mod allocator_tests;
mod case;
mod cgroup;
mod load;
mod nodes;
mod run;
#[cfg(test)]
mod tests;

pub use allocator::Allocator;
pub use case::{Case, FLOOR};
pub use nodes::Over;
pub use run::{Outcome, peaks, run};
