//! The order in which a request bids for servers.
//!
//! Cold start and cost: as for [`super::LeastRequest`].

use super::{Routing, draw_better_of_two};
use crate::endpoints::{EndpointId, Endpoints};
use crate::rng::Rng;
use crate::units::Timestamp;

/// The order of the bids.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bid;

impl Routing for Bid {
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        _now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        list.clear();
        draw_better_of_two(endpoints.all(), length, rng, list);
    }
}
