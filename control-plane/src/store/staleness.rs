//! Which proxies stay behind: without the newest state of what they subscribed to, although they
//! were answered.
//!
//! To be behind for a moment is normal, it is the time between a change and the next poll. A proxy
//! is stale if it has presented the same version, to which there is a newer state, for
//! [`STALE_AFTER`]: it was answered in between, and did not take the answer. It counts as stale at
//! the replica that counts it, and no more once it has presented the newest state anywhere else.
//! From here, one that is cut off looks the same as one that was switched off.

use super::proxies::Record;
use super::state::State;
use std::time::Duration;
use tokio::time::Instant;

/// How long a proxy may present a version that is behind; it asks again 5 s after an answer that it
/// did not take, at the latest.
pub const STALE_AFTER: Duration = Duration::from_secs(10);

impl State {
    /// Whether a proxy is stale; not for one that does not [count](super::window::Window) here.
    pub fn is_stale(&self, record: &Record, now: Instant) -> bool {
        let since = record.behind.filter(|since| now.saturating_duration_since(*since) >= STALE_AFTER);
        since.is_some() && self.is_behind(record)
    }
}
