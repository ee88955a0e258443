//! Round robin. Each sender starts at a random server, so that senders do not move in lockstep.
//! Cost: one look for each place.

use super::contract::Routing;
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// Round robin.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    next: Option<usize>,
}

impl Routing for RoundRobin {
    fn new(_parameters: &ServiceParameters) -> Self {
        Self::default()
    }

    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        _now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        list.clear();
        let count = endpoints.len();
        let Some(start) = self.next.unwrap_or_else(|| rng.below(count)).checked_rem(count) else { return };
        self.next = Some(start + 1);
        list.extend((0..length.min(count)).filter_map(|i| endpoints.all().id((start + i) % count)));
    }
}
