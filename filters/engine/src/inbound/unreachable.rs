//! Responses that Envoy itself made, because it got no connection to the application.

use crate::host::{Number, Stream};

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
        .number(Number::ResponseFlags)
        .is_some_and(|flags| flags & NEVER_SENT != 0 && flags & !NEVER_SENT & !NO_MORE == 0)
}
