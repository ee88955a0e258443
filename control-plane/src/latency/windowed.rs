//! Counts and histograms: in all, and of the last minute.

use bloc_policy::latency::Growth;
use std::collections::VecDeque;
use std::time::Duration;

/// The length of a slot, and how many make the last minute. What is recent is at most a slot older.
pub const SLOT: Duration = Duration::from_secs(10);
const SLOTS: u64 = 6;

/// What has happened, in all and of late.
#[derive(Clone, Debug, Default)]
pub struct Windowed {
    total: Growth,
    /// By number of the slot, ascending.
    recent: VecDeque<(u64, Growth)>,
}

impl Windowed {
    /// Adds what happened in this slot.
    pub fn add(&mut self, growth: &Growth, slot: u64) {
        self.total.add(growth);
        while self.recent.front().is_some_and(|(first, _)| first + SLOTS < slot) {
            self.recent.pop_front();
        }
        match self.recent.back_mut() {
            Some((last, sum)) if *last >= slot => sum.add(growth),
            _ => self.recent.push_back((slot, growth.clone())),
        }
    }

    /// Everything.
    pub fn total(&self) -> &Growth {
        &self.total
    }

    /// What happened in the last minute before the end of this slot.
    pub fn recent(&self, slot: u64) -> Growth {
        let mut sum = Growth::default();
        let of_late = self.recent.iter().filter(|(of, _)| of + SLOTS >= slot);
        of_late.for_each(|(_, growth)| sum.add(growth));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(number: u64) -> Growth {
        Growth { numbers: vec![number], histograms: Vec::new() }
    }

    #[test]
    fn what_is_older_than_a_minute_is_only_in_the_total() {
        let mut all = Windowed::default();
        for slot in [10, 10, 12, 16] {
            all.add(&requests(1), slot);
        }
        assert_eq!((all.recent(16), all.total()), (requests(4), &requests(4)));
        assert_eq!((all.recent(17), all.recent(18), all.recent(19)), (requests(2), requests(2), requests(1)));
        assert_eq!(all.recent(23), Growth::default());
        all.add(&requests(5), 30);
        assert_eq!((all.recent.len(), all.recent(30), all.total()), (1, requests(5), &requests(9)));
    }
}
