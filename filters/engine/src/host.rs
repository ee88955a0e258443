//! What the filters need from a proxy: the traits that each binding implements.
//!
//! A [`Host`] is one worker thread of the proxy. A [`Stream`] is one request (or one attempt) as a
//! filter sees it. Both are handles, cheap to clone. Each worker thread has a VM of its own. No
//! method fails or panics: where the proxy has no value, a binding returns `None`, an empty string
//! or 0. No method re-enters a filter, except [`Stream::resume`] and [`Stream::in_own_context`].

use bloc_policy::proxy::shared::Shared;
use bloc_policy::units::Timestamp;
use std::hash::Hash;
use std::time::Duration;

/// One of a stream's header maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMap {
    /// The request's headers.
    Request,
    /// The response's headers; only in and after the callback for response headers.
    Response,
    /// The response's trailers; only in the callback for them.
    Trailers,
}

/// The text attributes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAttribute {
    /// The cluster that the request is routed to.
    ClusterName,
    /// `ip:port` of the server that the proxy has chosen for an attempt.
    UpstreamAddress,
    /// The HTTP version of the request: `HTTP/1.1`.
    Protocol,
    /// The DNS name of the service of the inbound cluster, from Istio's metadata.
    IstioService,
    /// The Kubernetes resource path of the VirtualService behind the route, from Istio's metadata
    /// (`istio.config`).
    IstioRoute,
}

/// The numeric attributes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberAttribute {
    /// Envoy's response flags, one bit each.
    ResponseFlags,
    /// Attempts of the request so far, including this one.
    Attempts,
    /// Bytes of the request received so far. They go on arriving while it is paused. Envoy counts
    /// the headers as long as they can be read; callers subtract them.
    RequestBytes,
    /// Bytes of the request's headers alone, as `RequestBytes` counts them.
    RequestHeaderBytes,
    /// Bytes of the response sent so far, headers included.
    ResponseBytes,
}

/// The kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// The HTTP status of a rejection.
pub const TOO_MANY_REQUESTS: u32 = 429;
/// The gRPC status of a rejection.
pub const RESOURCE_EXHAUSTED: i32 = 8;

/// A response that a filter sends in place of the upstream's.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub status: u32,
    /// The gRPC status, which a gRPC caller gets in a trailers-only response.
    pub grpc_status: i32,
    /// What shows up as `%RESPONSE_CODE_DETAILS%`.
    pub details: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
}

/// A POST that the filters themselves send.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The value of `:authority`.
    pub authority: &'a str,
    /// The path.
    pub path: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, JSON.
    pub body: &'a [u8],
    /// After this time the call fails: its answer has no status. Other failures look the same.
    pub timeout: Duration,
}

/// The response to a [`Post`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostAnswer {
    /// The value of `:status`.
    pub status: Vec<u8>,
    /// The value of `retry-after`.
    pub retry_after: Option<Vec<u8>>,
    /// The replica of the control plane that answered
    /// ([`REPLICA_HEADER`](bloc_policy::sync::REPLICA_HEADER)).
    pub replica: Option<Vec<u8>>,
    /// The body.
    pub body: Vec<u8>,
}

impl PostAnswer {
    /// `retry-after` in seconds; none for a date.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = std::str::from_utf8(self.retry_after.as_ref()?).ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }
}

/// One worker thread of a proxy. [`Shared`] is the data that all its threads share.
pub trait Host: Shared + Clone + 'static {
    /// The requests and attempts of this thread.
    type Stream: Stream;
    /// The handle of a metric.
    type Metric: Copy + 'static;

    /// The monotonic clock, the same for all threads of the proxy.
    fn now(&self) -> Timestamp;
    /// Eight random bytes from the proxy.
    fn entropy(&self) -> u64;
    /// The size of this thread's Wasm memory, in pages of 64 KiB; 0 without one.
    fn memory_pages(&self) -> u64;
    /// The ID of the proxy's node.
    fn node(&self) -> String;

    /// Defines a metric, or finds the one of that name; all threads share it.
    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Self::Metric>;
    /// Adds to a metric; atomic.
    fn add_to_metric(&self, metric: Self::Metric, offset: i64);
    /// Sets a gauge.
    fn set_metric(&self, metric: Self::Metric, value: u64);
    /// Reads a metric; 0 if the proxy does not know it.
    fn metric(&self, metric: Self::Metric) -> u64;

    /// Opens a message queue for this thread under the number `vm`; its messages arrive at the root
    /// context `root`.
    fn register_queue(&self, root: u32, vm: u64);
    /// Sends a message to the thread that has registered this number, which may be this one.
    fn wake(&self, vm: u64, message: &[u8]);

    /// Sends a call; none if the proxy refuses it. The answer arrives at the root context of the
    /// callback that runs now, with the token that this returns.
    fn post(&self, post: Post<'_>) -> Option<u32>;

    /// Makes this root context tick every `period` (zero: never). May be called from the callback
    /// of any context of this thread.
    fn set_tick_period(&self, root: u32, period: Duration);
}

/// A request, or one attempt of it. Methods are called in the stream's own callback unless they say
/// otherwise.
pub trait Stream: Clone + Eq + Hash + 'static {
    /// A value, borrowed from the proxy if possible.
    type Bytes<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// A header's value; the first if there are several. Do not keep it while headers change.
    fn header(&self, map: HeaderMap, name: &str) -> Option<Self::Bytes<'_>>;
    /// Sets a header; replaces all of that name.
    fn set_header(&self, map: HeaderMap, name: &str, value: &[u8]);
    /// Adds a header. For Envoy's inline headers, appends a comma and the value.
    fn add_header(&self, map: HeaderMap, name: &str, value: &[u8]);
    /// Removes all headers of that name.
    fn remove_header(&self, map: HeaderMap, name: &str);
    /// A text attribute, not necessarily UTF-8; none if the stream lacks it.
    fn text(&self, text: TextAttribute) -> Option<Self::Bytes<'_>>;
    /// A numeric attribute; none if the stream lacks it.
    fn number(&self, number: NumberAttribute) -> Option<u64>;
    /// Answers the request. Only in a callback of this stream, which must then pause the request,
    /// or in [`in_own_context`](Self::in_own_context).
    fn reply(&self, reply: Reply<'_>);

    /// Resumes a paused request. May be called from the callback of any context of this thread.
    /// Filters may run meanwhile, so hold no borrow across it.
    fn resume(&self);
    /// Runs `work` in the context of this paused request, so that `work` can read it and reply.
    /// May be called from the callback of any context of this thread; hold no borrow across it.
    fn in_own_context(&self, work: impl FnOnce());
}
