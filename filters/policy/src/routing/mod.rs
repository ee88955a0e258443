//! Routing: which servers a request tries, and in which order.
//!
//! What a sender knows of the servers is not here but in `endpoints`. Whether a request may be sent
//! again is in `retries` and `retry_budget`.
//!
//! Every one is a [`Routing`]: it names distinct endpoints, the first for the first attempt, the
//! others for the retries, and learns from [`Event`]s. [`Router`] is the one that the parameters
//! ask for.

pub mod bid;
mod bloc;
mod contract;
mod least_request;
pub mod mu;
mod random;
mod round_robin;
mod router;
mod two_choices;

pub use bid::Bidder;
pub use bloc::Bloc;
pub use contract::{BidPosition, Event, Routing};
pub use least_request::LeastRequest;
pub use mu::Mu;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use router::Router;

#[cfg(test)]
mod tests;
