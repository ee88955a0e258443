//! The interface of a routing, and the events it learns from.

use crate::config::ServiceParameters;
use crate::endpoints::{Answer, EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use std::time::Duration;

/// Which of a request's bids this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidPosition {
    /// Counts from 0.
    pub number: usize,
    /// The most bids the request may make.
    pub of: usize,
}

/// What happens at a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A request arrived, possibly one that goes without a list.
    Request(Timestamp),
    /// An attempt to this server begins.
    Began {
        /// The server.
        endpoint: EndpointId,
        /// When.
        now: Timestamp,
    },
    /// An attempt to this server ended, or no longer counts as pending.
    Ended(EndpointId),
    /// A server answered an attempt.
    Answered {
        /// The server.
        endpoint: EndpointId,
        /// The attempt's bid; none: no limit.
        bid: Option<Bid>,
        /// From sending the attempt to its answer.
        took: Duration,
        /// The answer.
        answer: &'a Answer,
        /// When.
        now: Timestamp,
    },
    /// A server rejected an attempt because it is full. The answer is a separate event.
    Full,
    /// Envoy did not retry a bounce.
    Overflowed(Timestamp),
}

/// A way to choose servers, with its state.
pub trait Routing: Sized {
    /// A routing without any knowledge.
    fn new(parameters: &ServiceParameters) -> Self;

    /// Applies new parameters and keeps its knowledge.
    fn configure(&mut self, _parameters: &ServiceParameters) {}

    /// Clears `list` and puts up to `length` distinct servers into it, in the order to try them;
    /// fewer only if there are fewer servers.
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    );

    /// The expected response time of the best server at the last choice, if known.
    fn expected(&self) -> Option<Duration> {
        None
    }

    /// How many bids a request may make.
    fn most_bids(&self, _endpoints: &Endpoints) -> usize {
        0
    }

    /// The bid at this position, for any server; none: no limit.
    fn price(&self, _turn: BidPosition) -> Option<Duration> {
        None
    }

    /// The bid of an attempt to this server; none: no limit.
    fn bid(&self, _endpoints: &Endpoints, _endpoint: EndpointId, _turn: BidPosition, _now: Timestamp) -> Option<Bid> {
        None
    }

    /// Learns from an event, after `endpoints` has.
    fn learn(&mut self, _event: &Event<'_>, _endpoints: &Endpoints) {}
}
