//! BLOC's server selection (paper, section 5.4.3, algorithm 4).
//!
//! Two distinct servers are drawn among those that qualify (a chip, or the reset interval has
//! passed, see [`crate::endpoints`]), and the one with fewer pending requests of this sender is
//! tried. The list for the retries goes on in the same way, without repeating a server. Cost: two
//! draws and a comparison for each place of the list, whatever the number of servers.
//!
//! A sender that has many of the requests sees much of the queues, and two choices waste that. So
//! for the first attempt bids compare the [`LOOKS`] servers that follow a random one. A server that
//! bounces has no pending requests, and would win always; so one that bounced an attempt less than
//! one of its execution times ago comes after the others.
//!
//! Deviations from the paper:
//! 1. two *distinct* servers are compared (drawing one twice compares nothing);
//! 2. a list is drawn at once, without replacement, where the paper draws anew for each retry and
//!    may ask a server that has just rejected;
//! 3. where no server qualifies, the paper's loop never ends: here the others follow, those that
//!    are not shut first, then by the end of their intervals.

use super::contract::Routing;
use super::two_choices::{draw_best_of, draw_better_of_two};
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// BLOC's selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bloc {
    /// How many servers are compared for the first attempt; 0: two, as in the paper.
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
