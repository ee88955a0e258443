//! How much of a rejected request has to come before it is answered.

use crate::body::body;
use crate::host::{Map, Number, Stream, Text};
use bloc_policy::wire::body::Body;
use bloc_policy::wire::headers::EXPECT;

/// The size of the whole request in bytes, if it must be read before the answer. `limit`: that of
/// its body; `ends`: whether it has ended with its headers.
pub fn to_be_read<S: Stream>(stream: &S, limit: u64, ends: bool) -> Option<u64> {
    let Body::Sized(size) = body(stream, ends) else { return None };
    let is_http_1 =
        |stream: &S| stream.text(Text::Protocol).is_some_and(|protocol| protocol.as_ref().starts_with(b"HTTP/1"));
    // With `expect: 100-continue` a client waits for an answer before it sends its body.
    let asks = |stream: &S| stream.header(Map::Request, EXPECT).is_some();
    // Not `RequestBytes`: it includes a part of the body if another filter has delayed the
    // headers.
    (size <= limit && is_http_1(stream) && !asks(stream))
        .then(|| stream.number(Number::RequestHeaderBytes))
        .flatten()
        .map(|headers| headers.saturating_add(size))
}
