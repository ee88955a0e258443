//! The moments at which arrival rates are observed.

use std::time::Duration;
use tokio::time::Instant;

/// Moments at equal distances from a first one.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    first: Instant,
    every: Duration,
}

impl Ticks {
    /// At `first` and every `every` after it; `every` is at least 1 ms.
    pub fn new(first: Instant, every: Duration) -> Self {
        Self { first, every: every.max(Duration::from_millis(1)) }
    }

    /// The last tick up to `now`; `None` before the first.
    pub fn last(&self, now: Instant) -> Option<Instant> {
        let since = now.checked_duration_since(self.first)?.as_millis();
        let every = self.every.as_millis();
        let past = u64::try_from(since / every * every).unwrap_or(u64::MAX);
        Some(self.first + Duration::from_millis(past))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_latest_tick_that_is_not_in_the_future() {
        let (start, millis) = (Instant::now(), Duration::from_millis);
        let ticks = Ticks::new(start + millis(700), millis(5_000));
        let last = |at: u64| ticks.last(start + millis(at)).map(|tick| (tick - start).as_millis());
        assert_eq!((last(0), last(699), last(700), last(5_699)), (None, None, Some(700), Some(700)));
        assert_eq!((last(5_700), last(50_701)), (Some(5_700), Some(50_700)));
    }
}
