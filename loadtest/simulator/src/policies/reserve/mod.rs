//! Late binding: a request waits in the queues of several servers at once, and goes where a place
//! frees first (Ousterhout, Wendell, Zaharia, Stoica: "Sparrow", SOSP 2013, section 3).
//!
//! The caller sends its request to one server with a bid of 0: that serves it only if it has a free
//! place. If it is bounced, the caller reserves a place at `d` other servers, and at this one again
//! if there are not so many. A server keeps its reservations in one FIFO queue ([`Queue`]). When a
//! place is free, it grants it to the first reservation, and keeps it until the request, a refusal
//! or a timeout. The caller sends the request with the first grant, cancels the other reservations,
//! and refuses what crosses that ([`Search`]).
//!
//! | message | from | is |
//! |---|---|---|
//! | attempt with bid 0, or with a grant | caller | the request, served or bounced |
//! | reservation | caller | a call that the server holds |
//! | question (instead of the first attempt) | caller | a reservation that does not wait |
//! | grant | server | the answer to that call |
//! | cancellation, refusal | caller | a reset of that call |
//!
//! A caller whose rounds of reservations have all failed sends the request without a limit, so
//! every request ends. `reserve` is told `concurrency` as bids are; a server that does not know it
//! has a place for everything, which is a random choice. Defaults: [`Reserving`]. Nothing needs to
//! be learnt, so a cold start is as any other. `filters/adr/0029` has the results.
//!
//! Deviations from Sparrow: 1. the first look; 2. a place is kept while the grant and the request
//! are on their way, and cancellations are always sent; 3. one request is placed at a time, not a
//! batch of tasks.

mod queue;
#[cfg(test)]
mod queue_tests;
mod search;
#[cfg(test)]
mod search_tests;
pub mod settings;

pub use queue::{Cancelled, Queue, Reservation};
pub use search::{Asked, Search};
pub use settings::Reserving;

use super::{Binding, Choice, Moment, Policy, SenderModel, ServerModel, Verdict};
use crate::requests::{MOST_ATTEMPTS, Plan};
use crate::scenario::{Scenario, ScenarioError};
use bloc_policy::endpoints::Answer;
use bloc_policy::sender::retries::Retries;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use std::time::Duration;

/// The routing `reserve`.
pub struct Reserve {
    settings: Reserving,
    /// The speeds of all servers, if callers know them.
    speeds: Option<Vec<f64>>,
    /// What the servers' sidecars are told about `concurrency`.
    places: Option<u32>,
    /// Retries after a failure.
    retries: u32,
}

impl Reserve {
    /// With the settings of this case.
    ///
    /// # Errors
    /// The service's parameters are not allowed.
    pub fn new(scenario: &Scenario) -> Result<Self, ScenarioError> {
        let all = || (0..scenario.servers).map(|server| scenario.speed(server)).collect();
        Ok(Self {
            settings: scenario.reserve,
            speeds: scenario.reserve.weighs.then(all),
            places: scenario.service.concurrency.and_then(|places| u32::try_from(places).ok()),
            retries: scenario.service.validate()?.retries(),
        })
    }
}

impl Policy for Reserve {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(Caller { members: Vec::new(), speeds: self.speeds.clone(), retries: self.retries })
    }

    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Server { queue: Queue::new(self.places) })
    }

    fn binding(&self) -> Binding {
        Binding::Reserve(self.settings)
    }
}

/// Draws the servers that a request asks, each once.
struct Caller {
    members: Vec<u32>,
    speeds: Option<Vec<f64>>,
    retries: u32,
}

impl SenderModel for Caller {
    fn members(&mut self, servers: &[u32], _now: Timestamp) {
        self.members = servers.to_vec();
    }

    fn choose(&mut self, plan: &mut Plan, attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        if attempt == 0 {
            plan.retries = Retries::new(self.retries, 0, 0);
        }
        let bid = Some(Bid::from(Duration::ZERO));
        // After a failure it goes on with those that it has not asked.
        if let Some(server) = plan.next().filter(|_| attempt > 0) {
            return Some(Choice { bid, ..Choice::plain(server) });
        }
        if let Some(speeds) = &self.speeds {
            // The order of exponential times with these rates is a draw with these weights.
            let mut keyed: Vec<(f64, u32)> = (self.members.iter())
                .map(|&server| (-(1.0 - moment.rng.f64()).ln() / speeds[server as usize], server))
                .collect();
            keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            plan.set(keyed.into_iter().map(|(_, server)| server));
        } else {
            let all = self.members.len();
            for place in 0..all.min(MOST_ATTEMPTS) {
                self.members.swap(place, moment.rng.usize(place..all));
            }
            plan.set(self.members.iter().copied());
        }
        Some(Choice { bid, ..Choice::plain(plan.next()?) })
    }

    fn answer(&mut self, _attempt: Choice, _answer: &Answer, _began: Timestamp, _now: Timestamp) {}

    fn again(&self, plan: &mut Plan, answer: &Answer, _bid: Option<Bid>) -> Option<bool> {
        // After a bounce the search goes on, which bounds itself.
        Some(matches!(answer, Answer::Bounced(_)) || plan.retries.take_route_retry())
    }
}

/// The sidecar of a server.
struct Server {
    queue: Queue,
}

impl ServerModel for Server {
    fn arrive(&mut self, _: u32, bid: Option<Bid>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        if self.queue.enter(bid.is_some()) { Verdict::Admitted } else { Verdict::Bounced(LoadReport::default()) }
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        self.queue.leave();
        None
    }

    fn reservations(&mut self) -> Option<&mut Queue> {
        Some(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::View;

    fn orders(speeds: Option<Vec<f64>>) -> Vec<Vec<u32>> {
        let mut caller = Caller { members: vec![0, 1, 2, 3], speeds, retries: 2 };
        let (mut rng, view) = (fastrand::Rng::with_seed(7), View::default());
        let mut order = || {
            let mut plan = Plan::default();
            let mut moment = Moment { now: Timestamp::ZERO, rng: &mut rng, view: &view };
            let choice = caller.choose(&mut plan, 0, &mut moment).unwrap();
            assert_eq!((choice.bid, plan.retries.left()), (Some(Bid::from(Duration::ZERO)), 2));
            std::iter::once(choice.server).chain(plan).collect()
        };
        (0..4_000).map(|_| order()).collect()
    }

    fn times_first(orders: &[Vec<u32>], server: u32) -> usize {
        orders.iter().filter(|order| order[0] == server).count()
    }

    #[test]
    fn a_caller_asks_each_server_once_in_any_order() {
        let orders = orders(None);
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        // Four standard deviations are 110.
        (0..4).for_each(|server| assert!(times_first(&orders, server).abs_diff(1_000) < 110));
    }

    #[test]
    fn a_caller_that_knows_the_speeds_asks_fast_servers_more_often_first() {
        let orders = orders(Some(vec![1.0, 0.5, 1.0, 1.5]));
        for (server, times) in [(0, 1_000), (1, 500), (2, 1_000), (3, 1_500)] {
            assert!(times_first(&orders, server).abs_diff(times) < 125, "{server}");
        }
    }
}
