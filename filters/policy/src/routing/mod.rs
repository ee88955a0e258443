//! Routing: which servers a request tries, and in which order.
//!
//! A [`Routing`] lists distinct servers, for the first attempt and the retries, and learns from
//! [`Event`]s. [`Router`] holds the routing that the parameters select. The words *chip*, *bid* and
//! *bounce* are explained in `docs/glossary.md`.
//!
//! | file | how it chooses |
//! |---|---|
//! | [`bid`] | like `bloc`; each attempt states the longest response time that it accepts, and the server accepts or bounces it |
//! | `bloc` | among servers with chips, two choices by this sender's pending requests |
//! | `least_request` | two choices by this sender's pending requests, as Envoy does |
//! | [`mu`] | the smallest expected response time, from the servers' reports |
//! | `random`, `round_robin` | baselines of the simulator |
//! | `two_choices` | draws servers for `bid`, `bloc` and `least_request` |

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
