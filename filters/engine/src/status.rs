//! What the status of an answer says.

use crate::host::{HeaderMap, NumberAttribute, RESOURCE_EXHAUSTED, Stream, TOO_MANY_REQUESTS};

/// The status of Envoy's own answer to a request that it could not send.
pub const SERVICE_UNAVAILABLE: u32 = 503;
/// The same over gRPC.
pub const UNAVAILABLE: i32 = 14;
const INTERNAL: i32 = 13;
const GRPC_STATUS: &str = "grpc-status";

/// The status of an answer, over HTTP and over gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0 if there is none.
    http: u32,
    /// 0 if it is OK, or not known yet: it may follow in the trailers.
    grpc: i32,
}

impl Status {
    /// That of a rejection.
    pub const REJECTION: Self = Self { http: TOO_MANY_REQUESTS, grpc: 0 };

    /// Reads it. `ends`: the answer ends with its headers, as an error over gRPC may.
    pub fn read(stream: &impl Stream, ends: bool) -> Self {
        let status = stream.header(HeaderMap::Response, ":status");
        let http = status.and_then(|status| std::str::from_utf8(status.as_ref()).ok()?.parse().ok()).unwrap_or(0);
        Self { http, grpc: if ends && http == 200 { grpc(stream, HeaderMap::Response) } else { 0 } }
    }

    /// Reads it from the trailers of an answer whose headers were good.
    pub fn read_trailers(stream: &impl Stream) -> Self {
        Self { http: 200, grpc: grpc(stream, HeaderMap::Trailers) }
    }

    /// Whether it is 1xx, 2xx or 3xx, whatever it is over gRPC.
    pub fn is_good(self) -> bool {
        (100..400).contains(&self.http)
    }

    /// Whether it is a server error: 5xx, or UNAVAILABLE or INTERNAL over gRPC.
    pub fn is_server_error(self) -> bool {
        (500..600).contains(&self.http) || [UNAVAILABLE, INTERNAL].contains(&self.grpc)
    }

    /// Whether it is another error.
    pub fn is_client_error(self) -> bool {
        !(self.is_server_error() || self.is_good() && self.grpc == 0)
    }

    /// Whether the time of such an answer says how fast the application is: it does not if the
    /// application has failed, or is overloaded.
    pub fn tells_speed(self) -> bool {
        !self.is_server_error() && self.http != TOO_MANY_REQUESTS && self.grpc != RESOURCE_EXHAUSTED
    }

    /// Whether Envoy's own answers have it that mean that a request was not sent.
    pub fn is_unavailable(self) -> bool {
        self.http == SERVICE_UNAVAILABLE || self.grpc == UNAVAILABLE
    }

    /// Whether the answer may meet a route's retry condition. A good one is not marked: a route
    /// with the condition `envoy-ratelimited` would retry it only because of the mark.
    pub fn is_bad(self, stream: &impl Stream) -> bool {
        !self.is_good() || self.grpc != 0 || stream.header(HeaderMap::Response, GRPC_STATUS).is_some()
    }
}

/// The status over gRPC; 0 if there is none.
fn grpc(stream: &impl Stream, map: HeaderMap) -> i32 {
    let status = stream.header(map, GRPC_STATUS);
    status.and_then(|status| std::str::from_utf8(status.as_ref()).ok()?.trim().parse().ok()).unwrap_or(0)
}

/// Whether Envoy itself made this response because it got no connection to the application, or
/// because a circuit breaker of the application's cluster was open. Then the application has not
/// seen the request, and a retry elsewhere is safe. Without this check, a server whose application
/// is gone would answer fastest and attract the load of the others. After several attempts, the
/// flags are those of the last one. Istio's inbound routes repeat only attempts that were not sent
/// (`reset-before-request`).
///
/// Envoy's flags say it, and not what the response looks like: users add headers to any response.
pub fn application_is_unreachable(stream: &impl Stream) -> bool {
    /// Response flags of Envoy: no healthy upstream (2), upstream connection failure (20), upstream
    /// overflow (80).
    const NEVER_SENT: u64 = 0xa2;
    /// Upstream retry limit exceeded.
    const NO_MORE: u64 = 0x8000;
    stream
        .number(NumberAttribute::ResponseFlags)
        .is_some_and(|flags| flags & NEVER_SENT != 0 && flags & !NEVER_SENT & !NO_MORE == 0)
}
