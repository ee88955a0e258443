//! What a routing is, and what it is told.

use crate::config::ServiceParameters;
use crate::endpoints::{Answer, EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use std::time::Duration;

/// The position of a bid among those of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidPosition {
    /// The first is 0.
    pub number: usize,
    /// How many bids the request may make.
    pub of: usize,
}

/// What happens to a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A request comes at this time, which may be sent without a list.
    Request(Timestamp),
    /// An attempt to this server begins.
    Began {
        /// The server.
        endpoint: EndpointId,
        /// When.
        now: Timestamp,
    },
    /// An attempt to this server is over, or does not count as pending any more.
    Ended(EndpointId),
    /// A server answered an attempt with this bid after `took`.
    Answered {
        /// The server.
        endpoint: EndpointId,
        /// The bid of the attempt; none: without limit.
        bid: Option<Bid>,
        /// The time from sending the attempt to its answer.
        took: Duration,
        /// What it answered.
        answer: &'a Answer,
        /// When.
        now: Timestamp,
    },
    /// A server has rejected an attempt because it is full; the answer is an event of its own.
    Full,
    /// Envoy did not retry a bounce at this time.
    Overflowed(Timestamp),
}

/// A way to choose servers, with all that it knows for that.
pub trait Routing: Sized {
    /// A routing that knows nothing yet.
    fn new(parameters: &ServiceParameters) -> Self;

    /// Applies new parameters; what it knows stays.
    fn configure(&mut self, _parameters: &ServiceParameters) {}

    /// Puts up to `length` distinct servers into `list` (which is emptied first), in the order in
    /// which they are to be tried; fewer only if there are fewer.
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    );

    /// The expected response time of the best server at the last choice, if it is known.
    fn expected(&self) -> Option<Duration> {
        None
    }

    /// How many bids a request may make.
    fn most_bids(&self, _endpoints: &Endpoints) -> usize {
        0
    }

    /// The bid of this turn, whatever server it goes to; none: without limit.
    fn price(&self, _turn: BidPosition) -> Option<Duration> {
        None
    }

    /// The bid of an attempt that begins at this server; none: without limit.
    fn bid(&self, _endpoints: &Endpoints, _endpoint: EndpointId, _turn: BidPosition, _now: Timestamp) -> Option<Bid> {
        None
    }

    /// Learns from what happened, after `endpoints` has.
    fn learn(&mut self, _event: &Event<'_>, _endpoints: &Endpoints) {}
}
