//! What an omniscient balancer looks at.

/// A count this high stands for a server that must not be chosen; what it has under way is counted
/// on top.
pub const UNAVAILABLE: u32 = 1 << 30;

/// What an omniscient balancer sees at the moment of its decision.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// For each server the requests in it and those on their way to it; [`UNAVAILABLE`] and more:
    /// dead, or not a member.
    pub committed: Vec<u32>,
    /// For each server what it can do now, in requests per second.
    pub rates: Vec<f64>,
}
