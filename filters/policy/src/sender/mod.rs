//! A sender: all that one worker of a proxy decides about the requests that it sends to one
//! cluster.
//!
//! | file | decides |
//! |---|---|
//! | `choice.rs` | which servers a request goes to, in which order |
//! | `attempts.rs` | nothing: it tells all the others of each attempt |
//! | [`retries`] | how often a request may be sent again, and after what |
//! | [`retry_budget`] | how often for other reasons than a rejection |
//! | [`discovery`] | when a sender without an endpoint list looks for unknown servers |
//! | [`doubt`] | which servers are too fast to be believed, and which are starved |
//!
//! Combines the parameters, the [`Endpoints`], a [`Router`], [`Doubts`] and, where no endpoints are
//! configured, [`Discovery`].

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

/// An attempt that was begun; to be ended exactly once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// The server that it goes to.
    pub endpoint: EndpointId,
    /// When it began.
    pub began: Timestamp,
    /// How long it wants to wait at most; none: without limit.
    pub bid: Option<Bid>,
    /// Why it may go there.
    pub permit: Permit,
    /// Whether Envoy's own policy placed it, so that the retry budget does not count it.
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
    /// A sender that has not sent anything.
    pub fn new(parameters: ServiceParameters, now: Timestamp) -> Self {
        let mut sender = Self {
            router: Router::new(&parameters),
            endpoints: Endpoints::new(parameters.reset_interval(), parameters.max_chips()),
            discovery: Discovery::default(),
            budget: RetryBudget::new(Ratio::within(parameters.retry_budget())),
            list: Vec::new(),
            doubts: Doubts::default(),
            parameters,
        };
        sender.set_endpoints(now);
        sender
    }

    /// Applies new parameters; what is known of the servers that stay is kept.
    pub fn configure(&mut self, parameters: ServiceParameters, now: Timestamp) {
        self.router.configure(&parameters);
        self.endpoints.configure(parameters.reset_interval(), parameters.max_chips());
        self.budget.configure(Ratio::within(parameters.retry_budget()));
        self.parameters = parameters;
        self.set_endpoints(now);
    }

    /// The same cluster under another configuration. It starts with what this sender knows, except
    /// for the attempts under way, which end here. From then on each learns for itself.
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

    /// Whether the servers are learned from the answers, because none are configured.
    fn learns(&self) -> bool {
        self.parameters.endpoints().is_none()
    }

    /// The parameters in force.
    pub fn parameters(&self) -> &ServiceParameters {
        &self.parameters
    }

    /// The servers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The retries of a request that begins, `own` of them for other reasons than a rejection.
    /// `bids`: whether its attempts may bid. Where there is only one server, a rejection is not
    /// retried.
    pub fn retries(&self, own: u32, bids: bool) -> Retries {
        let bids = if bids { self.router.most_bids(&self.endpoints) } else { 0 };
        // Where servers are learned, there may be one that is not known yet.
        let has_others = self.learns() || self.endpoints.len() > 1;
        Retries::new(own, bids as u32, if has_others { self.parameters.retries() } else { 0 })
    }

    /// Whether a request may be retried now for another reason than a rejection: whether the retry
    /// budget has a retry left.
    pub fn may_repeat(&self) -> bool {
        self.budget.allows()
    }

    /// Whether a request without a list may always be retried: it explores. Only a budget of 0
    /// holds for it, too.
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

    /// The bid position of an attempt of which only the number is known; the first is 0.
    pub fn turn(&self, number: usize) -> BidPosition {
        BidPosition { number, of: self.router.most_bids(&self.endpoints) }
    }

    /// The bid of this turn: the longest expected response time that the attempt accepts; none:
    /// without limit.
    pub fn bid(&self, turn: BidPosition) -> Option<Duration> {
        self.router.price(turn)
    }

    /// Finds the server with this address for an attempt, which costs the retry budget one. If no
    /// servers are configured, a new one is learned.
    fn endpoint_at(&mut self, address: &str, now: Timestamp) -> Option<EndpointId> {
        self.budget.attempt();
        let known = self.endpoints.find(address);
        if !self.learns() {
            return known;
        }
        Some(known.unwrap_or_else(|| {
            self.discovery.found();
            let known = self.endpoints.len();
            self.endpoints.forget(|met| self.discovery.is_gone(met, known));
            let id = self.endpoints.add(address, now);
            self.endpoints.meet(id, self.discovery.explored());
            id
        }))
    }

    /// Envoy's own policy placed this attempt, whose request went without a list. Learned
    /// servers that it no longer chooses are forgotten.
    pub fn met(&mut self, attempt: &mut Attempt) {
        if self.learns() {
            let endpoint = attempt.endpoint;
            attempt.explores = true;
            self.budget.explores();
            let (explored, known) = (self.discovery.explored(), self.endpoints.len());
            self.endpoints.meet(endpoint, explored);
            self.endpoints.forget_in_turn(explored, |met| self.discovery.is_gone(met, known));
        }
    }

    /// Envoy does not have this server in the cluster (any more). A learned server is forgotten; a
    /// configured one is left alone for a reset interval.
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
