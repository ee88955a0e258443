//! Wall-clock time and its text form. The clock is passed in, so that tests can step it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of wall-clock time; cheap to clone. Like a real clock, it may step backwards.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that shows what `now` returns.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// The time in whole milliseconds since 1970; 0 for earlier times.
    pub fn unix_millis(&self) -> u64 {
        let since = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A time in RFC 3339.
pub fn rfc3339(time: SystemTime) -> String {
    // humantime cannot write years before 1970 or after 9999, which a broken clock may show.
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.clamp(UNIX_EPOCH, year_9999)).to_string()
}
