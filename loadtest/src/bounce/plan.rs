//! How much is asked, and of how busy servers.

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
