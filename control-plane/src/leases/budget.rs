//! How much this replica writes.
//!
//! A record is written as a whole, 130 KB with 1,000 nodes. etcd keeps each version until it is
//! compacted, and is full at 2 GiB by default. A node may make this replica write with each ask, of
//! each of its applications, so all writes together have a limit. What has to wait gathers asks.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Bytes a second: 1.8 GB in an hour, of which etcd keeps five minutes (150 MB).
const BYTES: f64 = 500_000.0;
/// What a write counts at least, so that there are 20 a second: what the records of a large cluster
/// need while parts move.
const WRITE: f64 = BYTES / 20.0;
/// Bytes at once.
const BURST: f64 = 40.0 * WRITE;

/// What may be written now. Below zero is a debt: what a write takes is known when it is made.
#[derive(Debug)]
pub struct Budget {
    bytes: f64,
    at: Instant,
}

impl Budget {
    pub const fn new(now: Instant) -> Self {
        Self { bytes: BURST, at: now }
    }

    /// Waits until something may be written.
    pub async fn ready(&mut self) {
        sleep_until(self.at + self.wait(Instant::now())).await;
        self.grow(Instant::now());
    }

    /// Counts a write.
    pub const fn take(&mut self, bytes: usize) {
        self.bytes -= (bytes as f64).max(WRITE);
    }

    fn wait(&mut self, now: Instant) -> Duration {
        self.grow(now);
        Duration::from_secs_f64((-self.bytes / BYTES).max(0.0))
    }

    fn grow(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.bytes = (self.bytes + seconds * BYTES).min(BURST);
        self.at = self.at.max(now);
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
            now += budget.wait(now);
            if now > start + Duration::from_secs(100) {
                return count;
            }
            budget.grow(now);
            budget.take(bytes);
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

    #[tokio::test(start_paused = true)]
    async fn waits_until_the_debt_is_paid() {
        let mut budget = Budget::new(Instant::now());
        for (bytes, waits) in [(1_000_000, 0), (260_000, 0), (0, 520), (0, 50)] {
            let start = Instant::now();
            budget.ready().await;
            assert!(start.elapsed().as_millis().abs_diff(waits) <= 1, "{bytes}: {:?}", start.elapsed());
            budget.take(bytes);
        }
    }
}
