//! What an answer says, and the answers in place of a server's.

use crate::host::{Map, Number, Reply, Stream};
use crate::requests::End;
use bloc_policy::wire::headers::{LOAD, REJECT};
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;

const SERVICE_UNAVAILABLE: u32 = 503;
const GATEWAY_TIMEOUT: u32 = 504;
const UNAVAILABLE: i32 = 14;
const INTERNAL: i32 = 13;
const GRPC_STATUS: &str = "grpc-status";

/// What the status of an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 1xx, 2xx or 3xx.
    Good,
    /// A server error: 5xx, or UNAVAILABLE or INTERNAL over gRPC.
    Error,
    /// Another error.
    Bad,
}

impl Status {
    /// Reads the status. `ends`: the answer ends with its headers, as an error over gRPC may.
    pub fn read(stream: &impl Stream, ends: bool) -> Self {
        let status = stream.header(Map::Response, ":status");
        match status.as_ref().map(AsRef::as_ref) {
            Some(b"200") if ends && is_grpc_error(stream, Map::Response) => Self::Error,
            Some([b'1'..=b'3', ..]) => Self::Good,
            Some([b'5', ..]) => Self::Error,
            _ => Self::Bad,
        }
    }

    /// How an attempt with such an answer has ended.
    pub fn end(self) -> End {
        match self {
            Self::Error => End::Erred,
            Self::Good | Self::Bad => End::Answered,
        }
    }

    /// Whether the answer may meet a route's retry condition. A good one is not marked: a route
    /// with the condition `envoy-ratelimited` would retry it only because of the mark.
    pub fn is_bad(self, stream: &impl Stream) -> bool {
        self != Self::Good || stream.header(Map::Response, GRPC_STATUS).is_some()
    }
}

/// Whether these headers or trailers say UNAVAILABLE or INTERNAL.
pub fn is_grpc_error(stream: &impl Stream, map: Map) -> bool {
    let status = stream.header(map, GRPC_STATUS);
    let status = status.as_ref().and_then(|status| std::str::from_utf8(status.as_ref()).ok());
    status.and_then(|status| status.trim().parse().ok()).is_some_and(|status| [UNAVAILABLE, INTERNAL].contains(&status))
}

pub fn reply(stream: &impl Stream, status: u32, grpc_status: i32) {
    stream.reply(Reply { status, grpc_status, details: "bloc_retries", headers: &[] });
}

/// Answers as Envoy would after an attempt without an answer.
pub fn reply_for_silence(stream: &impl Stream, timed_out: bool) {
    reply(stream, if timed_out { GATEWAY_TIMEOUT } else { SERVICE_UNAVAILABLE }, UNAVAILABLE);
}

/// The number of this attempt in its request; the first is 0.
pub fn attempt_number(stream: &impl Stream) -> Option<usize> {
    usize::try_from(stream.number(Number::Attempts)?.checked_sub(1)?).ok()
}

/// A rejection: its reason, none if this version does not know it.
pub type Rejection = Option<Reason>;

/// The server's load report, and whether it rejected the attempt.
pub fn said(stream: &impl Stream) -> (Option<LoadReport>, Option<Rejection>) {
    let report = stream.header(Map::Response, LOAD).and_then(|value| LoadReport::decode(value.as_ref()));
    let rejection = match report {
        // Not from our sidecar: an application that sets this header would have its requests
        // repeated.
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
