//! The decisions of a sender, and their inputs.

use super::server_model::Probe;
use super::view::View;
use crate::requests::Plan;
use bloc_policy::endpoints::{Answer, Permit};
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;

/// The circumstances of a decision.
pub struct Moment<'a> {
    /// The time.
    pub now: Timestamp,
    /// Randomness.
    pub rng: &'a mut fastrand::Rng,
    /// For omniscient balancers only.
    pub view: &'a View,
}

/// Where an attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The server.
    pub server: u32,
    /// The longest wait that the attempt accepts; none: no limit.
    pub bid: Option<Bid>,
    /// Its permission: a chip, a probe, or forced.
    pub permit: Permit,
}

impl Choice {
    /// A choice of this server, for a policy without bids and chips.
    pub fn plain(server: u32) -> Self {
        Self { server, bid: None, permit: Permit::Chip }
    }
}

/// The decisions of one sender. Servers are numbered from 0.
pub trait SenderModel {
    /// Sets the servers, in rising order.
    fn members(&mut self, servers: &[u32], now: Timestamp);

    /// The server for attempt number `attempt` (0: the first one) of a request, which begins at
    /// once; none: no server is known. `plan` belongs to the request and is empty at its first
    /// attempt.
    fn choose(&mut self, plan: &mut Plan, attempt: u32, moment: &mut Moment<'_>) -> Option<Choice>;

    /// An attempt that began at `began` is over.
    fn answer(&mut self, attempt: Choice, answer: &Answer, began: Timestamp, now: Timestamp);

    /// An idle stream to this server begins to count as pending, or stops.
    fn stream(&mut self, _server: u32, _counts: bool) {}

    /// Whether a request may be sent again after this answer to an attempt with this `bid`; none:
    /// the service's parameters decide.
    fn again(&self, _plan: &mut Plan, _answer: &Answer, _bid: Option<Bid>) -> Option<bool> {
        None
    }

    /// Adds the servers to be probed after a request's first choice to `into`, which is empty.
    fn probe(&mut self, _into: &mut Vec<u32>, _moment: &mut Moment<'_>) {}

    /// A probe has come back.
    fn probed(&mut self, _server: u32, _probe: Probe, _now: Timestamp) {}
}
