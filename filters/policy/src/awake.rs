//! Whether a thread was able to hear others: one that stood still itself (stopped, throttled,
//! blocked) must not take the silence of that time for the others' death.

use crate::units::Timestamp;
use std::time::Duration;

/// A thread that looks at least this often does not stand still.
pub const STALL: Duration = Duration::from_secs(1);

/// Since when a thread has been awake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awake {
    looked: Timestamp,
    since: Timestamp,
}

impl Awake {
    /// The thread runs; since when it has done so at least every [`STALL`].
    pub fn look(&mut self, now: Timestamp) -> Timestamp {
        if now.since(self.looked) > STALL {
            self.since = now;
        }
        self.looked = now;
        self.since
    }
}
