//! What a load is.

use super::shape::Load;
use std::net::SocketAddr;
use std::time::Duration;

/// What to send where, and for how long.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Whom to ask.
    pub target: SocketAddr,
    /// The path of each request.
    pub path: String,
    /// Bytes of each request's body; 0: a GET.
    pub body: usize,
    /// Open or closed loop.
    pub load: Load,
    /// Keep connections; otherwise each request has a new one.
    pub keep_alive: bool,
    /// A request without an answer for so long is an error.
    pub timeout: Duration,
    /// The load runs for so long before anything counts.
    pub warm_up: Duration,
    /// What counts: closed loop, requests that end within it; open loop, requests that are meant to
    /// begin within it.
    pub window: Duration,
    /// Open loop: more requests than these are not left waiting; one beyond is an error of its own
    /// kind.
    pub outstanding_limit: usize,
    /// Determines the arrivals.
    pub seed: u64,
}
