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
    /// The time that its counters cover: since the last report that any replica counted; `None`:
    /// since the start of the proxy, which is unknown.
    pub span: Option<Duration>,
}
