//! `bloc.inbound`: admits, holds or rejects a request before the application sees it, and adds the
//! load report to each response to a caller with the filters.
//!
//! The plugin configuration names the service that the proxy stands in front of. If it does not,
//! the service comes from the metadata that Istio writes into each inbound cluster. So one
//! configuration serves every workload of a mesh, also one with several ports.
//!
//! A request counts from its headers to the end of its stream, however that ends, except while its
//! answer has begun and is idle (see [`crate::streams`]). Fail-open: without parameters, or without
//! a service, everything passes. The route configuration removes our headers from what the
//! application receives and sends: after this filter has read the request's, and before it adds the
//! response's.

use crate::crash;
use crate::filter::{Filter, Flow};
use crate::host::{HeaderMap, Host, NumberAttribute, RESOURCE_EXHAUSTED, Reply, Stream, TOO_MANY_REQUESTS};
use crate::parameters::PluginId;
use crate::queue::Waits;
use crate::request_headers::{body, deadline, to_be_read};
use crate::service::{Answered, Served};
use crate::services::Shared;
use crate::status::{Status, application_is_unreachable};
use crate::streams::{AnswerId, Counted};
use crate::vm::Vm;
use crate::why;
use bloc_policy::server::Server;
use bloc_policy::server::steps::{Admitted, Inside};
use bloc_policy::units::{Concurrency, Timestamp};
use bloc_policy::wire::bid::{Bid, Caller};
use bloc_policy::wire::body::Body;
use bloc_policy::wire::headers::{BID, LOAD, ORCA, REJECT, WHY};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The tick period in case this thread's message to itself, to look at a body, is lost.
const TICK_IN_CASE: Duration = Duration::from_millis(250);

/// One request, shared by the queue and its own context.
struct Request<H: Host> {
    vm: Rc<Vm<H>>,
    /// Its configuration.
    plugin: PluginId,
    stream: H::Stream,
    service: Shared<H>,
    /// Whether the caller has these filters. Others get no header of ours: nothing would remove it
    /// before the calling application.
    has_filters: bool,
    /// Whether it has ended with its headers.
    ends: bool,
    stage: RefCell<Stage>,
}

#[derive(Default)]
enum Stage {
    /// Not handled: its headers have not come, or there are no parameters. Or it has ended.
    #[default]
    Untouched,
    /// In the queue. `limit`: the most bytes that may be held of a body that is not known to be
    /// small. `ends`: why it is rejected if it waits for too long.
    Waiting { admitted: Admitted, limit: Option<u64>, ends: Reason },
    /// Passed to the application. `place`: whether it has a place in the limiter.
    Inside { inside: Inside, place: bool },
    /// Answered by the application. `answer`: its entry among the answers that have begun; none if
    /// the answer ended with its headers.
    Answered { place: bool, answer: Option<AnswerId> },
    /// Rejected, and no longer counted. It is answered when `bytes` of it have come.
    Rejected { refusal: Refusal, bytes: u64 },
    /// Answered by this filter, and no longer counted.
    Replied,
}

/// Why a request is rejected, with `others` in flight. `held`: after it has waited.
#[derive(Clone, Copy)]
struct Refusal {
    reason: Reason,
    others: Concurrency,
    held: bool,
}

impl<H: Host> Waits for Request<H> {
    fn enter(&self, now: Timestamp) {
        let stage = match self.stage.take() {
            Stage::Waiting { admitted, .. } => {
                let inside = self.service.borrow_mut().hand_over(self.plugin, admitted, true, now);
                Stage::Inside { inside, place: true }
            }
            other => other,
        };
        self.stage.replace(stage);
    }

    fn may_grow(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Waiting { limit: Some(_), .. })
    }

    fn has_grown(&self) -> bool {
        let Stage::Waiting { limit: Some(limit), .. } = *self.stage.borrow() else { return false };
        self.stream.number(NumberAttribute::RequestBytes).is_some_and(|bytes| bytes > limit)
    }

    fn has_come(&self) -> bool {
        let Stage::Rejected { bytes, .. } = *self.stage.borrow() else { return false };
        self.stream.number(NumberAttribute::RequestBytes).is_none_or(|come| come >= bytes)
    }

    fn give_up(self: Rc<Self>) {
        match self.stage.take() {
            Stage::Waiting { ends: reason, .. } => {
                let others = self.service.borrow().others();
                self.reject(Refusal { reason, others, held: true });
            }
            Stage::Rejected { refusal, .. } => self.answer(refusal),
            other => {
                self.stage.replace(other);
            }
        }
    }
}

impl<H: Host> Request<H> {
    /// Decides about a request that has come.
    fn arrive(self: &Rc<Self>, bid: Option<Bid>) -> Flow {
        let vm = &self.vm;
        if self.service.borrow().servers.get(self.plugin).is_none() {
            return Flow::Continue;
        }
        let now = vm.host.now();
        vm.hand_over(now);
        let mut borrowed = self.service.borrow_mut();
        let service = &mut *borrowed;
        // With traffic, a thread looks in time even if its ticks are late.
        service.tick_count(now);
        service.add(1);
        crash::point(&vm.host, "inbound.arrive");
        // Two threads may do this at the same time. Then both see the higher count: at worst both
        // reject, and never do they admit one too many.
        let others = service.others();
        let deadline = deadline(&self.stream);
        let Some(server) = service.servers.get_mut(self.plugin) else { return Flow::Continue };
        let verdict = server.arrive(others, bid, deadline, &service.threads, now);
        let (places, capacity) = (server.places(), server.capacity());
        let (max_hold, ends) = server.max_hold(bid, deadline);
        let body_limit = u64::from(server.parameters().body_limit());
        service.last = Some(self.plugin);
        service.show_capacity(capacity);
        let admitted = match verdict {
            Ok(admitted) => admitted,
            Err(reason) => {
                hurry(vm, service.tick_period(now));
                drop(borrowed);
                Rc::clone(self).reject(Refusal { reason, others, held: false });
                return Flow::Pause;
            }
        };
        service.counters.count(Served::Admitted);
        service.latencies.arrive(now);
        let Some(places) = places.filter(|places| !service.queue.arrive(*places, now)) else {
            let inside = service.hand_over(self.plugin, admitted, false, now);
            self.stage.replace(Stage::Inside { inside, place: places.is_some() });
            hurry(vm, service.tick_period(now));
            return Flow::Continue;
        };
        let body = body(&self.stream, self.ends);
        if body.exceeds(body_limit) {
            // If held, it could fill the flow-control window of its connection, and stop requests
            // inside.
            let turns = service.queue.enter_over_limit(now);
            let inside = service.hand_over(self.plugin, admitted, false, now);
            self.stage.replace(Stage::Inside { inside, place: true });
            hurry(vm, service.tick_period(now));
            drop(borrowed);
            turns.take(now);
            return Flow::Continue;
        }
        service.counters.count(Served::Held);
        let limit = (body == Body::Call).then_some(body_limit);
        self.stage.replace(Stage::Waiting { admitted, limit, ends });
        let waits: Rc<dyn Waits> = Rc::clone(self) as Rc<dyn Waits>;
        service.queue.hold(self.plugin, vm.held.hold(&self.stream), &waits, places, now.after(max_hold));
        hurry(vm, service.tick_period(now));
        Flow::Pause
    }

    /// Rejects a request that is counted as in flight. If it is HTTP/1.1 and its body is on its
    /// way, it is answered when the body has come: an earlier answer would cost the connection.
    fn reject(self: Rc<Self>, refusal: Refusal) {
        let mut service = self.service.borrow_mut();
        service.add(-1);
        let server = service.servers.get(self.plugin);
        let Some(bytes) =
            server.and_then(|server| to_be_read(&self.stream, server.parameters().body_limit().into(), self.ends))
        else {
            drop(service);
            return self.answer(refusal);
        };
        self.stage.replace(Stage::Rejected { refusal, bytes });
        let held = self.vm.held.hold(&self.stream);
        let request: Rc<dyn Waits> = Rc::clone(&self) as Rc<dyn Waits>;
        service.queue.read(self.plugin, held, &request, self.vm.host.now());
        self.vm.pace.hurry(TICK_IN_CASE);
    }

    /// Answers a request that was rejected and is not counted.
    fn answer(&self, Refusal { reason, others, held }: Refusal) {
        let mut service = self.service.borrow_mut();
        self.stage.replace(Stage::Replied);
        let (status, grpc_status) = (TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED);
        let (event, details) = match reason {
            Reason::Capacity => (Served::RejectedCapacity, "bloc_capacity"),
            Reason::Bid => (Served::RejectedBid, "bloc_bid"),
            Reason::Deadline => (Served::RejectedDeadline, "bloc_deadline"),
            Reason::Unreachable => (Served::RejectedUnreachable, "bloc_unreachable"),
        };
        let Some(server) = service.servers.get(self.plugin) else {
            // Its parameters were removed while it waited.
            self.stream.reply(Reply { status, grpc_status, details, headers: &[] });
            return;
        };
        let (report, orca) = (LoadReport { held, ..server.bare_report(others) }, server.orca());
        let explained = if self.has_filters {
            None
        } else {
            why::for_caller_without_filters(server, &self.stream, reason, &report)
        };
        service.counters.count(event);
        let (mut load, mut utilization) = (String::new(), String::new());
        let mut headers = Vec::with_capacity(3);
        if self.has_filters {
            report.encode(&mut load);
            headers.extend([(REJECT, reason.as_str()), (LOAD, &*load)]);
        }
        if orca && orca::encode(&report, &mut utilization) {
            headers.push((ORCA, &utilization));
        }
        headers.extend(explained.as_deref().map(|text| (WHY, text)));
        self.stream.reply(Reply { status, grpc_status, details, headers: &headers });
    }

    /// The load report for a response from the application or Envoy. A response of this filter has
    /// one already. Marks a response that amounts to a rejection.
    fn answered(&self, ends: bool) -> Option<LoadReport> {
        let answered = |place| {
            let counted = || Counted::Inbound { service: Rc::clone(&self.service), plugin: self.plugin, place };
            let answer = (!ends).then(|| self.vm.streams.begin(&self.stream, counted()));
            self.stage.replace(Stage::Answered { place, answer });
        };
        let (admitted, reads) = match self.stage.take() {
            Stage::Inside { inside, place } => {
                let status = Status::read(&self.stream, ends);
                let unsent = self.has_filters && status.is_unavailable() && application_is_unreachable(&self.stream);
                answered(place);
                if unsent {
                    self.stream.set_header(HeaderMap::Response, REJECT, Reason::Unreachable.as_str().as_bytes());
                    return self.service.borrow_mut().unreached(self.plugin, inside);
                }
                (Some(Answered { inside, tells_speed: status.tells_speed() }), self.has_filters)
            }
            // Envoy answered first, for example after a timeout.
            Stage::Waiting { .. } => {
                let now = self.vm.host.now();
                let turns = self.service.borrow_mut().queue.cancel(&self.stream, now);
                self.stage.replace(Stage::Answered { place: false, answer: None });
                turns.take(now);
                (None, self.has_filters)
            }
            // A request that came before the parameters is not counted, and reports nothing.
            other @ (Stage::Untouched | Stage::Answered { .. } | Stage::Replied) => {
                self.stage.replace(other);
                return None;
            }
            Stage::Rejected { .. } => {
                self.service.borrow_mut().queue.stop_reading(&self.stream);
                self.stage.replace(Stage::Replied);
                return None;
            }
        };
        self.service.borrow_mut().answered(self.plugin, admitted, reads, &mut *self.vm.rng.borrow_mut())
    }

    /// The stream has ended: the request no longer counts, and its place is passed on.
    fn end(&self) {
        let now = || self.vm.host.now();
        let (counted, place) = match self.stage.take() {
            Stage::Untouched | Stage::Replied => (false, false),
            Stage::Rejected { .. } => {
                self.service.borrow_mut().queue.stop_reading(&self.stream);
                (false, false)
            }
            Stage::Waiting { .. } => {
                let now = now();
                let turns = self.service.borrow_mut().queue.cancel(&self.stream, now);
                turns.take(now);
                (true, false)
            }
            Stage::Inside { inside, place } => {
                self.service.borrow_mut().leave(self.plugin, inside);
                (true, place)
            }
            Stage::Answered { place, answer } => {
                let counted = answer.is_none_or(|answer| self.vm.streams.end(answer));
                (counted, counted && place)
            }
        };
        if counted {
            self.service.borrow_mut().add(-1);
        }
        if place {
            let now = now();
            let turns = self.service.borrow_mut().queue.leave(now);
            turns.take(now);
        }
    }
}

/// Asks for the ticks that a service needs.
fn hurry<H: Host>(vm: &Vm<H>, period: Option<Duration>) {
    if let Some(period) = period {
        vm.pace.hurry(period);
    }
}

/// The filter of one incoming request.
pub struct InboundRequest<H: Host> {
    vm: Rc<Vm<H>>,
    plugin: PluginId,
    stream: H::Stream,
    /// The service that the plugin configuration names.
    named: Option<Shared<H>>,
    /// None until its headers have come, and if it belongs to no service.
    request: Option<Rc<Request<H>>>,
}

impl<H: Host> InboundRequest<H> {
    /// The filter, with this configuration, of a request to this service (none: to that of the
    /// cluster that it is routed to).
    pub fn new(vm: &Rc<Vm<H>>, plugin: PluginId, stream: H::Stream, named: Option<Shared<H>>) -> Self {
        Self { vm: Rc::clone(vm), plugin, stream, named, request: None }
    }
}

impl<H: Host> Filter for InboundRequest<H> {
    fn request_headers(&mut self, ends: bool) -> Flow {
        crash::request(&self.vm.host, &self.stream, "inbound.request");
        let caller = {
            let bid = self.stream.header(HeaderMap::Request, BID);
            Caller::of(bid.as_ref().map(AsRef::as_ref))
        };
        let service = self.named.take().or_else(|| self.vm.service_behind(&self.stream));
        let Some(service) = service else { return Flow::Continue };
        let request = Rc::new(Request {
            vm: Rc::clone(&self.vm),
            plugin: self.plugin,
            stream: self.stream.clone(),
            service,
            has_filters: caller.has_filters,
            ends,
            stage: RefCell::default(),
        });
        let flow = request.arrive(caller.bid);
        self.request = Some(request);
        flow
    }

    fn response_headers(&mut self, ends: bool) {
        crash::point(&self.vm.host, "inbound.response");
        let Some(request) = &self.request else { return };
        let Some(report) = request.answered(ends) else { return };
        let mut text = self.vm.text.borrow_mut();
        if request.has_filters {
            report.encode(&mut text);
            self.stream.set_header(HeaderMap::Response, LOAD, text.as_bytes());
        }
        let orca = request.service.borrow().servers.get(self.plugin).is_some_and(Server::orca);
        if orca && orca::encode(&report, &mut text) {
            self.stream.set_header(HeaderMap::Response, ORCA, text.as_bytes());
        }
    }
}

impl<H: Host> Drop for InboundRequest<H> {
    fn drop(&mut self) {
        crash::point(&self.vm.host, "inbound.done");
        if let Some(request) = &self.request {
            request.end();
        }
    }
}
