//! BLOC's server selection (the dissertation of `docs/glossary.md`, section 5.4.3, algorithm 4).
//!
//! Draws two distinct servers that qualify ([`crate::endpoints`]: with a chip, or due for a probe)
//! and takes the one with fewer of this sender's requests pending. The servers for the retries are
//! drawn the same way.
//!
//! Deviations from the paper: 1. the two servers are distinct; 2. the list is drawn at once,
//! without replacement; 3. if too few qualify, the others follow, where the paper loops: first the
//! one whose reset interval ends first, and last those that are shut because they fail. With `bid`,
//! the first attempt compares up to [`LOOKS`] servers
//! (`filters/adr/0019-the-fleets-execution-time.md`). There a server ranks last that has none of
//! this sender's requests and has bounced one within the execution time that it reported: its queue
//! consists of other senders' requests.

use super::contract::Routing;
use super::two_choices::{draw_best_of, draw_better_of_two};
use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// BLOC's selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bloc {
    /// How many servers to compare for the first attempt; 0: two, as for the retries.
    pub looks: usize,
}

/// How many servers `bid` compares for the first attempt.
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
