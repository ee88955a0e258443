//! How long a container at its limit waits for a larger one.

use super::plan::STEP;
use std::time::Duration;

/// A wait that lasts for so long counts as one without a larger limit.
const LONGEST: Duration = Duration::from_secs(1);

/// The waits of one container, from samples of its files.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    waits: Option<(Duration, u64)>,
    /// The maximum in the last sample.
    before: Option<u64>,
    /// From the first use above the limit, which is a step below the maximum, to a larger maximum;
    /// zero, if all of that was between two samples.
    pub raised: Vec<Duration>,
    /// How often that did not come.
    pub in_vain: u64,
}

impl Waits {
    /// Adds the next sample: when, the use, and the maximum.
    pub fn add(&mut self, at: Duration, used: u64, max: u64) {
        let above = used.saturating_add(STEP) > max;
        let risen = self.before.replace(max).is_some_and(|before| max > before);
        match self.waits {
            Some((since, before)) if max > before => {
                self.raised.push(at - since);
                self.waits = above.then_some((at, max));
            }
            Some((since, _)) if above && at - since >= LONGEST => {
                self.in_vain += 1;
                self.waits = None;
            }
            // It may have been lowered meanwhile.
            Some((since, _)) => self.waits = above.then_some((since, max)),
            None => {
                if risen {
                    self.raised.push(Duration::ZERO);
                }
                self.waits = above.then_some((at, max));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::quota::memory::plan::MEBI;

    /// Samples in milliseconds and MiB.
    fn waits(samples: &[(u64, u64, u64)]) -> (Vec<u128>, u64) {
        let mut waits = Waits::default();
        for (ms, used, max) in samples {
            waits.add(Duration::from_millis(*ms), used * MEBI, max * MEBI);
        }
        (waits.raised.iter().map(Duration::as_millis).collect(), waits.in_vain)
    }

    #[test]
    fn a_wait_lasts_from_the_use_above_the_limit_to_a_larger_maximum() {
        assert_eq!(waits(&[(0, 84, 100), (5, 84, 100), (9, 85, 90)]), (vec![], 0), "at the limit is not above it");
        assert_eq!(waits(&[(0, 84, 100), (5, 84, 120), (10, 84, 120)]), (vec![0], 0), "between two samples");
        assert_eq!(waits(&[(0, 84, 100), (5, 85, 100), (10, 90, 100), (15, 90, 120), (20, 90, 130)]), (vec![10, 0], 0));
        assert_eq!(waits(&[(0, 85, 100), (5, 110, 116), (15, 110, 132)]), (vec![5, 10], 0), "still above");
        assert_eq!(waits(&[(0, 90, 100), (5, 90, 95), (10, 90, 97)]), (vec![10], 0), "lowered, then raised");
        assert_eq!(waits(&[(0, 90, 100), (5, 50, 100), (10, 50, 100)]), (vec![], 0), "it gave back");
    }

    #[test]
    fn a_wait_of_a_second_is_in_vain() {
        let samples = [(0, 90, 100), (999, 90, 100), (1_000, 90, 100), (1_500, 90, 100), (1_510, 90, 110)];
        assert_eq!(waits(&samples), (vec![10], 1));
        assert_eq!(waits(&samples[..2]), (vec![], 0));
        assert_eq!(waits(&[(0, 90, 100), (1_000, 90, 110)]), (vec![1_000], 0));
    }
}
