//! The cost of a bounce on real Envoys. All gains of bids depend on bounces being cheap.
//!
//! One sender's sidecar sends one request after the other to the sidecars of four servers. Three
//! servers are busy: each has [`HELD`] requests inside that never end, so it bounces every bid at
//! once. The fourth is idle. The sender does not know and tries them in random order. So a request
//! is bounced 0 to 3 times, each equally often, and requests with and without bounces alternate by
//! themselves. Envoy reports in each answer how many attempts there were.
//!
//! *Latency*: the percentiles of the requests with `k` bounces beside those with none, from the
//! same blocks. *CPU*: blocks in which three servers are busy alternate with blocks in which no
//! server is busy and nothing is bounced. The cost is the difference of the CPU time of the sender
//! and of the servers, divided by the number of bounces. The application takes no time, so only the
//! way there and back is measured.

pub mod command;
mod figures;
mod plan;
mod testbed;

pub use figures::{Bounces, Figures, Samples};
pub use plan::{BUSY, HELD, Kind, Plan};
pub use testbed::{BounceError, Stand};
