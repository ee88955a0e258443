//! The parts of limits over nodes (`over: cluster`) that this node holds.
//!
//! The thread that steps uses what is held; a task asks the replicas of the control plane for it,
//! twice a second and after each fall, by `POST /v1/lease`. The protocol, and why nodes never hold
//! more than the limit together: [`bloc_leases`]. Here each fall takes this way:
//!
//! 1. The thread lowers quotas. In the same step it says what is still in use, and the part falls
//!    ([`Leases::settle`]): the next step cannot use more.
//! 2. The task writes the lower part to the disk ([`LeaseFile`]).
//! 3. It says so to each replica. If it cannot be written, it is not said.
//!
//! What rises is used at once, and written before the next question. After a crash the node holds
//! less on its disk than the control plane knows; it hears the rest.
//!
//! An application that the node has left gives its part back, until all replicas say that it has
//! none. `leases.json` has it with 0 until then, so that the next start goes on.
//!
//! An application of the configuration without containers here is asked about once in each life: a
//! record may still have a part for this node, after the disk was lost, or if a late message came
//! after the node had left.
//!
//! Of what replicas answer in one round, the largest part counts, and of those who say that the
//! least goal.
//!
//! Without an answer, what is held stays, also when the agent starts again.
//!
//! | module | what it is for |
//! |---|---|
//! | `leases` | what is held, between the thread and the task |
//! | `file` | what is on the disk |
//! | `client` | the requests |

mod client;
#[cfg(test)]
mod client_tests;
mod file;
mod leases;
#[cfg(test)]
mod leases_tests;

pub use client::{Asker, ask};
pub use file::{Contents, LeaseFile};
pub use leases::{Leases, Use};
