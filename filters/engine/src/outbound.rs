//! `bloc.outbound`: chooses the servers of a request, in order, and asks Envoy's router to try the
//! next one after a rejection.
//!
//! On failure: open. A service that nobody configured, or one without a known server, goes on
//! without a list, and Envoy's fallback policy places it.

use crate::body::body;
use crate::cluster::Sent;
use crate::clusters::Shared;
use crate::crash;
use crate::filter::{Filter, Flow};
use crate::host::{Host, Map, Reply, Stream};
use crate::parameters::PluginId;
use crate::vm::Vm;
use crate::why;
use bloc_policy::wire::decimal::write_integer;
use bloc_policy::wire::endpoints::{self, RequestKey};
use bloc_policy::wire::headers::{ENDPOINTS, MAX_RETRIES, ORCA, REJECT, RETRIABLE_HEADER_NAMES, RETRY_ON, WHY};
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

/// What is safe to send again: a rejection came before the application saw the request, the others
/// before a server got it at all.
const SAFE_RETRIES: &str = "retriable-headers,connect-failure,refused-stream";
/// What the retry budget always leaves.
const FREE_RETRIES: &str = "retriable-headers";

/// The filter of one request on its way out.
pub struct OutboundRequest<H: Host> {
    vm: Rc<Vm<H>>,
    plugin: PluginId,
    stream: H::Stream,
    cluster: Option<Shared<H>>,
    key: Option<RequestKey>,
}

impl<H: Host> OutboundRequest<H> {
    /// A request that has not come yet, to a filter with this configuration.
    pub fn new(vm: &Rc<Vm<H>>, plugin: PluginId, stream: H::Stream) -> Self {
        Self { vm: Rc::clone(vm), plugin, stream, cluster: None, key: None }
    }

    /// Under which key the attempts find this request, once it was placed.
    pub fn key(&self) -> Option<RequestKey> {
        self.key
    }

    /// Answers a request that no server would have answered in time.
    fn refuse(&self, overrun: Duration, explained: Option<String>) {
        // Whoever comes back when the queues have shrunk by as much may be served in time.
        let seconds = (overrun.as_secs() + 1).to_string();
        let headers: Vec<_> = [("retry-after", seconds.as_str())]
            .into_iter()
            .chain(explained.as_deref().map(|text| (WHY, text)))
            .collect();
        let (status, grpc_status) = (SERVICE_UNAVAILABLE, UNAVAILABLE);
        self.stream.reply(Reply { status, grpc_status, details: "bloc_slo", headers: &headers });
    }

    /// Whether the answer that goes on to the application is a rejection.
    fn is_rejected(&self) -> bool {
        let course = self.key.and_then(|key| self.vm.requests.borrow().course(key));
        // Nearly all are none of ours to look at. An answer without an attempt that was seen may be
        // anything.
        course.is_some_and(|course| course.rejected || course.attempts == 0)
            && self.stream.header(Map::Response, REJECT).is_some()
    }
}

impl<H: Host> Filter for OutboundRequest<H> {
    fn request_headers(&mut self, ends: bool) -> Flow {
        let (vm, stream) = (&self.vm, &self.stream);
        crash::request(&vm.host, stream, "outbound.request");
        self.cluster = vm.cluster_of(Some(self.plugin), stream);
        let Some(shared) = &self.cluster else {
            stream.remove_header(Map::Request, ENDPOINTS);
            return Flow::Continue;
        };
        let now = vm.host.now();
        vm.hand_over(now);
        let mut cluster = shared.borrow_mut();
        let first = cluster.choose(now, &mut *vm.rng.borrow_mut());
        if let Some(overrun) = cluster.sender.overrun() {
            cluster.counters.count(Sent::RefusedSlo);
            self.refuse(overrun, why::of_refusal(&cluster.sender, overrun));
            return Flow::Pause;
        }
        // Envoy could not repeat it.
        let sender = &cluster.sender;
        let bids = !sender.bids() || !body(stream, ends).exceeds(sender.parameters().body_limit());
        let key = vm.requests.borrow_mut().begin(self.plugin, shared, first, bids);
        let mut list = vm.list.borrow_mut();
        endpoints::encode(cluster.sender.chosen(), key, &mut list);
        stream.set_header(Map::Request, ENDPOINTS, &list);
        let mut text = vm.text.borrow_mut();
        let retries = cluster.sender.retries();
        if cluster.sender.retries_failures() {
            ask_for_retries(stream, retries, &mut text);
        } else {
            ask_for_free_retries(stream, retries, &mut text);
        }
        self.key = Some(key);
        Flow::Continue
    }

    fn response_headers(&mut self, _headers: usize, _ends: bool) {
        crash::point(&self.vm.host, "outbound.response");
        let Some(cluster) = &self.cluster else {
            // Nobody configured the service, but what answers for it may lie all the same.
            self.stream.remove_header(Map::Response, REJECT);
            return;
        };
        if self.is_rejected() {
            self.stream.remove_header(Map::Response, REJECT);
            cluster.borrow_mut().counters.count(Sent::RetriesExhausted);
        }
        // With `orca` it is the sidecars' own; without, an application's.
        if cluster.borrow().sender.parameters().orca() {
            self.stream.remove_header(Map::Response, ORCA);
        }
    }
}

impl<H: Host> Drop for OutboundRequest<H> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.vm.requests.borrow_mut().end(key);
        }
    }
}

/// Asks Envoy's router for retries after a rejection, beside those that the application asked for.
fn ask_for_retries(stream: &impl Stream, retries: u32, text: &mut String) {
    text.clear();
    let mut most = retries;
    let own = stream.header(Map::Request, RETRY_ON);
    match own.as_ref().and_then(|own| std::str::from_utf8(own.as_ref()).ok()) {
        Some(own) => {
            let _ = write!(text, "{own},{SAFE_RETRIES}");
            stream.set_header(Map::Request, RETRY_ON, text.as_bytes());
            let asked = stream.header(Map::Request, MAX_RETRIES);
            let asked = asked.and_then(|value| std::str::from_utf8(value.as_ref()).ok()?.parse().ok());
            most = most.max(asked.unwrap_or(1));
        }
        None => stream.set_header(Map::Request, RETRY_ON, SAFE_RETRIES.as_bytes()),
    }
    ask_for(stream, most, text);
}

/// The retry budget is used up: asks for retries after a rejection only.
fn ask_for_free_retries(stream: &impl Stream, retries: u32, text: &mut String) {
    stream.set_header(Map::Request, RETRY_ON, FREE_RETRIES.as_bytes());
    ask_for(stream, retries, text);
}

fn ask_for(stream: &impl Stream, retries: u32, text: &mut String) {
    stream.set_header(Map::Request, RETRIABLE_HEADER_NAMES, REJECT.as_bytes());
    text.clear();
    write_integer(text, retries.into());
    stream.set_header(Map::Request, MAX_RETRIES, text.as_bytes());
}
