//! What a bounce costs on real Envoys: everything that bids gain rests on its being cheap.
//!
//! One sender's sidecar before four servers' sidecars, one request after the other. Three servers are busy: each has [`HELD`] requests inside that never end, so that whatever bids there
//! is told at once that it would take too long; the fourth is idle. The sender does not know and asks in random order, so a request is bounced 0 to 3 times, each equally often, and
//! requests with and without bounces come in turn by themselves. Envoy says in each answer how many attempts there were.
//!
//! *Latency*: the percentiles of the requests with `k` bounces beside those with none, from the same blocks. *CPU*: blocks in which three servers are busy take turns with blocks in which none
//! is, and none bounces; the difference of the sender's CPU time and of the servers', over the number of bounces. The application takes no time, so what is seen is the way alone.

mod figures;
mod stand;

pub use figures::{Bounces, Figures, Samples};
pub use stand::{BounceError, Stand};

use std::time::Duration;

/// Servers that are busy in turn; one more never is.
pub const BUSY: usize = 3;
/// Requests that a busy server holds.
pub const HELD: usize = 100;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of a block with busy servers and one without.
    pub rounds: usize,
    /// Requests of a block.
    pub block: usize,
    /// Time between two requests: without any, all that they touch stays in the caches.
    pub pause: Duration,
}
