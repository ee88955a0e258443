//! How much this replica writes.
//!
//! A record is written as a whole, 130 KB with 1,000 nodes. etcd keeps each version until
//! compaction, and is full at 2 GiB by default. Each ask of a node may cause a write for each of
//! its applications. Hence all writes together have a limit. Asks that wait for it share a write.

use std::time::Duration;
use tokio::time::Instant;

/// Bytes a second: 1.8 GB an hour, of which etcd keeps five minutes (150 MB).
const BYTES: f64 = 500_000.0;
/// The least cost of a write. It allows 20 writes a second, which the records of a large cluster
/// need while parts move.
const WRITE: f64 = BYTES / 20.0;
/// How far writes may run ahead of the limit.
const BURST: Duration = Duration::from_secs(2);

/// The time up to which writes have used the limit. A write is charged when it is made.
#[derive(Debug)]
pub struct Budget(Instant);

impl Budget {
    pub const fn new(now: Instant) -> Self {
        Self(now)
    }

    /// When the next write may start.
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

    /// How many writes of this many bytes there are in 100 s.
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
