//! Faults under load, in four columns: stock Envoy, stock Envoy as a good operator tunes it
//! ([`Guard`](bloc_mesh::envoy::Guard)), ours, and ours tuned in the same way.
//!
//! There is a small mesh of real Envoys for each column, under half of the load that it can serve,
//! or less where a single server is left.
//! Faults are injected one after the other under this load, and mended again: the same fault at the
//! same victim, with the same arrivals, in each column. A fault lasts three times as long as the
//! clients wait, so no client can outwait it. The figures:
//!
//! 1. *Requests without an answer*, from the first to the last second, errors of the failing
//!    application included. Requests inside a killed process, and requests that nobody could have
//!    taken, do not count.
//! 2. *p99 while it lasts*, from two seconds after the fault begins. A request without an answer
//!    counts as the time that clients wait.
//! 3. *p99 after it*: how long it takes to stay below twice the undisturbed p99.
//! 4. *Retries* other than those after rejections, per request.
//!
//! A row's claim ([`Claim`]) sets the bounds. A promise of ours must hold in our column and in no
//! other. Where our filters make no difference, or our own parts break, our column must be no worse
//! than stock Envoy. In each row ours, tuned, must be no worse than stock Envoy, tuned. A row that
//! was not run does not pass.

pub mod command;
mod false_control_plane;
mod fault;
mod faults;
mod figure;
mod flood;
pub mod judge;
mod node_agent;
mod order;
pub mod page;
mod recovery;
mod rollback;
mod row;
mod run;
mod side;
mod testbed;
mod throttled;
mod two;
mod uploads;

pub use fault::{FAULTS, Fault};
pub use figure::{Bound, Claim, Figure};
pub use order::Chaos;
pub use row::{Column, Row, Verdict};
pub use run::{claims, run};
pub use side::{SIDES, Side};
pub use testbed::Place;
