//! The parts of limits over nodes (`over: cluster`) that this node holds.
//!
//! The thread that steps uses what is held. A task asks the replicas of the control plane for it by
//! `POST /v1/lease`, twice a second and after each fall. [`bloc_leases`] has the protocol, and why
//! nodes never hold more than the limit together. A part falls in three steps:
//!
//! 1. The thread lowers quotas. In the same step it reports what is still in use, and the part
//!    falls ([`Leases::settle`]): the next step cannot use more.
//! 2. The task writes the lower part to the disk ([`LeaseFile`]).
//! 3. It tells each replica, but only after the write succeeded.
//!
//! A part that rises is used at once, and written before the next request. After a crash the node
//! has less on its disk than the control plane knows, and gets the rest from it.
//!
//! A node that has left an application gives its part back, until all replicas know. `leases.json`
//! has it with 0 until then, so that the next start continues.
//!
//! Of the answers of one round, the largest part counts, and the smallest goal with that part.
//! Without an answer, what is held stays, also over a restart.

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
