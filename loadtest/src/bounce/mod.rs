//! What a bounce costs on real Envoys: everything that bids gain rests on its being cheap.
//!
//! One sender's sidecar before four servers' sidecars, one request after the other. Three servers
//! are busy: each has [`HELD`] requests inside that never end, so that whatever bids there is told
//! at once that it would take too long; the fourth is idle. The sender does not know and asks in
//! random order, so a request is bounced 0 to 3 times, each equally often, and requests with and
//! without bounces come in turn by themselves. Envoy says in each answer how many attempts there
//! were.
//!
//! *Latency*: the percentiles of the requests with `k` bounces beside those with none, from the
//! same blocks. *CPU*: blocks in which three servers are busy take turns with blocks in which none
//! is, and none bounces; the difference of the sender's CPU time and of the servers', over the
//! number of bounces. The application takes no time, so what is seen is the way alone.

mod figures;
mod plan;
mod stand;

pub use figures::{Bounces, Figures, Samples};
pub use plan::{BUSY, HELD, Kind, Plan};
pub use stand::{BounceError, Stand};
