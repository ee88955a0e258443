//! Limits on how far a sender trusts a server's speed (`filters/adr/0024-what-is-not-believed.md`).
//!
//! **Too fast.** A server with less than an eighth of the usual execution time may be giving wrong
//! answers. It comes first only where stock least request would choose it, too. The usual time is
//! the one that 0.6 of the servers exceed, tracked in small steps.
//!
//! **Starved.** A server that once looked slow gets no requests to show that it recovered. Servers
//! that were not first in the last `10 n` lists among `n` get 0.5% of the requests, without bids.

use crate::endpoints::{Endpoint, EndpointId, Endpoints};
use crate::units::rng::Rng;

/// A server this many times faster than usual is doubted.
const TOO_FAST: f64 = 8.0;
/// How far one look moves the usual time up and down, as shares of it. The ratio keeps it where 0.6
/// of the servers exceed it.
const STEPS: (f64, f64) = (0.03, 0.045);
/// The share of the requests that starved servers get.
const EXPLORES: f64 = 0.005;
/// A server is starved after this many lists, times the number of servers, without a first place.
const STARVED: u64 = 10;

/// The doubts of one sender.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    /// The usual execution time, in seconds; 0: none is known.
    usual: f64,
    lists: u64,
    /// The server that the next attempt explores.
    explores: Option<EndpointId>,
}

impl Doubts {
    /// Puts a server that is too fast first only where stock least request would do so.
    pub fn check_speed(&mut self, endpoints: &Endpoints, list: &mut Vec<EndpointId>, rng: &mut impl Rng) {
        let Some(&first) = list.first() else { return };
        let mut draw = || endpoints.at(rng.below(endpoints.len())).and_then(|id| Some((id, endpoints.get(id)?)));
        let Some((one, two)) = draw().zip(draw()) else { return };
        if let Some(any) = one.1.answers_after() {
            let step = if any > self.usual { 1.0 + STEPS.0 } else { 1.0 - STEPS.1 };
            self.usual = if self.usual > 0.0 { self.usual * step } else { any };
        }
        let is_doubtful = |id| endpoints.get(id).is_some_and(|server| self.is_doubtful(server));
        let stock = if two.1.pending() < one.1.pending() { two.0 } else { one.0 };
        if is_doubtful(first) && !is_doubtful(stock) {
            let other = list.iter().copied().find(|id| !is_doubtful(*id)).unwrap_or(stock);
            put_first(list, other);
        }
    }

    fn is_doubtful(&self, server: &Endpoint) -> bool {
        server.answers_after().is_some_and(|time| time * TOO_FAST < self.usual)
    }

    /// Occasionally puts a starved server first.
    pub fn explore(&mut self, endpoints: &mut Endpoints, list: &mut Vec<EndpointId>, rng: &mut impl Rng) {
        let Some(&first) = list.first() else { return };
        self.lists += 1;
        endpoints.chosen(first, self.lists);
        if rng.unit() >= EXPLORES {
            return;
        }
        let count = endpoints.len();
        let (long, start) = (STARVED * count as u64, rng.below(count));
        let is_starved = |id: &EndpointId| endpoints.get(*id).is_some_and(|server| server.is_starved(self.lists, long));
        let starved = (start..count).chain(0..start).filter_map(|place| endpoints.at(place)).find(is_starved);
        if let Some(id) = starved {
            put_first(list, id);
            self.explores = Some(id);
        }
    }

    /// Whether an attempt to this server explores it: only the first one after each choice does.
    pub fn explores(&mut self, server: EndpointId) -> bool {
        self.explores.take_if(|explored| *explored == server).is_some()
    }
}

/// Puts a server first in a list without changing its length.
fn put_first(list: &mut Vec<EndpointId>, id: EndpointId) {
    let length = list.len();
    list.retain(|other| *other != id);
    list.truncate(length.saturating_sub(1));
    list.insert(0, id);
}
