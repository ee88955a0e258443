//! The view of an omniscient balancer.

/// This count or more marks a server that must not be chosen; its requests under way are added.
pub const UNAVAILABLE: u32 = 1 << 30;

/// What an omniscient balancer sees at the moment of its decision.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// For each server the requests in it and on their way to it; [`UNAVAILABLE`] or more: dead, or
    /// not a member.
    pub committed: Vec<u32>,
    /// For each server its present capacity, in requests per second.
    pub rates: Vec<f64>,
    /// Requests that a server works on at once.
    pub concurrency: u32,
}
