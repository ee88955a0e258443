//! Routing: which servers a request tries, and in which order.
//!
//! Each [`Routing`] lists distinct endpoints, for the first attempt and the retries, and learns
//! from [`Event`]s. The parameters select the [`Router`]. `endpoints` keeps what a sender knows
//! about servers; `retries` and `retry_budget` limit retries.

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
