//! What the filters need of a proxy: the traits that each binding implements.
//!
//! A [`Host`] is one worker thread of the proxy, a [`Stream`] is one request (or one attempt) as a
//! filter sees it. Both are handles, cheap to clone; for Proxy-Wasm they are empty or a number.
//! Nothing here fails: a binding answers with nothing where its proxy has nothing, and never
//! panics. No call runs a filter before it returns, except the last ones of a callback, which say
//! so.

use bloc_policy::shared::Shared;
use bloc_policy::units::Timestamp;
use std::hash::Hash;
use std::time::Duration;

/// Whose headers are meant.
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
    /// In which version of HTTP the request came: `HTTP/1.1`.
    Protocol,
    /// The host of the service to which Istio says that the inbound cluster belongs.
    IstioService,
    /// The path of the object of which Istio says that it made the route.
    IstioRoute,
}

/// What a proxy knows of a stream, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Envoy's response flags, a bit each.
    ResponseFlags,
    /// Attempts of the request so far, the present one included.
    Attempts,
    /// Bytes of the request that have come so far, also while it is paused: of its headers, as long
    /// as they can be read, and of its body.
    RequestBytes,
    /// Bytes of the request's headers alone, as they are counted there.
    RequestHeaderBytes,
    /// Bytes of the response that have gone so far, likewise.
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

/// A response that a filter sends in place of the upstream.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub status: u32,
    /// The status over gRPC, in a trailers-only response.
    pub grpc_status: i32,
    /// What shows up as `%RESPONSE_CODE_DETAILS%`.
    pub details: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
}

/// A call of our own to a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The value of `:authority`.
    pub authority: &'a str,
    /// The path.
    pub path: &'a str,
    /// The body, JSON.
    pub body: &'a [u8],
    /// After so long there will be no answer.
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
    /// The size of the memory that this thread's filters have to themselves, in pages of 64 KiB; 0
    /// if they have none.
    fn memory_pages(&self) -> u64;
    /// The name of the proxy among those of its mesh.
    fn node(&self) -> String;

    /// Defines a metric, or finds the one of that name; all threads share it.
    fn define_metric(&self, kind: MetricKind, name: &str) -> Option<Self::Metric>;
    /// Adds to a metric; atomic.
    fn add_to_metric(&self, metric: Self::Metric, offset: i64);
    /// Sets a gauge.
    fn set_metric(&self, metric: Self::Metric, value: u64);
    /// Reads a metric; 0 if there is none.
    fn metric(&self, metric: Self::Metric) -> u64;

    /// Messages to the thread with this number come to this root context from now on.
    fn register_queue(&self, root: u32, vm: u64);
    /// Sends a message to the thread with this number, this one or another.
    fn wake(&self, vm: u64, message: &[u8]);

    /// Sends a call; its answer comes to the present root context. Its token, if it was taken.
    fn post(&self, post: Post<'_>) -> Option<u32>;

    /// This root context ticks every `period` (zero: never). From the callback of any context of
    /// this thread.
    fn set_tick_period(&self, root: u32, period: Duration);
}

/// A request, or one attempt of it, in a callback of its own unless a method says otherwise.
pub trait Stream: Clone + Eq + Hash + 'static {
    /// A value, borrowed from the proxy if it can be.
    type Bytes<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// A header's value; the first if there are several. Not to be used any more once a header is
    /// changed.
    fn header(&self, map: Map, name: &str) -> Option<Self::Bytes<'_>>;
    /// Sets a header, in place of all of that name.
    fn set_header(&self, map: Map, name: &str, value: &[u8]);
    /// Adds a header; to the value, after a comma, if there is one of that name and Envoy keeps but
    /// one of it.
    fn add_header(&self, map: Map, name: &str, value: &[u8]);
    /// Removes all headers of that name.
    fn remove_header(&self, map: Map, name: &str);
    /// A text, which need not be UTF-8; none if the proxy has none.
    fn text(&self, text: Text) -> Option<Self::Bytes<'_>>;
    /// A number.
    fn number(&self, number: Number) -> Option<u64>;
    /// Answers the request in its own callback, which pauses it.
    fn reply(&self, reply: Reply<'_>);

    /// Lets a paused request go on. From the callback of any context of this thread, as one of the
    /// last calls.
    fn resume(&self);
    /// Does something in the context of this request, which is paused: answers it, and reads what
    /// it needs for that. From the callback of any context of this thread, as one of the last
    /// calls.
    fn in_own_context(&self, work: impl FnOnce());
}
