//! Memory limits under one limit: containers whose use grows in turns, and who sets their limits.
//!
//! Each container uses a base. One after the other has a burst: its use rises at some speed, stays,
//! and falls. The first one also grows slowly, and falls back from time to time. Only memory that
//! the kernel cannot take back is modelled. All allocators see the same loads for one seed.
//!
//! A container that needs more than its maximum is killed. It starts again after 10 s, as at the
//! kubelet, with its base, in the same group; what is left of its burst is lost.
//!
//! The agent hears of a container above its limit when that allocates, and answers after
//! [`Case::delay`]: it grants steps until the container has one above its use. Each second it looks
//! at all containers. Version 2 of the control groups slows the container down meanwhile, by the
//! kernel's formula: an allocation of 256 KiB at `r` times the limit above it sleeps for `64 r^2`
//! seconds, at most 2, and not at all below 10 ms; a task that sleeps is not woken by a new limit.
//! With version 1 it goes on. In both, the maximum is one step above the limit.
//!
//! | module | what it is for |
//! |---|---|
//! | `group` | a container in the kernel's memory control |
//! | `allocator` | the node agent, and what it is compared with |
//! | `load` | what each container wants |
//! | `case`, `run` | what is simulated, and what came out |

mod allocator;
#[cfg(test)]
mod allocator_tests;
mod case;
mod group;
mod load;
mod run;
#[cfg(test)]
mod tests;

pub use allocator::{AgentSettings, Allocator};
pub use case::Case;
pub use group::Version;
pub use run::{Outcome, run};
