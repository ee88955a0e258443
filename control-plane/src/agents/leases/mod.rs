//! Leases: which node holds which part of an application's CPU limit (`POST /v1/lease`).
//!
//! The rules are in [`bloc_leases`]; this module keeps the records, and answers only once a record
//! is written. Each replica does all of this: a write succeeds only if nobody else has written
//! since (`adr/0006-leases.md`).
//!
//! ```text
//! ask ─► the known record ─► Grantor::receive on a copy ─┬─ unchanged ───────────────────► answer
//!                                                     └─ changed ─► write ─ok─► answer
//!                                                                     └─ conflict: no answer
//! ```
//!
//! | file | what |
//! |---|---|
//! | `message` | what an agent asks, checked |
//! | `app` | one application: what this replica has heard, and the asks that wait for a write |
//! | `budget` | how much this replica writes |
//! | `replica` | all applications; answers asks |
//! | `room` | how many records there are, and how many of one node |
//! | `nodes` | which nodes are silent; frees those that no longer exist |
//! | `store`, `file`, `kubernetes` | where records are kept |
//! | `tokens` | whether a token is that of the node agent on a node |
//! | `view` | what operators see |

mod app;
mod budget;
mod file;
mod kubernetes;
mod message;
mod nodes;
mod replica;
mod room;
mod store;
#[cfg(test)]
mod tests;
pub mod tokens;
mod view;

pub use file::{FileLeases, OpenError};
pub use kubernetes::KubernetesLeases;
pub use message::read;
pub use replica::{Away, Leases};
pub use store::{Known, LeaseStore, Unread, Unwritten, Writing};
pub use tokens::Tokens;
pub use view::{AppLease, LeaseView};
