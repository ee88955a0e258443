//! BLOC's server selection (paper, section 5.4.3, algorithm 4).
//!
//! Draws two distinct qualified servers ([`crate::endpoints`]) and tries the one with fewer pending
//! requests of this sender. Retries continue the same way, without repeats. For a first attempt
//! with a bid, compares [`LOOKS`] servers (`filters/adr/0019-the-fleets-execution-time.md`); one
//! that has just bounced ranks last, because it always looks idle.
//!
//! Deviations from the paper: the two servers are distinct; the list is drawn once, without
//! replacement; if no server qualifies, the others follow instead of an endless loop, shut ones
//! last.

use super::contract::Routing;
use super::two_choices::{draw_best_of, draw_better_of_two};
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// BLOC's selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bloc {
    /// How many servers to compare for the first attempt; 0 means two, as in the paper.
    pub looks: usize,
}

/// How many servers bids compare for the first attempt.
pub const LOOKS: usize = 16;

impl Routing for Bloc {
    fn new(_parameters: &ServiceParameters) -> Self {
        Self::default()
    }

    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        list.clear();
        endpoints.requalify(now);
        if self.looks > 0 && length > 0 {
            draw_best_of(self.looks, &mut endpoints.qualified(), now, rng, list);
        }
        draw_better_of_two(endpoints.qualified(), length, rng, list);
        let rest = length.saturating_sub(list.len());
        list.extend(endpoints.waiting().take(rest));
    }
}
