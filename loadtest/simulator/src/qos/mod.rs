//! CPU shares of an application on a node that is contended, and who sets them.
//!
//! The node has some cores. Containers of one application get Poisson arrivals, an open load; each
//! request needs CPU time. One container is *hot*: it wants three times as much as each other one.
//! Which one it is wanders, or it is one that is slow for ever. A client waits for its answer for
//! some time (`patience`), then its request is cancelled. A container outside of the application
//! always wants all cores, as a batch job does: a job on each core, and the next one when it ends.
//!
//! The kernel's scheduler is a fluid: each container gets a part of the cores in proportion to its
//! shares, at most as many as it has requests and threads; what one does not use, the others get.
//! Within a container all requests get the same. Not modelled: the kernel's slices, moves between
//! cores, quotas, and the hierarchy of groups.
//!
//! All allocators see the same requests for one seed.
//!
//! | module | what it is for |
//! |---|---|
//! | `node` | the cores, and who runs |
//! | `allocator` | the node agent, and what it is compared with |
//! | `load` | what comes |
//! | `case`, `run` | what is simulated, and what came out |

mod allocator;
#[cfg(test)]
mod allocator_tests;
mod case;
mod load;
mod node;
mod run;
#[cfg(test)]
mod tests;

pub use allocator::Allocator;
pub use case::{Case, Hot};
pub use run::{Outcome, run};
