//! How long a throttled container waits for a larger quota.

use std::time::Duration;

/// A container that is not throttled for this long does not wait any more.
const CALM: Duration = Duration::from_secs(1);

/// The waits of one container, from samples of its files.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    before: Option<Sample>,
    waits: Option<Wait>,
    /// From the first throttled period to a larger quota.
    pub raised: Vec<Duration>,
    /// How often that did not come.
    pub in_vain: u64,
}

/// What the files of a container say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it was read.
    pub at: Duration,
    /// Throttled periods until then.
    pub throttled: u64,
    /// The quota in cores.
    pub quota: f64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Duration,
    last: Duration,
    quota: f64,
}

impl Delays {
    /// Adds the next sample.
    pub fn add(&mut self, sample: Sample) {
        let Some(before) = self.before.replace(sample) else { return };
        let Sample { at, throttled, quota } = sample;
        if throttled > before.throttled {
            let wait = self.waits.get_or_insert(Wait { since: at, last: at, quota: before.quota });
            wait.last = at;
        }
        let Some(wait) = &mut self.waits else { return };
        if quota > wait.quota {
            self.raised.push(at - wait.since);
            self.waits = None;
        } else if at - wait.last >= CALM {
            self.in_vain += 1;
            self.waits = None;
        } else {
            // It may have been lowered meanwhile.
            wait.quota = quota;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(samples: &[(u64, u64, f64)]) -> (Vec<u128>, u64) {
        let mut delays = Delays::default();
        for (ms, throttled, quota) in samples {
            delays.add(Sample { at: Duration::from_millis(*ms), throttled: *throttled, quota: *quota });
        }
        (delays.raised.iter().map(Duration::as_millis).collect(), delays.in_vain)
    }

    #[test]
    fn a_wait_lasts_from_the_first_throttled_period_to_a_larger_quota() {
        let calm = [(0, 5, 0.2), (10, 5, 0.2)];
        assert_eq!(delays(&calm), (vec![], 0), "what was before does not count");
        assert_eq!(delays(&[calm[0], calm[1], (20, 5, 0.3)]), (vec![], 0));
        let samples = [(0, 5, 0.2), (10, 6, 0.2), (110, 7, 0.2), (130, 7, 0.3), (210, 8, 0.3), (260, 8, 0.4)];
        assert_eq!(delays(&samples), (vec![120, 50], 0));
        assert_eq!(delays(&[(0, 5, 0.2), (10, 6, 0.3)]), (vec![0], 0), "both between two samples");
        assert_eq!(delays(&[(0, 5, 0.2), (10, 6, 0.1), (20, 6, 0.15)]), (vec![10], 0), "lowered, then raised");
    }

    #[test]
    fn a_wait_without_a_larger_quota_ends_a_second_after_the_last_throttled_period() {
        let samples = [(0, 5, 0.2), (10, 6, 0.2), (510, 7, 0.2), (1_500, 7, 0.2), (1_510, 7, 0.2), (1_600, 7, 0.3)];
        assert_eq!(delays(&samples), (vec![], 1));
        assert_eq!(delays(&samples[..4]), (vec![], 0));
    }
}
