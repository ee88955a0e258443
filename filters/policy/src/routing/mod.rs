//! Routing: which servers a request tries, and in which order.
//!
//! Every policy is a [`Routing`]: it names distinct endpoints, the first for the first attempt, the others for the retries. [`Router`] is the one
//! that the parameters ask for.

mod bloc;
mod least_request;
mod mu;
mod random;
mod round_robin;

pub use bloc::Bloc;
pub use least_request::LeastRequest;
pub use mu::Mu;
pub use random::Random;
pub use round_robin::RoundRobin;

use crate::config::RoutingKind;
use crate::endpoints::{EndpointId, Endpoints, Row};
use crate::rng::Rng;
use crate::units::Timestamp;
use std::time::Duration;

/// A way to choose servers.
pub trait Routing {
    /// Puts up to `length` distinct servers into `list` (which is emptied first), in the order in which they are to be tried; fewer only if there
    /// are fewer.
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    );
}

/// The routing that the parameters ask for.
#[derive(Clone, Debug)]
pub enum Router {
    /// Chips, backoff and probing.
    Bloc(Bloc),
    /// Uniformly at random.
    Random(Random),
    /// One after the other.
    RoundRobin(RoundRobin),
    /// Two choices, fewer pending requests.
    LeastRequest(LeastRequest),
    /// The smallest expected response time.
    Mu(Mu),
}

impl Router {
    /// The routing of this kind, for a service with this reset interval.
    pub fn new(kind: RoutingKind, reset_interval: Duration) -> Self {
        match kind {
            RoutingKind::Mu => Self::Mu(Mu::new(reset_interval)),
            // Bids are made to the servers that BLOC would choose, in its order.
            RoutingKind::Bloc | RoutingKind::Bid => Self::Bloc(Bloc),
            RoutingKind::Random => Self::Random(Random),
            RoutingKind::RoundRobin => Self::RoundRobin(RoundRobin::default()),
            RoutingKind::LeastRequest => Self::LeastRequest(LeastRequest),
        }
    }

    /// Another reset interval.
    pub fn configure(&mut self, reset_interval: Duration) {
        if let Self::Mu(mu) = self {
            mu.configure(reset_interval);
        }
    }

    /// The response time that the best server promised at the last choice, if this routing knows.
    pub fn expected(&self) -> Option<Duration> {
        match self {
            Self::Mu(mu) => mu.expected(),
            _ => None,
        }
    }
}

impl Routing for Router {
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        match self {
            Self::Bloc(routing) => routing.choose(endpoints, length, now, rng, list),
            Self::Random(routing) => routing.choose(endpoints, length, now, rng, list),
            Self::RoundRobin(routing) => routing.choose(endpoints, length, now, rng, list),
            Self::LeastRequest(routing) => routing.choose(endpoints, length, now, rng, list),
            Self::Mu(routing) => routing.choose(endpoints, length, now, rng, list),
        }
    }
}

/// Draws `length` servers from a row without replacement, each the better of two (fewer pending requests; at a tie the one drawn first).
/// What is drawn is set aside at the row's end.
fn draw_better_of_two(mut row: Row<'_>, length: usize, rng: &mut impl Rng, list: &mut Vec<EndpointId>) {
    let mut left = row.len();
    while left > 0 && list.len() < length {
        let first = rng.below(left);
        let mut better = first;
        if left > 1 {
            let draw = rng.below(left - 1);
            let second = if draw >= first { draw + 1 } else { draw };
            if row.pending(second) < row.pending(first) {
                better = second;
            }
        }
        left -= 1;
        list.extend(row.set_aside(better, left));
    }
}

#[cfg(test)]
mod tests;
