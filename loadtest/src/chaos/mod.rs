//! Faults under load, in three columns: stock Envoy, stock Envoy as a good operator tunes it
//! ([`Guard`](crate::envoy::Guard)), and ours.
//!
//! A small mesh of real Envoys for each column carries half of what it can. One fault after the
//! other is put in under this load, the same at the same victim with the same arrivals in each
//! column, and mended again. A fault lasts three times as long as the clients wait, so that nobody
//! sits it out. The figures:
//!
//! 1. *Requests without an answer*, from the first to the last second, errors that the failing
//!    application made among them; without those that were in a process that was killed, and those
//!    that nobody could have taken.
//! 2. *p99 while it lasts*, from two seconds after its begin on; a request without an answer counts
//!    as the clients' patience.
//! 3. *p99 after it*: how long it takes to stay below twice the undisturbed one.
//! 4. *Retries* beyond those after rejections, for each request.
//!
//! What a row claims ([`Claim`]) decides what they have to be: a promise of ours holds in no other
//! column; where nothing of ours makes a difference, and where our own parts break, ours is no
//! worse than stock Envoy. A row that was not run is no pass.

mod fault;
mod faults;
mod figure;
mod flood;
mod impossible;
pub mod judge;
mod liar;
mod order;
mod recovery;
mod rollback;
mod row;
mod run;
mod side;
mod stand;
mod throttled;
mod uploads;
mod network_faults;

pub use fault::{FAULTS, Fault};
pub use figure::{Bound, Claim, Figure};
pub use order::Chaos;
pub use row::{Column, Row, Verdict};
pub use run::{claims, run};
pub use side::{SIDES, Side};
pub use stand::Place;
pub use network_faults::enter_namespace;
