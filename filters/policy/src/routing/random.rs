//! Uniformly random servers without repeats: a baseline that uses no information. Cost: a draw for
//! each place.

use super::contract::Routing;
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// Random choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Routing for Random {
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
        let mut row = endpoints.all();
        let mut left = row.len();
        while left > 0 && list.len() < length {
            let at = rng.below(left);
            left -= 1;
            list.extend(row.set_aside(at, left));
        }
    }
}
