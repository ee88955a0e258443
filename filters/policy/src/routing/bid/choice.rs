//! Which servers attempts with bids go to, and what a sender learns from the answers.
//!
//! BLOC's selection, except that the first attempt compares [`LOOKS`] servers
//! ([`super::super::bloc`]). Later attempts try servers last whose acceptance means nothing
//! ([`super::trust`]).

use super::pause::BidPause;
use super::price::{Bids, STALE, is_bounce};
use super::search::MOST_BIDS;
use super::trust::Promises;
use crate::config::ServiceParameters;
use crate::endpoints::{Answer, EndpointId, Endpoints};
use crate::routing::bloc::{Bloc, LOOKS};
use crate::routing::contract::{BidPosition, Event, Routing};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use slotmap::SecondaryMap;
use std::time::Duration;

/// A sender that bids.
#[derive(Clone, Debug)]
pub struct Bidder {
    servers: Bloc,
    bids: Bids,
    /// The time of the last report.
    heard: Timestamp,
    promises: SecondaryMap<EndpointId, Promises>,
    pause: BidPause,
}

impl Bidder {
    /// Whether this server's acceptance of a bid means nothing.
    pub fn distrusts(&self, server: EndpointId) -> bool {
        self.promises.get(server).copied().unwrap_or_default().are_untrusted()
    }

    fn promises(&mut self, server: EndpointId) -> Option<&mut Promises> {
        self.promises.entry(server).map(|entry| entry.or_default())
    }

    /// The price of going to the only other server. No limit if an attempt there has waited longer
    /// than the price: that server may hang.
    fn price_of_the_other(&self, endpoints: &Endpoints, endpoint: EndpointId, now: Timestamp) -> Duration {
        let price = || {
            let (other, report, waits) = endpoints.only_other(endpoint, STALE, now)?;
            let price = self.bids.price_of(&report).filter(|price| waits <= *price)?;
            (!self.distrusts(other)).then_some(price)
        };
        price().unwrap_or(Duration::MAX)
    }

    /// A server reported, in an answer or a rejection.
    fn observe(&mut self, report: &LoadReport, now: Timestamp) {
        self.heard = now;
        self.bids.observe(report);
    }

    /// A server accepted this bid. A server without load reports (`ignores`) accepts every bid.
    fn served(&mut self, server: EndpointId, bid: Option<Bid>, took: Duration, ignores: bool) {
        if let Some(promises) = self.promises(server) {
            promises.judge(bid, took, ignores);
        }
        self.bids.served(took);
    }
}

impl Routing for Bidder {
    fn new(parameters: &ServiceParameters) -> Self {
        Self {
            servers: Bloc { looks: LOOKS },
            bids: Bids::new(parameters.bounce_price()),
            heard: Timestamp::ZERO,
            promises: SecondaryMap::new(),
            pause: BidPause::default(),
        }
    }

    fn configure(&mut self, parameters: &ServiceParameters) {
        self.bids.configure(parameters.bounce_price());
    }

    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    ) {
        self.servers.choose(endpoints, length, now, rng, list);
        if let Some(further) = list.get_mut(1..)
            && further.iter().any(|id| self.distrusts(*id))
        {
            // The list is short, so this stable sort does not allocate.
            further.sort_by_key(|id| self.distrusts(*id));
        }
    }

    /// With n servers that are not shut, at most n - 1 bounces are useful.
    fn most_bids(&self, endpoints: &Endpoints) -> usize {
        if self.pause.is_on() { 0 } else { MOST_BIDS.min(endpoints.open().saturating_sub(1)) }
    }

    fn price(&self, turn: BidPosition) -> Option<Duration> {
        self.bids.bid(turn)
    }

    fn bid(&self, endpoints: &Endpoints, endpoint: EndpointId, turn: BidPosition, now: Timestamp) -> Option<Bid> {
        let by_all = self.price(turn)?;
        let reads_fleet =
            now.since(self.heard) < STALE && endpoints.get(endpoint).is_some_and(|endpoint| endpoint.report().fleet);
        let fleet = self.bids.fleet().filter(|_| reads_fleet);
        Some(Bid { most: by_all.min(self.price_of_the_other(endpoints, endpoint, now)), fleet })
    }

    fn learn(&mut self, event: &Event<'_>, _endpoints: &Endpoints) {
        match *event {
            Event::Request(now) => self.pause.count(now),
            Event::Began { .. } | Event::Ended(_) => {}
            Event::Full => self.bids.rejected(),
            Event::Overflowed(now) => self.pause.overflowed(now),
            Event::Answered { endpoint, bid, took, answer, now } => match answer {
                Answer::Served(report) => {
                    self.served(endpoint, bid, took, false);
                    self.observe(report, now);
                }
                Answer::Orca(_) | Answer::Unreported => self.served(endpoint, bid, took, true),
                Answer::Bounced(report) => {
                    self.observe(report, now);
                    let held = was_held(bid, report, took);
                    if !held {
                        self.bids.bounced(took);
                    }
                    if let Some(promises) = self.promises(endpoint) {
                        // The holding time does not show the cost of a bounce, but shows a broken
                        // promise.
                        if held {
                            promises.judge(bid, took, false);
                        }
                        promises.bounced();
                    }
                }
                Answer::Rejected(report) => self.observe(report, now),
                Answer::RejectedForDeadline(report) => {
                    self.observe(report, now);
                    if let Some(promises) = self.promises(endpoint) {
                        promises.bounced();
                    }
                }
                // The speed of a failure says nothing about the speed of serving.
                Answer::Erred(_) | Answer::ClientError(_) | Answer::Failed | Answer::GivenUp => {}
            },
        }
    }
}

/// Whether a server held the request before it bounced it. The claim is false if the attempt took
/// less than its bid.
fn was_held(bid: Option<Bid>, report: &LoadReport, took: Duration) -> bool {
    report.held && bid.is_some_and(|bid| took >= bid.most)
}

/// Whether a bounce after `took` was for the bid. If not, treat it as a rejection.
pub fn bounced_for_bid(bid: Option<Bid>, report: &LoadReport, took: Duration) -> bool {
    is_bounce(bid, &LoadReport { held: was_held(bid, report, took), ..*report })
}
