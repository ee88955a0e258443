//! BLOC's server selection (paper, section 5.4.3, algorithm 4).
//!
//! Two distinct servers are drawn among those that qualify (a chip, or the reset interval has
//! passed, see [`crate::endpoints`]), and the one with fewer pending requests of this sender is
//! tried. The list for the retries goes on in the same way, without repeating a server. Cost: two
//! draws and a comparison for each place of the list, whatever the number of servers.
//!
//! Deviations from the paper:
//! 1. two *distinct* servers are compared (drawing one twice compares nothing);
//! 2. a list is drawn at once, without replacement, where the paper draws anew for each retry and
//!    may ask a server that has just rejected;
//! 3. where no server qualifies, the paper's loop never ends: here those whose interval ends first
//!    follow.

use super::policy::Routing;
use super::two_choices::draw_better_of_two;
use crate::endpoints::{EndpointId, Endpoints};
use crate::rng::Rng;
use crate::units::Timestamp;

/// BLOC's selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bloc;

impl Routing for Bloc {
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
        draw_better_of_two(endpoints.qualified(), length, rng, list);
        let rest = length.saturating_sub(list.len());
        list.extend(endpoints.waiting().take(rest));
    }
}
