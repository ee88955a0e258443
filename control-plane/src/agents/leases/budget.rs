//! How much this replica writes.
//!
//! A record is written as a whole, 130 KB with 1,000 nodes. etcd keeps each version until it is
//! compacted, and is full at 2 GiB by default. A node may make this replica write with each ask, of
//! each of its applications, so all writes together have a limit. What has to wait gathers asks.

use std::time::Duration;
use tokio::time::Instant;

/// Bytes a second: 1.8 GB in an hour, of which etcd keeps five minutes (150 MB).
const BYTES: f64 = 500_000.0;
/// What a write counts at least, so that there are 20 a second: what the records of a large cluster
/// need while parts move.
const WRITE: f64 = BYTES / 20.0;
/// The time for which more may be written at once.
const BURST: Duration = Duration::from_secs(2);

/// Until when all writes together take. What a write takes is known when it is made.
#[derive(Debug)]
pub struct Budget(Instant);

impl Budget {
    pub const fn new(now: Instant) -> Self {
        Self(now)
    }

    /// From when on something may be written.
    pub fn ready(&self) -> Instant {
        self.0.checked_sub(BURST).unwrap_or(self.0)
    }

    pub fn take(&mut self, bytes: usize, now: Instant) {
        self.0 = self.0.max(now) + Duration::from_secs_f64((bytes as f64).max(WRITE) / BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many writes of so many bytes there are in 100 s.
    fn writes(bytes: usize) -> usize {
        let start = Instant::now();
        let (mut budget, mut now, mut count) = (Budget::new(start), start, 0);
        loop {
            now = now.max(budget.ready());
            if now > start + Duration::from_secs(100) {
                return count;
            }
            budget.take(bytes, now);
            count += 1;
        }
    }

    #[test]
    fn writes_and_their_bytes_are_limited() {
        for (bytes, least, most) in [(0, 2_035, 2_045), (10_000, 2_035, 2_045), (90_000, 566, 570), (260_000, 195, 198)]
        {
            let writes = writes(bytes);
            assert!((least..=most).contains(&writes), "{bytes}: {writes}");
        }
    }

    #[test]
    fn waits_until_the_debt_is_paid() {
        let mut now = Instant::now();
        let mut budget = Budget::new(now);
        for (bytes, waits) in [(1_000_000, 0), (260_000, 0), (0, 520), (0, 50)] {
            let wait = budget.ready().saturating_duration_since(now);
            assert_eq!(wait.as_millis(), waits, "{bytes}");
            now += wait;
            budget.take(bytes, now);
        }
    }
}
