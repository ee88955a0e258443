//! How long a caller waits for its answer.

use crate::host::{Map, Stream};
use bloc_policy::wire::headers::EXPECTED_TIMEOUT;
use std::time::Duration;

/// How long the caller waits for its answer, if it says so.
pub fn deadline(stream: &impl Stream) -> Option<Duration> {
    let value = stream.header(Map::Request, EXPECTED_TIMEOUT)?;
    let millis: u64 = std::str::from_utf8(value.as_ref()).ok()?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}
