//! What the filters need from a proxy: the traits that each binding implements.
//!
//! A [`Host`] is one worker thread of the proxy. A [`Stream`] is one request (or one attempt) as a
//! filter sees it. Both are handles, cheap to clone; for Proxy-Wasm they are empty or a number. No
//! call fails or panics: a binding returns nothing where its proxy has nothing. No call runs a
//! filter before it returns, except those that are documented as the last of a callback.

use bloc_policy::proxy::shared::Shared;
use bloc_policy::units::Timestamp;
use std::hash::Hash;
use std::time::Duration;

/// One of a stream's header maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// The request's.
    Request,
    /// The response's; only in and after the response's callback.
    Response,
    /// The response's trailers; only in their callback.
    Trailers,
}

/// What a proxy knows of a stream, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The cluster that the request is routed to.
    ClusterName,
    /// `ip:port` of the server that the proxy has chosen for an attempt.
    UpstreamAddress,
    /// The HTTP version of the request: `HTTP/1.1`.
    Protocol,
    /// The host of the service that owns the inbound cluster, according to Istio.
    IstioService,
    /// The path of the object from which Istio made the route.
    IstioRoute,
}

/// What a proxy knows of a stream, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Envoy's response flags, one bit each.
    ResponseFlags,
    /// Attempts of the request so far, including this one.
    Attempts,
    /// Bytes of the request received so far, also while it is paused: of its headers, as long as
    /// they can be read, and of its body.
    RequestBytes,
    /// Bytes of the request's headers alone, as `RequestBytes` counts them.
    RequestHeaderBytes,
    /// Bytes of the response sent so far, likewise.
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

/// The statuses of a rejection, over HTTP and over gRPC.
pub const TOO_MANY_REQUESTS: u32 = 429;
/// See [`TOO_MANY_REQUESTS`].
pub const RESOURCE_EXHAUSTED: i32 = 8;

/// A response that a filter sends in place of the upstream's.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub status: u32,
    /// The gRPC status, in a trailers-only response.
    pub grpc_status: i32,
    /// What shows up as `%RESPONSE_CODE_DETAILS%`.
    pub details: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
}

/// Our own call to a cluster.
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
    /// After this time no answer comes.
    pub timeout: Duration,
}

/// The answer to a [`Post`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostAnswer {
    /// The value of `:status`.
    pub status: Vec<u8>,
    /// The value of `retry-after`.
    pub retry_after: Option<Vec<u8>>,
    /// The value of [`REPLICA_HEADER`](bloc_policy::sync::REPLICA_HEADER).
    pub replica: Option<Vec<u8>>,
    /// The body.
    pub body: Vec<u8>,
}

impl PostAnswer {
    /// How long the server asks to be left alone, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = std::str::from_utf8(self.retry_after.as_ref()?).ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }
}

/// One worker thread of a proxy. [`Shared`] is the data that all its threads share.
pub trait Host: Shared + Clone + 'static {
    /// The requests and attempts of this thread.
    type Stream: Stream;
    /// Names a metric.
    type Metric: Copy + 'static;

    /// The monotonic clock, the same for all threads of the proxy.
    fn now(&self) -> Timestamp;
    /// Eight bytes of the host's entropy.
    fn entropy(&self) -> u64;
    /// The size of this worker's own memory, in pages of 64 KiB; 0 if it has none.
    fn memory_pages(&self) -> u64;
    /// The proxy's name in its mesh.
    fn node(&self) -> String;

    /// Defines a metric, or finds the one of that name; all threads share it.
    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Self::Metric>;
    /// Adds to a metric; atomic.
    fn add_to_metric(&self, metric: Self::Metric, offset: i64);
    /// Sets a gauge.
    fn set_metric(&self, metric: Self::Metric, value: u64);
    /// Reads a metric; 0 if there is none.
    fn metric(&self, metric: Self::Metric) -> u64;

    /// From now on, messages to the VM with this number arrive at this root context.
    fn register_queue(&self, root: u32, vm: u64);
    /// Sends a message to the VM with this number, which may be this one.
    fn wake(&self, vm: u64, message: &[u8]);

    /// Sends a call; the answer arrives at the current root context. Returns its token if the proxy
    /// accepted it.
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

    /// A header's value; the first if there are several. Must not be used after a header has
    /// changed.
    fn header(&self, map: Map, name: &str) -> Option<Self::Bytes<'_>>;
    /// Sets a header; replaces all of that name.
    fn set_header(&self, map: Map, name: &str, value: &[u8]);
    /// Adds a header. Where Envoy keeps only one header of that name, appends to its value after a
    /// comma.
    fn add_header(&self, map: Map, name: &str, value: &[u8]);
    /// Removes all headers of that name.
    fn remove_header(&self, map: Map, name: &str);
    /// A text, not necessarily UTF-8; none if the proxy has none.
    fn text(&self, text: Text) -> Option<Self::Bytes<'_>>;
    /// A number.
    fn number(&self, number: Number) -> Option<u64>;
    /// Answers the request. Only in its own callback, which must then pause it.
    fn reply(&self, reply: Reply<'_>);

    /// Resumes a paused request. May be called from the callback of any context of this thread, as
    /// one of its last calls.
    fn resume(&self);
    /// Runs `work` in the context of this paused request, to answer it and to read what that takes.
    /// May be called from the callback of any context of this thread, as one of its last calls.
    fn in_own_context(&self, work: impl FnOnce());
}
