//! The life of an attempt in a sender: its events, passed to every part that needs them.

use super::{Attempt, Sender};
use crate::endpoints::{Answer, Endpoint, EndpointId};
use crate::routing::bid::bounced_for_bid;
use crate::routing::{BidPosition, Event, Routing};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use crate::wire::load_report::LoadReport;
use std::time::Duration;

/// Looks for marks in one of this many answers of an open server.
const LOOKS_FOR_MARKS: usize = 8;

impl Sender {
    /// Begins an attempt to the server at `address`, with the bid at this position, if any. It
    /// takes 1 from the retry budget. If no servers are configured, learns an unknown one. None if
    /// servers are configured and this is not one of them.
    pub fn begin(&mut self, address: &str, turn: Option<BidPosition>, now: Timestamp) -> Option<Attempt> {
        let endpoint = self.endpoint_at(address, now)?;
        self.begin_there(endpoint, turn, now)
    }

    /// The same for a chosen server, which saves the look-up by address.
    pub fn begin_chosen(&mut self, endpoint: EndpointId, turn: Option<BidPosition>, now: Timestamp) -> Option<Attempt> {
        self.budget.attempt();
        self.begin_there(endpoint, turn, now)
    }

    pub(super) fn begin_there(
        &mut self,
        endpoint: EndpointId,
        turn: Option<BidPosition>,
        now: Timestamp,
    ) -> Option<Attempt> {
        let permit = self.endpoints.begin(endpoint, now)?;
        self.router.learn(&Event::Began { endpoint, now }, &self.endpoints);
        // An attempt that explores makes no bid, so that the server takes it.
        let turn = turn.filter(|_| !self.doubts.explores(endpoint));
        let bid = turn.and_then(|turn| self.router.bid(&self.endpoints, endpoint, turn, now));
        Some(Attempt { endpoint, began: now, bid, permit, explores: false })
    }

    /// The attempt was answered. Its [`end`](Self::end) is a separate event, because the body of
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

    /// A server rejected an attempt because it is full. Its [`answer`](Self::answer) is a separate
    /// event. Attempts do not bid while many servers are full.
    pub fn refused_as_full(&mut self) {
        self.router.learn(&Event::Full, &self.endpoints);
    }

    /// The attempt is over, answered or not.
    pub fn end(&mut self, attempt: &Attempt) {
        self.idle(attempt.endpoint);
    }

    /// The attempt became an idle stream, which does not count as pending and has no
    /// [`end`](Self::end).
    pub fn idle(&mut self, endpoint: EndpointId) {
        self.endpoints.end(endpoint);
        self.router.learn(&Event::Ended(endpoint), &self.endpoints);
    }

    /// The idle stream carries bytes again, and counts as pending.
    pub fn resume(&mut self, endpoint: EndpointId) {
        self.endpoints.resume(endpoint);
    }

    /// The trailers of an answered attempt report an error.
    pub fn erred(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.erred(attempt.endpoint, true, now);
    }

    /// The trailers report an error of the client.
    pub fn client_erred(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.client_erred(attempt.endpoint, now);
    }

    /// Whether to look for [marks](crate::wire::headers::MARKS) in the answer to an attempt. Always
    /// if the server is shut, since another answer could reopen it; else in one of
    /// [`LOOKS_FOR_MARKS`] answers, because each look takes host calls.
    pub fn looks_for_marks(&self, attempt: &Attempt, rng: &mut impl Rng) -> bool {
        self.endpoints.get(attempt.endpoint).is_some_and(Endpoint::is_shut) || rng.below(LOOKS_FOR_MARKS) == 0
    }

    /// The answer carried a mark.
    pub fn marked(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.leave_alone(attempt.endpoint, now);
    }

    /// Envoy did not retry a bounce.
    pub fn overflowed(&mut self, now: Timestamp) {
        self.router.learn(&Event::Overflowed(now), &self.endpoints);
    }
}

/// Treats a bounce or a deadline rejection as a plain rejection unless it is about this request.
fn as_meant(answer: Answer, bid: Option<Bid>, took: Duration) -> Answer {
    match answer {
        Answer::Bounced(report) if !bounced_for_bid(bid, &report, took) => Answer::Rejected(report),
        Answer::RejectedForDeadline(report) if !is_about_the_request(&report, took) => Answer::Rejected(report),
        answer => answer,
    }
}

/// Whether a deadline rejection is about this request only: the server has a queue, and decided at
/// once. If it held the request first, it failed to serve it.
fn is_about_the_request(report: &LoadReport, took: Duration) -> bool {
    report.queue.is_some_and(|queue| queue > 0) && report.expected().is_some_and(|expected| took < expected / 2)
}
