//! `bloc.attempt`: the upstream filter, one context per attempt. It alone sees every rejection, and
//! not only the last answer.
//!
//! Which request the attempt belongs to, and so which cluster and which number it has, says the key
//! in `x-bloc-endpoints` (see [`crate::requests`]). Envoy works on one map of headers for all
//! attempts of a request, and reads the list once: the first attempt takes the addresses away and
//! leaves the key for the others.
//!
//! It ends the retries. An answer after which no further attempt may follow gets a header that
//! Envoy's router takes for "do not retry", and `bloc.outbound` takes that away. An attempt that
//! got no answer cannot be marked: the next one is answered here, without its server, if it is one
//! too many.
//!
//! On failure: open. Of an attempt to a service that nobody configured only `x-bloc-endpoints` is
//! taken away. One without a key, because no `bloc.outbound` placed it, is booked by its cluster's
//! name. What is ours in requests and answers the route configuration takes away, which costs Envoy
//! a tenth of a call from here; only `x-bloc-endpoints` it cannot, because Envoy chooses the server
//! by it after that.

use crate::body::body;
use crate::cluster::{Cluster, Sent};
use crate::clusters::Shared;
use crate::crash;
use crate::deadline::deadline;
use crate::filter::{Filter, Flow};
use crate::host::{Host, Map, Number, Reply, Stream, Text};
use crate::requests::{End, Next, Then};
use crate::streams::{AnswerId, Counted};
use crate::vm::Vm;
use crate::why::Rejected;
use bloc_policy::endpoints::{Answer, Endpoint, EndpointId, Right};
use bloc_policy::sender::{self, Sender};
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid;
use bloc_policy::wire::endpoints::{self, RequestKey};
use bloc_policy::wire::headers::{BID, ENDPOINTS, LOAD, ORCA, RATE_LIMITED, REJECT};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const TOO_MANY_REQUESTS: u32 = 429;
const SERVICE_UNAVAILABLE: u32 = 503;
const GATEWAY_TIMEOUT: u32 = 504;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNAVAILABLE: i32 = 14;
const INTERNAL: i32 = 13;
const GRPC_STATUS: &str = "grpc-status";
/// Envoy's timers go by a clock that stands still within a turn of its loop.
const EARLY: Duration = Duration::from_millis(5);
/// After how long an attempt that waits in vain is answered.
const SOON: Duration = Duration::from_millis(10);

/// The filter of one attempt.
pub struct Attempt<H: Host> {
    vm: Rc<Vm<H>>,
    stream: H::Stream,
    /// The request that it belongs to, if that was placed by us.
    key: Option<RequestKey>,
    under_way: Option<UnderWay<H>>,
    /// Where it counts while it is at a server that is none of its cluster's any more.
    elsewhere: Option<Shared<H>>,
    phase: Phase,
}

/// Where an attempt is, as far as its request has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not begun, or answered.
    Elsewhere,
    /// At a server, without an answer. `limit`: how long it may take, where that was read.
    Pending { limit: Option<Duration> },
    /// Held here, while other attempts of its request are under way.
    Surplus,
}

/// What is noted of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booked {
    /// Its request, if we placed that.
    pub request: Option<RequestKey>,
    /// The address of its server.
    pub server: String,
    /// When it began.
    pub began: Timestamp,
}

/// An attempt that its server has not finished. Dropped without an answer it has failed; dropped,
/// it is no longer pending.
struct UnderWay<H: Host> {
    vm: Rc<Vm<H>>,
    cluster: Shared<H>,
    attempt: sender::Attempt,
    answered: bool,
    /// Nobody waits for its answer any more.
    given_up: bool,
    /// Its answer is an error, as its headers say.
    erred: bool,
    /// What it is among the answers that have begun.
    answer: Option<AnswerId>,
}

/// An attempt under way, or the cluster that has not got its server any more.
type Begun<H> = Result<UnderWay<H>, Shared<H>>;

impl<H: Host> Attempt<H> {
    /// An attempt that has not begun.
    pub fn new(vm: &Rc<Vm<H>>, stream: H::Stream) -> Self {
        Self { vm: Rc::clone(vm), stream, key: None, under_way: None, elsewhere: None, phase: Phase::Elsewhere }
    }

    /// What the filter has noted of it, once it has begun.
    pub fn booked(&self) -> Option<Booked> {
        let under_way = self.under_way.as_ref()?;
        let cluster = under_way.cluster.borrow();
        let server = cluster.sender.endpoints().get(under_way.attempt.endpoint);
        let server = server.map(Endpoint::address).unwrap_or_default().to_owned();
        Some(Booked { request: self.key, server, began: under_way.attempt.began })
    }

    /// The request that this attempt belongs to; takes away what is left of its list.
    fn next(&mut self) -> Option<Next<RefCell<Cluster<H>>>> {
        let list = self.stream.header(Map::Request, ENDPOINTS)?;
        self.key = endpoints::decode_key(list.as_ref());
        let bare = endpoints::bare_key(list.as_ref());
        let next = self.key.and_then(|key| self.vm.requests.borrow_mut().attempt(key, bare.is_some()));
        if next.is_none() {
            // Not ours, of a request that is over, or of one that Envoy mirrors.
            drop(list);
            self.key = None;
            self.stream.remove_header(Map::Request, ENDPOINTS);
        } else if let Some(bare) = bare {
            drop(list);
            self.stream.set_header(Map::Request, ENDPOINTS, &bare);
        }
        next
    }

    /// Whether this attempt may not follow the one before: the number of its kind is used up, or
    /// the retry budget.
    fn is_one_too_many(&self, next: &Next<RefCell<Cluster<H>>>) -> bool {
        if next.may && next.after == Some(End::Silent) {
            let mut cluster = next.cluster.borrow_mut();
            if !cluster.sender.may_repeat() {
                cluster.counters.count(Sent::OverBudget);
                return true;
            }
        }
        !next.may
    }

    /// Answers in place of the server, with what Envoy would have answered after the attempt
    /// before; or, as that would end those that are under way, waits for them.
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

    fn begin(&self, next: Option<Next<RefCell<Cluster<H>>>>, ends: bool) -> Option<Begun<H>> {
        let Some(next) = next else { return self.begin_without_request(ends) };
        let turn = next.turn;
        let address = self.stream.text(Text::UpstreamAddress)?;
        let address = address.as_ref();
        if let Some(first) = next.first
            && is_at(&next.cluster, first, address)
        {
            // Not the time of the choice: a filter between the two may have waited.
            let now = self.vm.host.now();
            return self.begin_at(next.cluster, |to| to.begin_chosen(first, turn, now));
        }
        let (address, now) = (std::str::from_utf8(address).ok()?, self.vm.host.now());
        let is_known = next.cluster.borrow().sender.endpoints().find(address).is_some();
        let cluster = if next.first.is_none() && is_known {
            next.cluster
        } else {
            // Envoy does not know the server that was chosen; or another filter has sent the
            // request to another cluster, and then nobody is missing. (Where the request's own
            // cluster has a server of that address, it is taken for that one.)
            let cluster = self.vm.cluster_of(Some(next.plugin), &self.stream)?;
            if let Some(first) = next.first.filter(|_| Rc::ptr_eq(&cluster, &next.cluster)) {
                cluster.borrow_mut().sender.missing(first, now);
            }
            cluster
        };
        self.begin_at(cluster, |to| to.begin(address, turn, now))
    }

    /// An answer has come. If no attempt may follow it, Envoy's router is told so.
    fn end_retries(&self, report: Option<&LoadReport>, rejection: Option<Rejection>, status: Status) {
        let Some(key) = self.key else { return };
        let mut requests = self.vm.requests.borrow_mut();
        let bid = self.under_way.as_ref().and_then(|under_way| under_way.attempt.bid);
        let then = match (report, rejection) {
            (Some(report), Some(reason)) => {
                let then = requests.ended(key, End::Rejected, |retries| retries.rejected_for(reason, bid, report));
                if then == Then::Envoy || reason != Some(Reason::Unreachable) {
                    then
                } else {
                    // No application has failed, and none of our retries is left: the route's turn,
                    // as if there were no filters.
                    self.stream.remove_header(Map::Response, REJECT);
                    requests.ended_after_all(key, |retries| retries.may_fail() && self.may_repeat())
                }
            }
            _ => requests.ended(key, End::Answered, |retries| retries.may_fail() && self.may_repeat()),
        };
        let Then::Nothing { named } = then else { return };
        if (named || status.is_bad(&self.stream)) && self.stream.header(Map::Response, RATE_LIMITED).is_none() {
            self.stream.set_header(Map::Response, RATE_LIMITED, b"true");
            requests.mark(key);
        }
    }

    /// Whether the retry budget allows that this request is sent again.
    fn may_repeat(&self) -> bool {
        let Some(under_way) = &self.under_way else { return true };
        let mut cluster = under_way.cluster.borrow_mut();
        let may = cluster.sender.may_repeat();
        if !may {
            cluster.counters.count(Sent::OverBudget);
        }
        may
    }

    /// Begins an attempt that no filter of ours placed.
    fn begin_without_request(&self, ends: bool) -> Option<Begun<H>> {
        let address = self.stream.text(Text::UpstreamAddress)?;
        let address = std::str::from_utf8(address.as_ref()).ok()?;
        let cluster = self.vm.cluster_of(None, &self.stream)?;
        let turn = {
            let sender = &cluster.borrow().sender;
            let bids = sender.bids() && !body(&self.stream, ends).exceeds(sender.parameters().body_limit());
            bids.then(|| attempt_number(&self.stream)).flatten().map(|number| sender.turn(number))
        };
        let now = self.vm.host.now();
        self.begin_at(cluster, |to| to.begin(address, turn, now))
    }

    /// Begins an attempt to a server of this cluster; in vain if that is none of the cluster's any
    /// more, which then only counts it.
    fn begin_at(
        &self,
        cluster: Shared<H>,
        begin: impl FnOnce(&mut Sender) -> Option<sender::Attempt>,
    ) -> Option<Begun<H>> {
        let mut inner = cluster.borrow_mut();
        inner.counters.count(Sent::Attempts);
        let Some(attempt) = begin(&mut inner.sender) else {
            drop(inner);
            return Some(Err(cluster));
        };
        match attempt.right {
            Right::Chip => {}
            Right::Probe => inner.counters.count(Sent::Probes),
            Right::Forced => inner.counters.count(Sent::Forced),
        }
        drop(inner);
        let mut text = self.vm.text.borrow_mut();
        // Also without a bid: it tells the server that somebody reads its report.
        match attempt.bid {
            Some(bid) => bid::encode(bid, &mut text),
            None => {
                text.clear();
                text.push_str(bid::ANY);
            }
        }
        self.stream.set_header(Map::Request, BID, text.as_bytes());
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

/// What the status of an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// 1xx, 2xx or 3xx.
    Good,
    /// An error of the server's: 5xx, or its like over gRPC.
    Error,
    /// Another error.
    Bad,
}

impl Status {
    /// Reads it; `ends`: the answer ends with its headers, as an error over gRPC may.
    fn read(stream: &impl Stream, ends: bool) -> Self {
        let status = stream.header(Map::Response, ":status");
        match status.as_ref().map(AsRef::as_ref) {
            Some(b"200") if ends && is_grpc_error(stream, Map::Response) => Self::Error,
            Some([b'1'..=b'3', ..]) => Self::Good,
            Some([b'5', ..]) => Self::Error,
            _ => Self::Bad,
        }
    }

    /// Whether the answer may meet a route's retry condition. A good one is not marked: a route
    /// with the condition `envoy-ratelimited` would retry it for the mark alone.
    fn is_bad(self, stream: &impl Stream) -> bool {
        self != Self::Good || stream.header(Map::Response, GRPC_STATUS).is_some()
    }
}

/// Whether these headers or trailers say UNAVAILABLE or INTERNAL.
fn is_grpc_error(stream: &impl Stream, map: Map) -> bool {
    let status = stream.header(map, GRPC_STATUS);
    let status = status.as_ref().and_then(|status| std::str::from_utf8(status.as_ref()).ok());
    status.and_then(|status| status.trim().parse().ok()).is_some_and(|status| [UNAVAILABLE, INTERNAL].contains(&status))
}

fn reply(stream: &impl Stream, status: u32, grpc_status: i32) {
    stream.reply(Reply { status, grpc_status, details: "bloc_retries", headers: &[] });
}

/// Answers the attempts that wait in vain.
pub fn answer_due<H: Host>(vm: &Vm<H>) {
    let due = vm.requests.borrow_mut().due();
    for (stream, timed_out) in due {
        stream.in_own_context(|| reply_for_silence(&stream, timed_out));
    }
}

/// Answers as Envoy would after an attempt without an answer.
fn reply_for_silence(stream: &impl Stream, timed_out: bool) {
    reply(stream, if timed_out { GATEWAY_TIMEOUT } else { SERVICE_UNAVAILABLE }, UNAVAILABLE);
}

/// Whether this server has this address.
fn is_at<H: Host>(cluster: &Shared<H>, server: EndpointId, address: &[u8]) -> bool {
    let cluster = cluster.borrow();
    cluster.sender.endpoints().get(server).is_some_and(|server| server.address().as_bytes() == address)
}

/// The number of this attempt of its request; the first is 0.
fn attempt_number(stream: &impl Stream) -> Option<usize> {
    usize::try_from(stream.number(Number::Attempts)?.checked_sub(1)?).ok()
}

/// Counts how an attempt was answered.
fn count<H: Host>(cluster: &mut Cluster<H>, answer: &Answer) {
    let counted = match answer {
        Answer::Rejected(_) | Answer::Late(_) => Sent::Rejections,
        Answer::Bounced(_) => Sent::Bounces,
        Answer::Failed => Sent::Failures,
        Answer::GivenUp => Sent::GivenUp,
        Answer::Erred(_) => Sent::Errors,
        Answer::Served(_) | Answer::Orca(_) | Answer::Silent => return,
    };
    cluster.counters.count(counted);
}

impl<H: Host> UnderWay<H> {
    fn answer(&mut self, answer: Answer) {
        self.answered = true;
        let mut cluster = self.cluster.borrow_mut();
        count(&mut cluster, &answer);
        self.erred |= matches!(answer, Answer::Erred(_));
        cluster.sender.answer(&self.attempt, answer, self.vm.host.now());
    }
}

impl<H: Host> Drop for Attempt<H> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        match self.phase {
            Phase::Elsewhere => {}
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

impl<H: Host> Drop for UnderWay<H> {
    fn drop(&mut self) {
        crash::point(&self.vm.host, "attempt.done");
        if !self.answered {
            self.answer(if self.given_up { Answer::GivenUp } else { Answer::Failed });
        }
        if self.answer.is_none_or(|answer| self.vm.streams.end(answer)) {
            self.cluster.borrow_mut().sender.end(&self.attempt);
        }
    }
}

/// A rejection: its reason, none if this version does not know it.
type Rejection = Option<Reason>;

/// What the server says of itself, and whether it rejected the request.
fn said(stream: &impl Stream) -> (Option<LoadReport>, Option<Rejection>) {
    let report = stream.header(Map::Response, LOAD).and_then(|value| LoadReport::decode(value.as_ref()));
    let rejection = match report {
        // Not by one of ours: an application that says so would have its requests repeated.
        None => {
            stream.remove_header(Map::Response, REJECT);
            None
        }
        // A rejection never carries a chip.
        Some(LoadReport { chip: true, .. }) => None,
        Some(_) => stream.header(Map::Response, REJECT).map(|value| Reason::read(value.as_ref())),
    };
    (report, rejection)
}

impl<H: Host> Filter for Attempt<H> {
    fn request_headers(&mut self, ends: bool) -> Flow {
        crash::request(&self.vm.host, &self.stream, "attempt.request");
        let next = self.next();
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
            // Only where no attempt may follow it is the limit needed: the answer is then ours to
            // give.
            self.phase = Phase::Pending { limit: is_last.then(|| deadline(&self.stream)).flatten() };
        }
        Flow::Continue
    }

    fn response_headers(&mut self, _headers: usize, ends: bool) {
        let (vm, stream) = (&self.vm, &self.stream);
        crash::point(&vm.host, "attempt.response");
        if let (Some(key), Phase::Pending { .. }) = (self.key, self.phase) {
            self.phase = Phase::Elsewhere;
            if vm.requests.borrow_mut().came(key) {
                vm.pace.hurry(SOON);
            }
        }
        let (report, rejection) = said(stream);
        // A rejection has one status.
        let status = if rejection.is_some() { Status::Bad } else { Status::read(stream, ends) };
        if let Some(key) = self.key.filter(|_| status == Status::Good) {
            vm.requests.borrow_mut().satisfied(key);
        }
        self.end_retries(report.as_ref(), rejection, status);
        let refused = rejection.zip(report).map(|(reason, report)| match reason {
            Some(Reason::Bid) => Answer::Bounced(report),
            Some(Reason::Deadline) => Answer::Late(report),
            _ => Answer::Rejected(report),
        });
        let Some(under_way) = &mut self.under_way else {
            if let Some((cluster, answer)) = self.elsewhere.as_ref().zip(refused) {
                count(&mut cluster.borrow_mut(), &answer);
            }
            return;
        };
        under_way.answer(match (refused, report) {
            (Some(refused), _) => refused,
            (None, report) if status == Status::Error => Answer::Erred(report),
            (None, Some(report)) => Answer::Served(report),
            (None, None) => stream
                .header(Map::Response, ORCA)
                .and_then(|value| orca::decode(value.as_ref()))
                .map_or(Answer::Silent, Answer::Orca),
        });
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
        if is_grpc_error(&self.stream, Map::Trailers) {
            let mut cluster = under_way.cluster.borrow_mut();
            cluster.counters.count(Sent::Errors);
            cluster.sender.erred(&under_way.attempt, self.vm.host.now());
        }
    }
}
