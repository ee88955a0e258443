//! Counts and histograms: of the last minute, and since the start.

use bloc_policy::sync::latency::Growth;
use std::collections::VecDeque;
use std::time::Duration;

/// The length of a slot, and how many make a minute.
const SLOT: Duration = Duration::from_secs(10);
const SLOTS: u64 = 6;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub slot: u64,
    /// The seconds that the last minute covers: whole slots before this one, and this one so far.
    pub covers: f64,
}

impl Moment {
    /// The moment `beginning` after the start.
    pub fn after(beginning: Duration) -> Self {
        let (slot, seconds) = (beginning.as_secs() / SLOT.as_secs(), beginning.as_secs_f64());
        let first = slot.saturating_sub(SLOTS - 1) * SLOT.as_secs();
        // At least a second: a shorter rate means nothing.
        Self { slot, covers: (seconds - first as f64).max(1.0) }
    }
}

/// What has happened in the last minute.
#[derive(Clone, Debug, Default)]
pub struct Recent(VecDeque<(u64, Growth)>);

impl Recent {
    /// Adds what happened in this slot.
    pub fn add(&mut self, growth: &Growth, slot: u64) {
        while self.0.front().is_some_and(|(first, _)| first + SLOTS <= slot) {
            self.0.pop_front();
        }
        match self.0.back_mut() {
            Some((last, sum)) if *last >= slot => sum.add(growth),
            _ => self.0.push_back((slot, growth.clone())),
        }
    }

    /// What happened in the last minute before the end of this slot.
    pub fn at(&self, slot: u64) -> Growth {
        let mut sum = Growth::default();
        self.0.iter().filter(|(of, _)| of + SLOTS > slot).for_each(|(_, growth)| sum.add(growth));
        sum
    }
}

/// The last minute, and everything since the start.
#[derive(Clone, Debug, Default)]
pub struct Windowed {
    total: Growth,
    recent: Recent,
}

impl Windowed {
    /// Adds what happened in this slot.
    pub fn add(&mut self, growth: &Growth, slot: u64) {
        self.total.add(growth);
        self.recent.add(growth, slot);
    }

    /// Everything so far.
    pub fn total(&self) -> &Growth {
        &self.total
    }

    /// What happened in the last minute before the end of this slot.
    pub fn recent(&self, slot: u64) -> Growth {
        self.recent.at(slot)
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
        for slot in [10, 10, 12, 15] {
            all.add(&requests(1), slot);
        }
        assert_eq!((all.recent(15), all.total()), (requests(4), &requests(4)));
        assert_eq!((all.recent(16), all.recent(17), all.recent(18)), (requests(2), requests(2), requests(1)));
        assert_eq!(all.recent(21), Growth::default());
        all.add(&requests(5), 30);
        assert_eq!((all.recent.0.len(), all.recent(30), all.total()), (1, requests(5), &requests(9)));
    }

    #[test]
    fn the_last_minute_covers_as_much_as_has_passed() {
        let at = |millis| Moment::after(Duration::from_millis(millis));
        assert_eq!((at(0).slot, at(0).covers, at(500).covers), (0, 1.0, 1.0));
        assert_eq!((at(25_000).slot, at(25_000).covers), (2, 25.0));
        assert_eq!((at(60_000).slot, at(60_000).covers, at(69_500).covers), (6, 50.0, 59.5));
    }
}
