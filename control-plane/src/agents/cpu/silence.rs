//! When something is not known any more.

use std::time::Duration;
use tokio::time::Instant;

/// Who was not heard of for this long is not known any more. An agent sends everything each 5 s.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);

/// Whether who was last heard of at a moment is not known any more.
pub fn is_silent(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) >= SILENT_AFTER
}
