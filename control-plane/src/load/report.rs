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
    /// What its counters count from.
    pub since: Since,
}

/// What the counters of a report count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From the start of the proxy, in every report: an older proxy, or a first poll.
    Start,
    /// From the report that was counted last, at any replica, this long ago; `None`: from a start
    /// whose time is not known.
    Counted(Option<Duration>),
}
