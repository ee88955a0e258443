//! What a request's headers say of it: its body, how much of it must come before a rejection, and
//! how long its caller waits.

use crate::host::{HeaderMap, NumberAttribute, Stream, TextAttribute};
use bloc_policy::wire::body::Body;
use bloc_policy::wire::headers::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, EXPECTED_TIMEOUT};
use std::time::Duration;

/// What the headers say of the body of a request; if it `ends` with them, it has none. Costs one
/// host call if there is a body, two if the body has no length.
pub fn body(stream: &impl Stream, ends: bool) -> Body {
    if ends {
        return Body::None;
    }
    Body::of(stream.header(HeaderMap::Request, CONTENT_LENGTH), || stream.header(HeaderMap::Request, CONTENT_TYPE))
}

/// The size of the whole request in bytes, if it must be read before it is rejected. `limit`: that
/// of its body; `ends`: whether it has ended with its headers.
pub fn to_be_read<S: Stream>(stream: &S, limit: u64, ends: bool) -> Option<u64> {
    let Body::Sized(size) = body(stream, ends) else { return None };
    let is_http_1 = |stream: &S| {
        stream.text(TextAttribute::Protocol).is_some_and(|protocol| protocol.as_ref().starts_with(b"HTTP/1"))
    };
    // With `expect: 100-continue` a client waits for an answer before it sends its body.
    let asks = |stream: &S| stream.header(HeaderMap::Request, EXPECT).is_some();
    // Not `RequestBytes`: it includes a part of the body if another filter has delayed the
    // headers.
    (size <= limit && is_http_1(stream) && !asks(stream))
        .then(|| stream.number(NumberAttribute::RequestHeaderBytes))
        .flatten()
        .map(|headers| headers.saturating_add(size))
}

/// How long the caller waits for its answer, if it says so.
pub fn deadline(stream: &impl Stream) -> Option<Duration> {
    let value = stream.header(HeaderMap::Request, EXPECTED_TIMEOUT)?;
    let millis: u64 = std::str::from_utf8(value.as_ref()).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}
