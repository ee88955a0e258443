//! `bloc.outbound`: chooses the servers of a request, in order, and asks Envoy's router to try the
//! next one after a rejection.
//!
//! Envoy's router combines the retry conditions of the route with those in the request's headers,
//! and takes the number of retries from the header, if there is one. So the header gives the number
//! of retries in all, and `bloc.attempt` ends those of each kind
//! ([`bloc_policy::sender::retries`]).
//!
//! Fail-open: a request to a service without configuration, or without a known server, passes
//! without a list, and Envoy's fallback policy places it.

use crate::cluster::Sent;
use crate::clusters::Shared;
use crate::crash;
use crate::filter::{Filter, Flow};
use crate::host::{HeaderMap, Host, Reply, Stream, TextAttribute};
use crate::latency::Ended;
use crate::parameters::PluginId;
use crate::request_headers::body;
use crate::requests::{Begun, Course, End};
use crate::vm::Vm;
use crate::why;
use bloc_policy::config::ServiceParameters;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::decimal::write_integer;
use bloc_policy::wire::endpoints::{self, RequestKey};
use bloc_policy::wire::headers::{
    ENDPOINTS, MAX_RETRIES, ORCA, RATE_LIMITED, REJECT, RETRIABLE_HEADER_NAMES, RETRY_ON, WHY,
};
use bloc_policy::wire::reason::Reason;
use std::rc::Rc;
use std::time::Duration;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

/// The condition that a rejection meets.
const ON_REJECTION: &str = "retriable-headers";

/// The filter of one outgoing request.
pub struct OutboundRequest<H: Host> {
    vm: Rc<Vm<H>>,
    plugin: PluginId,
    stream: H::Stream,
    cluster: Option<Shared<H>>,
    key: Option<RequestKey>,
    /// Whether a response has come, from an attempt or from Envoy itself.
    responded: bool,
    /// When its servers were chosen.
    began: Timestamp,
}

impl<H: Host> OutboundRequest<H> {
    /// The filter, with this configuration, of a request whose headers have not come.
    pub fn new(vm: &Rc<Vm<H>>, plugin: PluginId, stream: H::Stream) -> Self {
        Self { vm: Rc::clone(vm), plugin, stream, cluster: None, key: None, responded: false, began: Timestamp::ZERO }
    }

    /// The key under which the attempts find this request, once it is placed.
    pub fn key(&self) -> Option<RequestKey> {
        self.key
    }

    /// Answers a request that no server would have answered in time.
    fn refuse(&self, overrun: Duration, explained: Option<String>) {
        // A client that returns when the queues have shrunk by `overrun` may be served in time.
        let seconds = (overrun.as_secs() + 1).to_string();
        let headers: Vec<_> = [("retry-after", seconds.as_str())]
            .into_iter()
            .chain(explained.as_deref().map(|text| (WHY, text)))
            .collect();
        let (status, grpc_status) = (SERVICE_UNAVAILABLE, UNAVAILABLE);
        self.stream.reply(Reply { status, grpc_status, details: "bloc_slo", headers: &headers });
    }

    /// How this request went so far.
    fn course(&self) -> Option<Course> {
        self.key.and_then(|key| self.vm.requests.borrow().course(key))
    }

    /// Whether this rejection is a bounce that Envoy might have retried: a server could have told
    /// it not to.
    fn is_bounced(&self) -> bool {
        let reason = self.stream.header(HeaderMap::Response, REJECT).map(|value| Reason::read(value.as_ref()));
        reason == Some(Some(Reason::Bid)) && self.stream.header(HeaderMap::Response, RATE_LIMITED).is_none()
    }

    /// Whether the answer that goes on to the application is a rejection.
    fn is_rejected(&self, course: Option<Course>) -> bool {
        // This spares most responses the host call. A response to a request without attempts may be
        // anything.
        course.is_some_and(|course| course.last == End::Rejected || course.attempts == 0)
            && self.stream.header(HeaderMap::Response, REJECT).is_some()
    }
}

impl<H: Host> Filter for OutboundRequest<H> {
    fn request_headers(&mut self, ends: bool) -> Flow {
        let (vm, stream) = (&self.vm, &self.stream);
        crash::request(&vm.host, stream, "outbound.request");
        self.cluster = vm.cluster_of(Some(self.plugin), stream);
        let Some(shared) = &self.cluster else {
            stream.remove_header(HeaderMap::Request, ENDPOINTS);
            return Flow::Continue;
        };
        let now = vm.host.now();
        vm.hand_over(now);
        let mut cluster = shared.borrow_mut();
        let first = cluster.choose(now, &mut *vm.rng.borrow_mut());
        if let Some(overrun) = cluster.sender.overrun() {
            cluster.counters.count(Sent::RefusedSlo);
            cluster.latencies.refuse();
            self.refuse(overrun, why::of_refusal(&cluster.sender, overrun));
            return Flow::Pause;
        }
        // Envoy could not retry a request with a larger body.
        let sender = &cluster.sender;
        let bids = !sender.bids() || !body(stream, ends).exceeds(sender.parameters().body_limit().into());
        let ours = sender.retries(0, bids).left();
        let retries = if ours > 0 {
            let own = requested_retries(stream).unwrap_or_else(|| route_retries(stream, sender.parameters()));
            sender.retries(own, bids)
        } else {
            // Envoy counts the retries, as without the filters.
            sender.retries(u32::MAX, false)
        };
        let named = ours > 0 && tidy_header_names(stream);
        let begun = Begun { plugin: self.plugin, cluster: Rc::clone(shared), first, retries, named };
        let key = vm.requests.borrow_mut().begin(begun);
        let mut list = vm.list.borrow_mut();
        endpoints::encode(cluster.sender.chosen(), key, &mut list);
        stream.set_header(HeaderMap::Request, ENDPOINTS, &list);
        if ours > 0 {
            ask_for_retries(stream, retries.left(), &mut vm.text.borrow_mut());
        }
        self.key = Some(key);
        self.began = now;
        Flow::Continue
    }

    fn response_headers(&mut self, _ends: bool) {
        crash::point(&self.vm.host, "outbound.response");
        let Some(cluster) = &self.cluster else {
            // The service has no configuration, but its response may carry a forged header.
            self.stream.remove_header(HeaderMap::Response, REJECT);
            return;
        };
        let course = self.course();
        if course.is_some_and(|course| course.marked) {
            self.stream.remove_header(HeaderMap::Response, RATE_LIMITED);
        }
        let exhausted = self.is_rejected(course);
        // Our filter marks the last answer; another was to be retried.
        let overflowed = exhausted && course.is_some_and(|course| !course.marked);
        if exhausted {
            let bounced = overflowed && self.is_bounced();
            self.stream.remove_header(HeaderMap::Response, REJECT);
            let mut cluster = cluster.borrow_mut();
            cluster.counters.count(Sent::RetriesExhausted);
            if overflowed {
                cluster.counters.count(Sent::RetriesOverflowed);
            }
            if bounced {
                cluster.sender.overflowed(self.vm.host.now());
            }
        }
        if let Some(course) = course.filter(|_| !self.responded) {
            // The response may be Envoy's own, or of a server that no longer belongs to the
            // cluster.
            let is_known = course.last != End::NoAnswer && course.answered > Timestamp::ZERO;
            let at = if is_known { course.answered } else { self.vm.host.now() };
            let failed = !exhausted && matches!(course.last, End::NoAnswer | End::Erred);
            let ended = Ended { began: self.began, at, attempts: course.attempts, failed, exhausted, overflowed };
            cluster.borrow_mut().latencies.end(ended);
        }
        self.responded = true;
        // With `orca` the header is from a sidecar; without, from the application.
        if cluster.borrow().sender.parameters().orca() {
            self.stream.remove_header(HeaderMap::Response, ORCA);
        }
    }
}

impl<H: Host> Drop for OutboundRequest<H> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.vm.requests.borrow_mut().end(key, self.responded);
        }
    }
}

/// How many retries the request itself asks for, if Envoy would read the number.
fn requested_retries(stream: &impl Stream) -> Option<u32> {
    let asked = stream.header(HeaderMap::Request, MAX_RETRIES)?;
    let asked: u64 = std::str::from_utf8(asked.as_ref()).ok()?.trim().parse().ok()?;
    // Envoy keeps the lower half, too.
    Some(asked as u32)
}

/// Whether the request names headers that make a response retriable. Envoy ignores such names
/// without the condition `retriable-headers`; as the filter adds that condition, it removes them.
fn tidy_header_names(stream: &impl Stream) -> bool {
    if stream.header(HeaderMap::Request, RETRIABLE_HEADER_NAMES).is_none() {
        return false;
    }
    let asks = stream.header(HeaderMap::Request, RETRY_ON).is_some_and(|conditions| {
        conditions.as_ref().split(|byte| *byte == b',').any(|one| one.trim_ascii() == ON_REJECTION.as_bytes())
    });
    if !asks {
        stream.remove_header(HeaderMap::Request, RETRIABLE_HEADER_NAMES);
    }
    asks
}

/// How many retries the route allows.
fn route_retries(stream: &impl Stream, parameters: &ServiceParameters) -> u32 {
    let path = if parameters.has_named_retries() { stream.text(TextAttribute::IstioRoute) } else { None };
    path.map_or(parameters.route_retries(), |path| parameters.retries_of(path.as_ref()))
}

/// Asks Envoy's router to retry rejections, too, with at most `most` retries in all.
fn ask_for_retries(stream: &impl Stream, most: u32, text: &mut String) {
    stream.add_header(HeaderMap::Request, RETRY_ON, ON_REJECTION.as_bytes());
    stream.add_header(HeaderMap::Request, RETRIABLE_HEADER_NAMES, REJECT.as_bytes());
    text.clear();
    write_integer(text, most.into());
    stream.set_header(HeaderMap::Request, MAX_RETRIES, text.as_bytes());
}
