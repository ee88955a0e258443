//! When the filters fail open because they crash too often.
//!
//! A crash ends the VM of one thread and costs all of its requests; the next request starts a new
//! VM. A request that comes again and again would repeat this. So a VM that starts after [`LIMIT`]
//! crashes within [`WINDOW`] passes everything unread until the first of them leaves the window.
//!
//! A thread checks this only when its VM starts, so one Envoy has at most `LIMIT + threads - 1`
//! crashes in a window. Not in the paper.

use crate::units::Timestamp;
use std::time::Duration;

/// How long a crash counts. Faults of requests recur sooner; a new VM cures slower ones.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Too many crashes in a window. Two may be one accident that hit two threads.
pub const LIMIT: usize = 3;

/// The last crashes of all threads of one Envoy, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crashes(Vec<Timestamp>);

impl Crashes {
    /// Reads shared bytes; no crashes if [`encode`](Self::encode) did not write them.
    pub fn decode(bytes: &[u8]) -> Self {
        let (times, []) = bytes.as_chunks::<8>() else { return Self::default() };
        Self(times.iter().map(|time| Timestamp::from_nanos(u64::from_le_bytes(*time))).collect())
    }

    /// The bytes to share: eight for each of the last [`LIMIT`] crashes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|time| time.as_nanos().to_le_bytes()).collect()
    }

    /// Records a crash.
    pub fn record(&mut self, now: Timestamp) {
        self.0.push(now);
        let surplus = self.0.len().saturating_sub(LIMIT);
        self.0.drain(..surplus);
    }

    /// When fail-open ends; none: no fail-open.
    pub fn fail_open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let surplus = self.0.len().checked_sub(LIMIT)?;
        let first = self.0.get(surplus).filter(|first| **first <= now)?;
        let ends = first.after(WINDOW);
        (ends > now).then_some(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn fails_open_after_three_crashes_within_a_minute() {
        let mut crashes = Crashes::default();
        assert_eq!(crashes.fail_open_until(at(1)), None);
        for second in [100, 110, 159] {
            assert_eq!(crashes.fail_open_until(at(second)), None);
            crashes.record(at(second));
        }
        assert_eq!(crashes.fail_open_until(at(159)), Some(at(160)));
        assert_eq!(crashes.fail_open_until(at(160)), None, "the first one has left the window");
        crashes.record(at(165));
        assert_eq!(crashes.fail_open_until(at(165)), Some(at(170)), "110, 159 and 165");
        crashes.record(at(300));
        assert_eq!(crashes.fail_open_until(at(300)), None);
    }

    #[test]
    fn ignores_invalid_crash_records() {
        assert_eq!(Crashes::decode(&[1; 23]), Crashes::default());
        assert_eq!(Crashes::decode(&[0xff; 24]).fail_open_until(at(1)), None, "not in the future");
    }

    proptest! {
        /// The model keeps all crashes. A VM that fails open does not crash.
        #[test]
        fn fails_open_exactly_when_the_window_holds_the_limit_of_crashes(pauses in prop::collection::vec(0u64..40, 1..100)) {
            let (mut crashes, mut all, mut now) = (Crashes::default(), Vec::new(), 1000);
            for pause in pauses {
                now += pause;
                crashes = Crashes::decode(&crashes.encode());
                let recent = all.iter().filter(|crash| now - **crash < 60).count();
                let until = crashes.fail_open_until(at(now));
                prop_assert_eq!(until.is_some(), recent >= LIMIT);
                if until.is_none() {
                    all.push(now);
                    crashes.record(at(now));
                }
            }
        }
    }
}
