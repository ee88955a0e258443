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
//! A sender that is [alone](crate::company) knows the queues, and no bounce tells it more. So it
//! makes no bids, and compares the [cost](crate::backlog) of [`LOOKS_ALONE`] servers, with or
//! without chips, except for shut ones that are not due for a probe. A server that does not report
//! what that takes is chosen by its pending requests.
//!
//! Deviations from the paper:
//! 1. two *distinct* servers are compared (drawing one twice compares nothing);
//! 2. a list is drawn at once, without replacement, where the paper draws anew for each retry and
//!    may ask a server that has just rejected;
//! 3. where no server qualifies, the paper's loop never ends: here the others follow, those that
//!    are not shut first, then by the end of their intervals.

use super::policy::Routing;
use super::two_choices::{draw_best_of, draw_better_of_two};
use crate::endpoints::{Endpoint, EndpointId, Endpoints};
use crate::rng::Rng;
use crate::units::Timestamp;

/// BLOC's selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bloc {
    /// How many servers are compared for the first attempt; 0: two, as in the paper.
    pub looks: usize,
    /// Whether this sender is [alone](crate::company), which makes a difference only for bids.
    pub alone: bool,
}

/// How many servers bids compare for the first attempt.
pub const LOOKS: usize = 16;
/// How many a sender compares that is alone.
const LOOKS_ALONE: usize = 64;

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
        let mut first = None;
        if self.looks > 0 && length > 0 {
            first = if self.alone { cheapest(endpoints, now, rng) } else { None };
            match first.and_then(|id| endpoints.get(id)).map(Endpoint::qualified) {
                None => draw_best_of(self.looks, &mut endpoints.qualified(), now, rng, list),
                Some(None) => {}
                Some(Some(place)) => {
                    let mut row = endpoints.qualified();
                    let end = row.len().saturating_sub(1);
                    list.extend(row.set_aside(place, end));
                }
            }
        }
        draw_better_of_two(endpoints.qualified(), length, rng, list);
        let rest = length.saturating_sub(list.len());
        list.extend(endpoints.waiting().take(rest));
        if let Some(id) = first.filter(|id| list.first() != Some(id)) {
            list.retain(|other| *other != id);
            list.truncate(length - 1);
            list.insert(0, id);
        }
    }
}

/// The server that costs a sender least that is alone; at a tie the first one from a random one on.
/// None if no cost is known.
///
/// Servers whose cost is not known, such as those without the filter, get about what least request
/// would give them, so that the others are not overloaded in their stead. One of those with the
/// fewest pending requests is considered. If it is idle, it is chosen as often as in a random draw
/// among all idle servers. Else it is chosen if it will have no more requests than the mean of
/// those whose cost is known, even while one of these is idle: a slow one that is avoided always
/// is.
fn cheapest(endpoints: &Endpoints, now: Timestamp, rng: &mut impl Rng) -> Option<EndpointId> {
    let count = endpoints.len();
    let start = rng.below(count);
    let (mut least, mut cheapest) = (f64::INFINITY, None);
    // Of servers with a cost: how many there are, how many are idle, all their requests.
    let (mut known, mut idle, mut pending) = (0, 0, 0);
    let mut unknown = Unknown { fewest: u32::MAX, equal: 0, id: None };
    for id in (start..count).chain(0..start).take(LOOKS_ALONE).filter_map(|place| endpoints.at(place)) {
        let Some(endpoint) = endpoints.get(id).filter(|endpoint| endpoint.is_open()) else { continue };
        let Some(cost) = endpoint.cost(now) else {
            unknown.add(endpoint.pending(), id, rng);
            continue;
        };
        known += 1;
        idle += usize::from(endpoint.pending() == 0);
        pending += u64::from(endpoint.pending());
        if cost < least {
            (least, cheapest) = (cost, Some(id));
        }
    }
    let cheapest = cheapest?;
    let takes = match unknown.fewest {
        0 => rng.below(idle + unknown.equal) >= idle,
        fewest => (u64::from(fewest) + 1) * known <= pending,
    };
    Some(unknown.id.filter(|_| takes).unwrap_or(cheapest))
}

/// Of the servers whose cost is not known, a random one of those with the fewest pending requests.
struct Unknown {
    fewest: u32,
    /// How many have so few.
    equal: usize,
    id: Option<EndpointId>,
}

impl Unknown {
    fn add(&mut self, pending: u32, id: EndpointId, rng: &mut impl Rng) {
        if pending < self.fewest {
            (self.fewest, self.equal) = (pending, 0);
        }
        if pending == self.fewest {
            self.equal += 1;
            if rng.below(self.equal) == 0 {
                self.id = Some(id);
            }
        }
    }
}
