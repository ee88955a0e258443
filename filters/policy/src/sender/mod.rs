//! A sender: all that one worker of a proxy decides about the requests that it sends to one
//! cluster.
//!
//! | file | decides |
//! |---|---|
//! | [`retries`] | how often a request may be sent again, and after what |
//! | [`retry_budget`] | how often for other reasons than a rejection |
//! | [`discovery`] | when a sender without an endpoint list looks for unknown servers |
//! | [`doubt`] | which servers are too fast to be believed, and which are starved |
//!
//! Combines the parameters, the [`Endpoints`], a [`Router`], [`Doubts`] and, where no endpoints are
//! configured, [`Discovery`].

pub mod discovery;
pub mod doubt;
mod further;
pub mod retries;
pub mod retry_budget;

use crate::config::ServiceParameters;
use crate::endpoints::{Answer, Endpoint, EndpointId, Endpoints, Permit};
use crate::routing::bid::bounced_for_bid;
use crate::routing::{BidPosition, Event, Router, Routing};
use crate::sender::discovery::Discovery;
use crate::sender::doubt::Doubts;
use crate::sender::retries::Retries;
use crate::sender::retry_budget::RetryBudget;
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// The most servers that are chosen for a user's own retries.
const MOST_LISTED: u32 = 10;

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
            budget: RetryBudget::new(parameters.retry_budget()),
            list: Vec::new(),
            doubts: Doubts::default(),
            parameters,
        };
        sender.set_endpoints(now);
        sender
    }

    /// Applies new parameters; what is known of the servers that stay is kept.
    pub fn configure(&mut self, parameters: ServiceParameters, now: Timestamp) {
        if parameters.routing() != self.parameters.routing() {
            self.router = Router::new(&parameters);
        }
        self.router.configure(&parameters);
        self.endpoints.configure(parameters.reset_interval(), parameters.max_chips());
        self.budget.configure(parameters.retry_budget());
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
        self.learns() && self.parameters.retry_budget().get() > 0.0
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

    /// Begins an attempt to the server at `address`, with the bid of this turn, if there is one. It
    /// costs the retry budget one. If no servers are configured, a new one is learned. None if
    /// servers are configured and this is not one of them.
    pub fn begin(&mut self, address: &str, turn: Option<BidPosition>, now: Timestamp) -> Option<Attempt> {
        let endpoint = self.endpoint_at(address, now)?;
        self.begin_there(endpoint, turn, now)
    }

    /// The same for a chosen server, whose address need not be looked up.
    pub fn begin_chosen(&mut self, endpoint: EndpointId, turn: Option<BidPosition>, now: Timestamp) -> Option<Attempt> {
        self.budget.attempt();
        self.begin_there(endpoint, turn, now)
    }

    fn begin_there(&mut self, endpoint: EndpointId, turn: Option<BidPosition>, now: Timestamp) -> Option<Attempt> {
        let permit = self.endpoints.begin(endpoint, now)?;
        self.router.learn(&Event::Began { endpoint, now }, &self.endpoints);
        // One that explores accepts any time: it is to find out.
        let turn = turn.filter(|_| !self.doubts.explores(endpoint));
        let bid = turn.and_then(|turn| self.router.bid(&self.endpoints, endpoint, turn, now));
        Some(Attempt { endpoint, began: now, bid, permit, explores: false })
    }

    /// The attempt was answered. Its [`end`](Self::end) is reported separately, because the body of
    /// the answer is still to come.
    pub fn answer(&mut self, attempt: &Attempt, answer: Answer, now: Timestamp) {
        let &Attempt { endpoint, began, bid, permit, explores } = attempt;
        let took = now.since(began);
        let is_rejection = matches!(answer, Answer::Bounced(_) | Answer::Rejected(_) | Answer::RejectedForDeadline(_));
        if is_rejection && !explores {
            self.budget.rejection();
        }
        let answer = as_meant(answer, bid, took);
        if answer == Answer::Unreported {
            self.endpoints.took(endpoint, took);
        }
        self.endpoints.answer_after(endpoint, permit, answer, took, now);
        self.router.learn(&Event::Answered { endpoint, bid, took, answer: &answer, now }, &self.endpoints);
    }

    /// A server has rejected an attempt because it is full; its [`answer`](Self::answer) is
    /// reported as well. While many are full, attempts do not bid.
    pub fn met_full(&mut self) {
        self.router.learn(&Event::Full, &self.endpoints);
    }

    /// The attempt is over, answered or not.
    pub fn end(&mut self, attempt: &Attempt) {
        self.idle(attempt.endpoint);
    }

    /// An attempt to this server has become an idle stream, which does not count as pending and has
    /// no [`end`](Self::end).
    pub fn idle(&mut self, endpoint: EndpointId) {
        self.endpoints.end(endpoint);
        self.router.learn(&Event::Ended(endpoint), &self.endpoints);
    }

    /// The idle stream carries bytes again, and counts.
    pub fn resume(&mut self, endpoint: EndpointId) {
        self.endpoints.resume(endpoint);
    }

    /// Chooses the servers of a request, in the order in which to try them: at most one for the
    /// first attempt and one per retry, for the larger of the two kinds. The list is empty if
    /// no server is known, or if Envoy's own policy places the request so that new servers are
    /// found.
    pub fn choose(&mut self, now: Timestamp, rng: &mut impl Rng) -> &[EndpointId] {
        self.list.clear();
        self.router.learn(&Event::Request(now), &self.endpoints);
        if self.learns() && self.discovery.explores(self.endpoints.len(), self.endpoints.open(), rng) {
            return &self.list;
        }
        self.budget.request();
        let own = self.parameters.route_retries().default().min(MOST_LISTED);
        let length = self.retries(0, true).left().max(own) as usize + 1;
        self.router.choose(&mut self.endpoints, length, now, rng, &mut self.list);
        self.doubts.check_speed(&self.endpoints, &mut self.list, rng);
        self.go_round(length);
        if self.parameters.routing().compares_speeds() {
            self.doubts.explore(&mut self.endpoints, &mut self.list, rng);
        }
        &self.list
    }

    /// Where there are fewer servers than places in the list, those that are not shut follow again,
    /// the first one last. Beyond the list, Envoy's fallback policy prefers the server with the
    /// fewest requests, which is the one that refuses connections.
    fn go_round(&mut self, length: usize) {
        let once = self.list.len();
        let is_open = |id: &EndpointId| self.endpoints.get(*id).is_some_and(|endpoint| !endpoint.is_shut());
        if once < 2 || once >= length || !self.list.iter().any(is_open) {
            return;
        }
        let mut place = 0;
        while self.list.len() < length {
            place = (place + 1) % once;
            self.list.extend(self.list.get(place).copied().filter(is_open));
        }
    }

    /// By how much the best server of the last choice would miss the SLO; none if it would not, if
    /// there is no SLO, or if nothing is known. (Mu, paper section 4.4.1: a request that cannot be
    /// served within the SLO, given the present queues, gets a 503. The paper gives no rule; this
    /// one is ours.)
    pub fn overrun(&self) -> Option<Duration> {
        let slo = self.parameters.slo()?;
        let expected = self.router.expected()?;
        expected.checked_sub(slo + self.parameters.slo_grace()).filter(|overrun| !overrun.is_zero())
    }

    /// The addresses of the servers chosen last.
    pub fn chosen(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter_map(|&id| self.endpoints.get(id)).map(Endpoint::address)
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

/// What an answer after `took` to an attempt with this bid means: a bounce or a rejection for a
/// deadline that says nothing about the request is a rejection like any other.
fn as_meant(answer: Answer, bid: Option<Bid>, took: Duration) -> Answer {
    match answer {
        Answer::Bounced(report) if !bounced_for_bid(bid, &report, took) => Answer::Rejected(report),
        Answer::RejectedForDeadline(report) if !is_about_the_request(&report, took) => Answer::Rejected(report),
        answer => answer,
    }
}

/// Whether a rejection for a deadline, after `took`, says nothing about other requests: the server
/// has a queue, and decided at once. If it held the request first, it failed to serve it.
fn is_about_the_request(report: &LoadReport, took: Duration) -> bool {
    report.queue.is_some_and(|queue| queue > 0) && report.expected().is_some_and(|expected| took < expected / 2)
}

#[cfg(test)]
mod tests;
