//! Responses that Envoy itself made, because it got no connection to the application.

use crate::host::{Number, Stream};

/// The most headers that Envoy's own responses have before they pass a filter: status, type and
/// length. An application's response also has those that the router adds. This saves most
/// responses the host call that a closer look costs.
pub const LOCAL_REPLY: usize = 3;
/// The same for a gRPC response without a body: status, type, gRPC status and gRPC message.
pub const LOCAL_GRPC_REPLY: usize = 4;
/// Whether Envoy itself made this response because it got no connection to the application. Then
/// the application has not seen the request, and a retry elsewhere is safe. Without this check, a
/// server whose application is gone would answer fastest and attract the load of the others. After
/// several attempts, the flags are those of the last one. Istio's inbound routes repeat only
/// attempts that were not sent (`reset-before-request`).
pub fn application_is_unreachable(stream: &impl Stream) -> bool {
    /// Response flags of Envoy: no healthy upstream (2), upstream connection failure (20), upstream
    /// overflow (80).
    const NEVER_SENT: u64 = 0xa2;
    /// Upstream retry limit exceeded.
    const NO_MORE: u64 = 0x8000;
    stream
        .number(Number::ResponseFlags)
        .is_some_and(|flags| flags & NEVER_SENT != 0 && flags & !NEVER_SENT & !NO_MORE == 0)
}
