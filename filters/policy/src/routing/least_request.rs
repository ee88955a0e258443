//! Least request: of two distinct random servers, the one with fewer pending requests of this
//! sender.
//!
//! Envoy's default, and the paper's baseline ("Least Connection", section 5.2). Source:
//! Mitzenmacher, "The power of two choices in randomized load balancing", 2001. Cost: two draws for
//! each place.

use super::contract::Routing;
use super::two_choices::draw_better_of_two;
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// Least request, two choices.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRequest;

impl Routing for LeastRequest {
    fn new(_parameters: &ServiceParameters) -> Self {
        Self
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
        draw_better_of_two(endpoints.all(), length, rng, list);
    }
}
