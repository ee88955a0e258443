//! Which proxies are stale: answered, but without the newest state of their subscription.
//!
//! A proxy is normally behind for a moment, between a change and its next poll. It is stale if it
//! has presented the same outdated version for [`STALE_AFTER`]: it was answered in between, and did
//! not take the answer. It is stale at the replica that counts it, until it presents the newest
//! state anywhere. A proxy that is cut off looks like one that was switched off.

use super::decide::State;
use super::proxies::Record;
use std::time::Duration;
use tokio::time::Instant;

/// How long a proxy may present an outdated version. It polls again at most 5 s after an answer
/// that it did not take.
pub const STALE_AFTER: Duration = Duration::from_secs(10);

impl State {
    /// Whether a proxy is stale. Only for a proxy that [counts](super::window::Window) here.
    pub fn is_stale(&self, record: &Record, now: Instant) -> bool {
        let since = record.behind.filter(|since| now.saturating_duration_since(*since) >= STALE_AFTER);
        since.is_some() && self.is_behind(record)
    }
}
