//! A sender: all decisions of one worker of a proxy about its requests to one cluster.
//!
//! | file | decides |
//! |---|---|
//! | `choice.rs` | which servers a request goes to, in which order |
//! | `attempts.rs` | nothing: it passes the events of each attempt to all others |
//! | [`retries`] | how often a request may be sent again, and after what |
//! | [`retry_budget`] | how often for other reasons than a rejection |
//! | [`discovery`] | when a sender without an endpoint list looks for unknown servers |
//! | [`doubt`] | which servers are too fast to be believed, and which are starved |

mod attempts;
mod choice;
pub mod discovery;
pub mod doubt;
pub mod retries;
pub mod retry_budget;

use crate::config::ServiceParameters;
use crate::endpoints::{EndpointId, Endpoints, Permit};
use crate::routing::{BidPosition, Event, Router, Routing};
use crate::sender::discovery::Discovery;
use crate::sender::doubt::Doubts;
use crate::sender::retries::Retries;
use crate::sender::retry_budget::RetryBudget;
use crate::units::{Ratio, Timestamp};
use crate::wire::bid::Bid;
use std::time::Duration;

/// An attempt that has begun; it must end exactly once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// The server that it goes to.
    pub endpoint: EndpointId,
    /// When it began.
    pub began: Timestamp,
    /// The longest response time it accepts; none: no limit.
    pub bid: Option<Bid>,
    /// Why it may go there.
    pub permit: Permit,
    /// Whether Envoy's own policy placed it. The retry budget then ignores it.
    pub explores: bool,
}

/// One worker's view of one cluster.
#[derive(Clone, Debug)]
pub struct Sender {
    parameters: ServiceParameters,
    router: Router,
    endpoints: Endpoints,
    discovery: Discovery,
    budget: RetryBudget,
    list: Vec<EndpointId>,
    doubts: Doubts,
}

impl Sender {
    /// A sender that has not sent anything yet.
    pub fn new(parameters: ServiceParameters, now: Timestamp) -> Self {
        let mut sender = Self {
            router: Router::new(&parameters),
            endpoints: Endpoints::new(parameters.reset_interval()),
            discovery: Discovery::default(),
            budget: RetryBudget::new(Ratio::within(parameters.retry_budget())),
            list: Vec::new(),
            doubts: Doubts::default(),
            parameters,
        };
        sender.set_endpoints(now);
        sender
    }

    /// Applies new parameters, and keeps what is known about servers that stay.
    pub fn configure(&mut self, parameters: ServiceParameters, now: Timestamp) {
        self.router.configure(&parameters);
        self.endpoints.configure(parameters.reset_interval());
        self.budget.configure(Ratio::within(parameters.retry_budget()));
        self.parameters = parameters;
        self.set_endpoints(now);
    }

    /// A copy for the same cluster under another configuration. It keeps all knowledge except the
    /// attempts under way. The two are independent from then on.
    #[must_use]
    pub fn beside(&self, parameters: ServiceParameters, now: Timestamp) -> Self {
        let mut other = self.clone();
        other.endpoints.none_pending();
        for (id, _) in other.endpoints.iter() {
            other.router.learn(&Event::Ended(id), &other.endpoints);
        }
        other.configure(parameters, now);
        other
    }

    fn set_endpoints(&mut self, now: Timestamp) {
        if let Some(addresses) = self.parameters.endpoints() {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            self.endpoints.replace(texts.iter().map(String::as_str), now);
        }
    }

    /// Whether servers are learned from answers, because none are configured.
    fn learns(&self) -> bool {
        self.parameters.endpoints().is_none()
    }

    /// The current parameters.
    pub fn parameters(&self) -> &ServiceParameters {
        &self.parameters
    }

    /// The servers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The retries of a new request, `own` of them for other reasons than a rejection. `bids`:
    /// whether its attempts may bid. With only one server, rejections are not retried.
    pub fn retries(&self, own: u32, bids: bool) -> Retries {
        let bids = if bids { self.router.most_bids(&self.endpoints) } else { 0 };
        // If servers are learned, there may be an unknown one.
        let has_others = self.learns() || self.endpoints.len() > 1;
        Retries::new(own, bids as u32, if has_others { self.parameters.retries() } else { 0 })
    }

    /// Whether the retry budget allows a retry now for another reason than a rejection.
    pub fn may_repeat(&self) -> bool {
        self.budget.allows()
    }

    /// Whether a request without a list may always be retried. Such a request explores, so only a
    /// budget of 0 forbids it.
    pub fn may_repeat_without_list(&self) -> bool {
        self.learns() && self.parameters.retry_budget() > 0.0
    }

    /// The same as [`may_repeat`](Self::may_repeat), with at least half of the burst left.
    pub fn may_repeat_amply(&self) -> bool {
        self.budget.is_ample()
    }

    /// Whether attempts bid.
    pub fn bids(&self) -> bool {
        self.parameters.routing().bids()
    }

    /// The bid position of an attempt, given only its number, from 0.
    pub fn turn(&self, number: usize) -> BidPosition {
        BidPosition { number, of: self.router.most_bids(&self.endpoints) }
    }

    /// The bid at this position: the longest expected response time that the attempt accepts; none:
    /// no limit.
    pub fn bid(&self, turn: BidPosition) -> Option<Duration> {
        self.router.price(turn)
    }

    /// Finds the server at this address for an attempt, which takes 1 from the retry budget. If no
    /// servers are configured, learns an unknown one.
    fn endpoint_at(&mut self, address: &str, now: Timestamp) -> Option<EndpointId> {
        self.budget.attempt();
        let known = self.endpoints.find(address);
        if !self.learns() {
            return known;
        }
        Some(known.unwrap_or_else(|| {
            self.discovery.found();
            let known = self.endpoints.len();
            self.endpoints.forget(|seen| self.discovery.is_gone(seen, known));
            let id = self.endpoints.add(address, now);
            self.endpoints.seen(id, self.discovery.explored());
            id
        }))
    }

    /// Envoy's own policy placed this attempt, whose request had no list. Forgets learned servers
    /// that the policy no longer chooses.
    pub fn placed_by_envoy(&mut self, attempt: &mut Attempt) {
        if self.learns() {
            let endpoint = attempt.endpoint;
            attempt.explores = true;
            self.budget.explores();
            let (explored, known) = (self.discovery.explored(), self.endpoints.len());
            self.endpoints.seen(endpoint, explored);
            self.endpoints.forget_in_turn(explored, |seen| self.discovery.is_gone(seen, known));
        }
    }

    /// Envoy does not have this server in the cluster. Forgets a learned server; leaves a
    /// configured one alone for a reset interval.
    pub fn missing(&mut self, id: EndpointId, now: Timestamp) {
        if self.learns() {
            self.endpoints.remove(id);
            self.discovery.found();
        } else {
            self.endpoints.leave_alone(id, now);
        }
    }
}

#[cfg(test)]
mod tests;
