//! The description of a load.

use super::shape::Load;
use std::net::SocketAddr;
use std::time::Duration;

/// The requests, their target, and how long they run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The address to send to.
    pub target: SocketAddr,
    /// The path of each request.
    pub path: String,
    /// Bytes of each request's body; 0: a GET.
    pub body: usize,
    /// Open or closed loop.
    pub load: Load,
    /// Whether to keep connections; otherwise each request has a new one.
    pub keep_alive: bool,
    /// A request without an answer for this long is an error.
    pub timeout: Duration,
    /// How long the load runs before anything counts.
    pub warm_up: Duration,
    /// The measured time. Closed loop: requests count that end within it. Open loop: requests count
    /// whose intended start lies within it.
    pub window: Duration,
    /// Open loop: the most requests that wait at once. One more is not sent and counts as an error
    /// of its own kind.
    pub outstanding_limit: usize,
    /// The seed of the arrivals.
    pub seed: u64,
}
