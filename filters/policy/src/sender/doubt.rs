//! What a sender does not believe of a server, whatever the routing makes of its answers.
//!
//! **Too fast.** A server whose execution time is less than an eighth of what is usual gives wrong
//! answers, perhaps, such as empty ones, and would draw all requests with them. It comes first only
//! where stock least request would choose it, too: where it is the better of two servers drawn at
//! random, by the sender's own pending requests. What is usual is the execution time that 0.6 of
//! the servers exceed: each choice looks at one server, and moves it by a few percent. So of two
//! servers a slow one does not make the other look fast. Without a report the time is that of the
//! server's answers. Simulated (`starvation.rs`): one of five servers answers in a hundredth of the
//! time, at 60% load. One sender sent it 99% of the requests with bids and with Mu; it is 34% now,
//! with stock least request 35%.
//!
//! **Starved.** What makes a server look slow may be over, and the routing would not find out: it
//! asks nobody who looks slow. With bids and Mu, servers that were not first in the last `10 n`
//! lists among `n` servers get 0.5% of the requests, at most four at a time each. They make no bid,
//! so the server takes them. Half a percent leaves the p99 to the others. Where no server looks
//! slow, none is starved. Simulated: one of five servers takes 2 s for ten requests, then 50 ms
//! again. With bids, one sender and 30% load it got nothing for 140 s; it has its share after 20 s.
//!
//! Cost: three draws, and a look at two servers, a request; each 200th looks at all of them. Not in
//! the papers.

use crate::endpoints::{Endpoint, EndpointId, Endpoints};
use crate::units::rng::Rng;

/// A server that answers so many times faster than usual is doubted.
const TOO_FAST: f64 = 8.0;
/// How far each look at a server moves what is usual up and down, as a share of it: it stays where
/// 0.6 of the servers exceed it.
const STEPS: (f64, f64) = (0.03, 0.045);
/// The share of the requests that starved servers get.
const EXPLORES: f64 = 0.005;
/// A server is starved that was not first in so many lists, times the number of servers.
const STARVED: u64 = 10;

/// The doubts of one sender.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    /// The usual execution time, in seconds; 0: none is known.
    usual: f64,
    /// How many lists were drawn.
    lists: u64,
    /// The server that an attempt is to explore.
    explores: Option<EndpointId>,
}

impl Doubts {
    /// Puts a server that answers too fast first only where stock least request would, too.
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

    /// Now and then puts a starved server first.
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

    /// Whether an attempt to this server explores it; only the first one after each choice does.
    pub fn explores(&mut self, server: EndpointId) -> bool {
        self.explores.take_if(|explored| *explored == server).is_some()
    }
}

/// Puts a server first in a list that stays as long as it is.
fn put_first(list: &mut Vec<EndpointId>, id: EndpointId) {
    let length = list.len();
    list.retain(|other| *other != id);
    list.truncate(length.saturating_sub(1));
    list.insert(0, id);
}
