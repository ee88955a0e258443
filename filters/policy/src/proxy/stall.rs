//! Since when a thread has been running. A thread that was stopped, throttled or blocked must not
//! take signs of life that it missed for crashes of others.

use crate::units::Timestamp;
use std::time::Duration;

/// A thread that [looks](StallDetector::look) at least this often counts as awake.
pub const STALL: Duration = Duration::from_secs(1);

/// Since when a thread has been awake.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallDetector {
    looked: Timestamp,
    since: Timestamp,
}

impl StallDetector {
    /// Call this while the thread runs. Returns since when it was called at least every [`STALL`].
    pub fn look(&mut self, now: Timestamp) -> Timestamp {
        if now.since(self.looked) > STALL {
            self.since = now;
        }
        self.looked = now;
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_more_than_a_second_counts_as_a_stall() {
        let mut stalls = StallDetector::default();
        let first = Timestamp::ZERO.after(Duration::from_secs(10));
        assert_eq!(stalls.look(first), first);
        let second = first.after(STALL);
        assert_eq!(stalls.look(second), first, "a second is no pause");
        let third = second.after(STALL + Duration::from_nanos(1));
        assert_eq!(stalls.look(third), third);
    }
}
