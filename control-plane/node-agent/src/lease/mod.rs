//! The parts of cluster-wide limits (`over: cluster`) that this node holds.
//!
//! The stepping thread uses what the node holds. A task asks the control plane's replicas for it by
//! `POST /v1/lease`, twice a second and after each fall. [`bloc_leases`] has the protocol, and why
//! nodes together never hold more than the limit. A part falls in three steps:
//!
//! 1. The thread lowers quotas. In the same step it reports what is still in use, and the part
//!    falls ([`Leases::settle`]): the next step cannot use more.
//! 2. The task writes the lower part to the disk ([`LeaseFile`]).
//! 3. It tells each replica, but only after the write succeeded.
//!
//! A part that rises is used at once, and written before the next request. After a crash, the disk
//! may have less than the control plane knows; the node gets the rest from it.
//!
//! A node that has left an application reports a part of 0 until all replicas know. Until then,
//! `leases.json` keeps this 0, so the next start continues.
//!
//! In each round of answers, the largest part counts, and the smallest goal given with that part.
//! Without an answer, a node keeps what it holds, even across restarts.

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
