//! `bloc.attempt`: the upstream filter, one context per attempt. Only this filter sees every
//! rejection; the others see only the last response.
//!
//! The key in `x-bloc-endpoints` tells which request the attempt belongs to, and so its cluster and
//! its number (see [`crate::requests`]). Envoy uses one header map for all attempts of a request,
//! and reads the list once: the first attempt removes the addresses and leaves the key for the
//! others.
//!
//! This filter ends the retries. If no further attempt may follow an answer, the filter adds a
//! header that Envoy's router takes for "do not retry", and `bloc.outbound` removes it. An attempt
//! without an answer cannot be marked. If the next one is one too many, this filter answers it
//! without its server.
//!
//! Fail-open: an attempt to a service without configuration passes; only `x-bloc-endpoints` is
//! removed. An attempt without a key, because no `bloc.outbound` placed it, is recorded under its
//! cluster's name. The route configuration removes our headers from requests and responses, which
//! costs Envoy a tenth of a host call. It cannot remove `x-bloc-endpoints`, because Envoy chooses
//! the server by it later.

mod answer;
mod under_way;

use crate::cluster::{Cluster, Sent};
use crate::clusters::Shared;
use crate::crash;
use crate::filter::{Filter, Flow};
use crate::host::{HeaderMap, Host, RESOURCE_EXHAUSTED, Stream, TOO_MANY_REQUESTS, TextAttribute};
use crate::request_headers::{body, deadline};
use crate::requests::{End, Next, Then};
use crate::status::Status;
use crate::streams::Counted;
use crate::vm::Vm;
use crate::why::Rejected;
pub use answer::answer_due;
use answer::{Rejection, attempt_number, reply, reply_for_silence, said};
use bloc_policy::endpoints::{Answer, Endpoint, Permit};
use bloc_policy::sender::{self, Sender};
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid;
use bloc_policy::wire::endpoints::{self, RequestKey};
use bloc_policy::wire::headers::{BID, ENDPOINTS, MARKS, ORCA, RATE_LIMITED, REJECT};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use under_way::{UnderWay, count, is_at};

/// A timeout may come this early: Envoy's timers use a clock that stands still within a turn of the
/// event loop.
const EARLY: Duration = Duration::from_millis(5);
/// How soon a waiting attempt is answered once no other is under way.
const SOON: Duration = Duration::from_millis(10);

/// The filter of one attempt.
pub struct Attempt<H: Host> {
    vm: Rc<Vm<H>>,
    stream: H::Stream,
    /// The request that it belongs to, if this proxy placed it.
    key: Option<RequestKey>,
    under_way: Option<UnderWay<H>>,
    /// The cluster that counts it, if its server no longer belongs to that cluster.
    elsewhere: Option<Shared<H>>,
    phase: Phase,
    /// Whether its request [explores](bloc_policy::sender::discovery), so that no budget limits its
    /// retries.
    explores: bool,
}

/// The state of an attempt, as far as its request needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not begun, or answered.
    NotPending,
    /// At a server, without an answer. `limit`: how long it may take, if that was read.
    Pending { limit: Option<Duration> },
    /// Paused here while other attempts of its request are under way.
    Surplus,
}

/// What is recorded of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its request, if this proxy placed it.
    pub request: Option<RequestKey>,
    /// The address of its server.
    pub server: String,
    /// When it began.
    pub began: Timestamp,
}

/// An attempt under way, or its cluster if that no longer has its server.
type Started<H> = Result<UnderWay<H>, Shared<H>>;

impl<H: Host> Attempt<H> {
    /// An attempt that has not begun.
    pub fn new(vm: &Rc<Vm<H>>, stream: H::Stream) -> Self {
        let (key, under_way, elsewhere) = (None, None, None);
        Self { vm: Rc::clone(vm), stream, key, under_way, elsewhere, phase: Phase::NotPending, explores: false }
    }

    /// What the filter has recorded of it, once it has begun.
    pub fn recorded(&self) -> Option<Recorded> {
        let under_way = self.under_way.as_ref()?;
        let cluster = under_way.cluster.borrow();
        let server = cluster.sender.endpoints().get(under_way.attempt.endpoint);
        let server = server.map(Endpoint::address).unwrap_or_default().to_owned();
        Some(Recorded { request: self.key, server, began: under_way.attempt.began })
    }

    /// Finds the request of this attempt, and removes the addresses from its list.
    fn next(&mut self) -> Option<Next<RefCell<Cluster<H>>>> {
        let list = self.stream.header(HeaderMap::Request, ENDPOINTS)?;
        self.key = endpoints::decode_key(list.as_ref());
        let bare = endpoints::bare_key(list.as_ref());
        let next = self.key.and_then(|key| self.vm.requests.borrow_mut().attempt(key, bare.is_some()));
        if next.is_none() {
            // Not ours, or of a request that has ended or is mirrored.
            drop(list);
            self.key = None;
            self.stream.remove_header(HeaderMap::Request, ENDPOINTS);
        } else if let Some(bare) = bare {
            drop(list);
            self.stream.set_header(HeaderMap::Request, ENDPOINTS, &bare);
        }
        next
    }

    /// Whether this attempt may not follow the previous one: the retries of its kind or the retry
    /// budget are used up.
    fn is_one_too_many(&self, next: &Next<RefCell<Cluster<H>>>) -> bool {
        if next.may && next.after == Some(End::NoAnswer) && !self.explores {
            let mut cluster = next.cluster.borrow_mut();
            if !cluster.sender.may_repeat() {
                cluster.counters.count(Sent::OverBudget);
                return true;
            }
        }
        !next.may
    }

    /// Answers in place of the server, as Envoy would have done after the previous attempt. If
    /// others are under way, waits for them instead: an answer would end them.
    fn refuse(&mut self, next: &Next<RefCell<Cluster<H>>>) {
        next.cluster.borrow_mut().counters.count(Sent::RefusedRetries);
        match self.key.filter(|_| next.hedges) {
            Some(key) => {
                self.phase = Phase::Surplus;
                self.vm.requests.borrow_mut().wait(key, self.stream.clone());
            }
            None if next.after == Some(End::Rejected) => reply(&self.stream, TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED),
            None => reply_for_silence(&self.stream, next.timed_out),
        }
    }

    fn begin(&self, next: Option<Next<RefCell<Cluster<H>>>>, ends: bool) -> Option<Started<H>> {
        let Some(next) = next else { return self.begin_without_request(ends) };
        let turn = next.turn;
        let address = self.stream.text(TextAttribute::UpstreamAddress)?;
        let address = address.as_ref();
        if let Some(first) = next.first
            && is_at(&next.cluster, first, address)
        {
            // Not the time of the choice: a filter in between may have paused the request.
            let now = self.vm.host.now();
            return self.begin_at(next.cluster, |to| to.begin_chosen(first, turn, now));
        }
        let (address, now) = (std::str::from_utf8(address).ok()?, self.vm.host.now());
        let is_known = next.cluster.borrow().sender.endpoints().find(address).is_some();
        let cluster = if next.first.is_none() && is_known {
            next.cluster
        } else {
            // Either Envoy does not know the chosen server, or another filter has changed the
            // cluster; then no server is missing. (If the request's own cluster has a server with
            // that address, the attempt counts as sent there.)
            let cluster = self.vm.cluster_of(Some(next.plugin), &self.stream)?;
            if let Some(first) = next.first.filter(|_| Rc::ptr_eq(&cluster, &next.cluster)) {
                cluster.borrow_mut().sender.missing(first, now);
            }
            cluster
        };
        self.begin_at(cluster, |to| {
            let mut begun = to.begin(address, turn, now);
            if let Some(attempt) = begun.as_mut().filter(|_| !next.listed) {
                to.placed_by_envoy(attempt);
            }
            begun
        })
    }

    /// An answer has come: tells Envoy's router if no attempt may follow it.
    fn end_retries(&self, report: Option<&LoadReport>, rejection: Option<Rejection>, status: Status, now: Timestamp) {
        let Some(key) = self.key else { return };
        let mut requests = self.vm.requests.borrow_mut();
        let bid = self.under_way.as_ref().and_then(|under_way| under_way.attempt.bid);
        let then = match (report, rejection) {
            (Some(report), Some(reason)) => {
                let then = requests.ended(key, End::Rejected, now, |retries| retries.rejected_for(reason, bid, report));
                if then == Then::Envoy || reason != Some(Reason::Unreachable) {
                    then
                } else {
                    // No application has failed, and our retries are used up: the route's retries
                    // decide, as they would without the filters.
                    self.stream.remove_header(HeaderMap::Response, REJECT);
                    requests.ended_after_all(key, |retries| retries.has_route_retry() && self.may_repeat())
                }
            }
            _ => {
                requests.ended(key, if status.is_server_error() { End::Erred } else { End::Answered }, now, |retries| {
                    retries.has_route_retry() && self.may_repeat()
                })
            }
        };
        let Then::Nothing { named } = then else { return };
        if (named || status.is_bad(&self.stream)) && self.stream.header(HeaderMap::Response, RATE_LIMITED).is_none() {
            self.stream.set_header(HeaderMap::Response, RATE_LIMITED, b"true");
            requests.mark(key);
        }
    }

    /// Whether the retry budget allows another attempt of this request.
    fn may_repeat(&self) -> bool {
        let Some(under_way) = self.under_way.as_ref().filter(|_| !self.explores) else { return true };
        let mut cluster = under_way.cluster.borrow_mut();
        let may = cluster.sender.may_repeat();
        if !may {
            cluster.counters.count(Sent::OverBudget);
        }
        may
    }

    /// Begins an attempt whose request this proxy did not place.
    fn begin_without_request(&self, ends: bool) -> Option<Started<H>> {
        let address = self.stream.text(TextAttribute::UpstreamAddress)?;
        let address = std::str::from_utf8(address.as_ref()).ok()?;
        let cluster = self.vm.cluster_of(None, &self.stream)?;
        let turn = {
            let sender = &cluster.borrow().sender;
            let bids = sender.bids() && !body(&self.stream, ends).exceeds(sender.parameters().body_limit().into());
            bids.then(|| attempt_number(&self.stream)).flatten().map(|number| sender.turn(number))
        };
        let now = self.vm.host.now();
        self.begin_at(cluster, |to| to.begin(address, turn, now))
    }

    /// Begins an attempt to a server of this cluster. If the cluster no longer has that server,
    /// only counts the attempt.
    fn begin_at(
        &self,
        cluster: Shared<H>,
        begin: impl FnOnce(&mut Sender) -> Option<sender::Attempt>,
    ) -> Option<Started<H>> {
        let mut inner = cluster.borrow_mut();
        inner.counters.count(Sent::Attempts);
        let Some(attempt) = begin(&mut inner.sender) else {
            drop(inner);
            return Some(Err(cluster));
        };
        match attempt.permit {
            Permit::Chip => {}
            Permit::Probe => inner.counters.count(Sent::Probes),
            Permit::Forced => inner.counters.count(Sent::Forced),
        }
        drop(inner);
        let mut text = self.vm.text.borrow_mut();
        // Sent even without a bid: it tells the server that this caller reads its load report.
        match attempt.bid {
            Some(bid) => bid::encode(bid, &mut text),
            None => {
                text.clear();
                text.push_str(bid::ANY);
            }
        }
        self.stream.set_header(HeaderMap::Request, BID, text.as_bytes());
        Some(Ok(UnderWay {
            vm: Rc::clone(&self.vm),
            cluster,
            attempt,
            answered: false,
            given_up: false,
            erred: false,
            answer: None,
        }))
    }
}

impl<H: Host> Drop for Attempt<H> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        match self.phase {
            Phase::NotPending => {}
            Phase::Surplus => self.vm.requests.borrow_mut().leave(key, &self.stream),
            Phase::Pending { limit } => {
                let began = self.under_way.as_ref().map(|under_way| under_way.attempt.began);
                let took = began.map(|began| self.vm.host.now().since(began));
                let timed_out = limit.zip(took).is_some_and(|(limit, took)| took + EARLY >= limit);
                let lost = self.vm.requests.borrow_mut().lost(key, timed_out);
                if let Some(under_way) = &mut self.under_way {
                    under_way.given_up = lost.given_up;
                }
                if lost.due {
                    // Not now: if another attempt has just got its answer, Envoy is ending all
                    // others.
                    self.vm.pace.hurry(SOON);
                }
            }
        }
    }
}

impl<H: Host> Filter for Attempt<H> {
    fn request_headers(&mut self, ends: bool) -> Flow {
        crash::request(&self.vm.host, &self.stream, "attempt.request");
        let next = self.next();
        self.explores =
            next.as_ref().is_some_and(|next| !next.listed && next.cluster.borrow().sender.may_repeat_without_list());
        if let Some(next) = &next
            && self.is_one_too_many(next)
        {
            self.refuse(next);
            return Flow::Pause;
        }
        let is_last =
            next.as_ref().is_some_and(|next| next.is_last || !next.cluster.borrow().sender.may_repeat_amply());
        match self.begin(next, ends) {
            Some(Ok(under_way)) => self.under_way = Some(under_way),
            Some(Err(cluster)) => self.elsewhere = Some(cluster),
            None => {}
        }
        if let (Some(key), Some(_)) = (self.key, &self.under_way) {
            self.vm.requests.borrow_mut().went(key);
            // The limit is needed only if no attempt may follow: then this filter answers.
            self.phase = Phase::Pending { limit: is_last.then(|| deadline(&self.stream)).flatten() };
        }
        Flow::Continue
    }

    fn response_headers(&mut self, ends: bool) {
        let (vm, stream) = (&self.vm, &self.stream);
        crash::point(&vm.host, "attempt.response");
        if let (Some(key), Phase::Pending { .. }) = (self.key, self.phase) {
            self.phase = Phase::NotPending;
            if vm.requests.borrow_mut().came(key) {
                vm.pace.hurry(SOON);
            }
        }
        let (report, rejection) = said(stream);
        // A rejection is a bad answer, whatever its status.
        let status = if rejection.is_some() { Status::REJECTION } else { Status::read(stream, ends) };
        if let Some(key) = self.key.filter(|_| status.is_good() && !status.is_server_error()) {
            vm.requests.borrow_mut().satisfied(key);
        }
        let now = if self.under_way.is_some() { vm.host.now() } else { Timestamp::ZERO };
        self.end_retries(report.as_ref(), rejection, status, now);
        let refused = rejection.zip(report).map(|(reason, report)| match reason {
            Some(Reason::Bid) => Answer::Bounced(report),
            Some(Reason::Deadline) => Answer::RejectedForDeadline(report),
            _ => Answer::Rejected(report),
        });
        let Some(under_way) = &mut self.under_way else {
            if let Some((cluster, answer)) = self.elsewhere.as_ref().zip(refused) {
                count(&mut cluster.borrow_mut(), &answer);
            }
            return;
        };
        let answer = match (refused, report) {
            (Some(refused), _) => refused,
            (None, report) if status.is_server_error() => Answer::Erred(report),
            (None, report) if status.is_client_error() => Answer::ClientError(report),
            (None, Some(report)) => Answer::Served(report),
            (None, None) => stream
                .header(HeaderMap::Response, ORCA)
                .and_then(|value| orca::decode(value.as_ref()))
                .map_or(Answer::Unreported, Answer::Orca),
        };
        let looks = rejection.is_none()
            && under_way.cluster.borrow().sender.looks_for_marks(&under_way.attempt, &mut *vm.rng.borrow_mut());
        under_way.answer(answer, rejection.flatten(), now);
        if looks && MARKS.iter().any(|mark| stream.header(HeaderMap::Response, mark).is_some()) {
            under_way.cluster.borrow_mut().sender.marked(&under_way.attempt, now);
        }
        if !ends && under_way.answer.is_none() {
            let (cluster, endpoint) = (Rc::clone(&under_way.cluster), under_way.attempt.endpoint);
            under_way.answer = Some(vm.streams.begin(stream, Counted::Attempt { cluster, endpoint }));
        }
        if let (Some(report), Some(reason)) = (&report, rejection) {
            let cluster = under_way.cluster.borrow();
            Rejected { sender: &cluster.sender, attempt: &under_way.attempt, reason, report }.mark(
                &vm.host,
                stream,
                || attempt_number(stream),
            );
        }
    }

    fn response_trailers(&mut self) {
        let Some(under_way) = self.under_way.as_ref().filter(|under_way| !under_way.erred) else { return };
        let status = Status::read_trailers(&self.stream);
        let mut cluster = under_way.cluster.borrow_mut();
        if status.is_server_error() {
            cluster.counters.count(Sent::Errors);
            if self.key.is_some() {
                cluster.latencies.fail();
            }
            cluster.sender.erred(&under_way.attempt, self.vm.host.now());
        } else if status.is_client_error() {
            cluster.sender.client_erred(&under_way.attempt, self.vm.host.now());
        }
    }
}
