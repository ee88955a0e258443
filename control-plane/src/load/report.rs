//! What a proxy reports with a poll.

use bloc_policy::sync::ServiceLoad;
use std::time::Duration;

/// A report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The proxy.
    pub proxy: &'a str,
    /// Its load, for each service.
    pub load: &'a [ServiceLoad],
    /// The time that its counters cover: since the report that was counted last, at any replica;
    /// `None`: since the start of the proxy, at a time that is not known.
    pub span: Option<Duration>,
}
