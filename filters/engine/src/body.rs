//! Reads what a request's headers say of its body.

use crate::host::{Map, Stream};
use bloc_policy::wire::body::Body;
use bloc_policy::wire::headers::{CONTENT_LENGTH, CONTENT_TYPE};

/// What the headers say of the body of a request; if it `ends` with them, it has none. Costs one
/// host call if there is a body, two if the body has no length.
pub fn body(stream: &impl Stream, ends: bool) -> Body {
    if ends {
        return Body::None;
    }
    Body::of(stream.header(Map::Request, CONTENT_LENGTH), || stream.header(Map::Request, CONTENT_TYPE))
}
