//! A need without small fluctuations, because each change of a part is a write: the largest value
//! of the last 10 to 20 seconds. A fall by more than 8% counts at once, because others may wait for
//! what a burst leaves.

use crate::part::Part;
use std::time::Duration;

const SPAN: Duration = Duration::from_secs(10);
/// A value below this fraction of the largest is not a fluctuation.
const FALLS: f64 = 0.92;

/// The largest values of the last and of the present span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    last: Part,
    present: Part,
    since: Duration,
}

impl Steady {
    pub(crate) const fn new(part: Part, now: Duration) -> Self {
        Self { last: part, present: part, since: now }
    }

    pub(crate) fn get(&self) -> Part {
        self.last.max(self.present)
    }

    pub(crate) fn hear(&mut self, part: Part, now: Duration) {
        if part < self.get().scaled(FALLS) {
            *self = Self::new(part, now);
        } else if now.saturating_sub(self.since) >= SPAN {
            *self = Self { last: self.present, present: part, since: now };
        } else {
            self.present = self.present.max(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_largest_for_ten_to_twenty_seconds() {
        let part = Part::millionths;
        let mut need = Steady::new(part(100), Duration::ZERO);
        for (second, value, kept) in [(1, 106, 106), (2, 98, 106), (10, 99, 106), (19, 98, 106), (20, 100, 100)] {
            need.hear(part(value), Duration::from_secs(second));
            assert_eq!(need.get(), part(kept), "after {second} s");
        }
    }

    #[test]
    fn a_large_fall_counts_at_once() {
        let mut need = Steady::new(Part::millionths(100), Duration::ZERO);
        need.hear(Part::millionths(92), Duration::from_secs(1));
        assert_eq!(need.get(), Part::millionths(100));
        need.hear(Part::millionths(91), Duration::from_secs(1));
        assert_eq!(need.get(), Part::millionths(91));
    }
}
