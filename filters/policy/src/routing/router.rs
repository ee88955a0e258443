//! The policy that the parameters of a service ask for.

use super::bloc::{Bloc, LOOKS};
use super::least_request::LeastRequest;
use super::mu::Mu;
use super::policy::Routing;
use super::random::Random;
use super::round_robin::RoundRobin;
use crate::config::RoutingKind;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use std::time::Duration;

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
            RoutingKind::Bloc => Self::Bloc(Bloc::default()),
            // Bids are made to the servers that BLOC would choose, but for the first attempt.
            RoutingKind::Bid => Self::Bloc(Bloc { looks: LOOKS }),
            RoutingKind::Random => Self::Random(Random),
            RoutingKind::RoundRobin => Self::RoundRobin(RoundRobin::default()),
            RoutingKind::LeastRequest => Self::LeastRequest(LeastRequest),
        }
    }

    /// Sets the reset interval.
    pub fn configure(&mut self, reset_interval: Duration) {
        if let Self::Mu(mu) = self {
            mu.configure(reset_interval);
        }
    }

    /// The expected response time of the best server at the last choice, if this routing knows it.
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
