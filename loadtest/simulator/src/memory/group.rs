//! A container in the kernel's memory control.

/// The version of the control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Nothing below the maximum holds a container up.
    One,
    /// Above `memory.high` each allocation sleeps.
    Two,
}

/// Bytes that the kernel charges at once: 64 pages.
pub(super) const BATCH: u64 = 64 * 4_096;
/// Sleeps of this many milliseconds and less are left out; none is longer than the other.
const SHORTEST: f64 = 10.0;
const LONGEST: f64 = 2_000.0;

/// A group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub used: u64,
    /// Above this it asks for memory; none: nobody would hear it.
    pub limit: Option<u64>,
    /// Above this, allocations sleep; none: they do not.
    pub high: Option<u64>,
    /// Above this it is killed.
    pub max: u64,
    /// It sleeps before this millisecond.
    pub sleeps: f64,
    /// Milliseconds in which it wanted more and slept; and those of the longest sleep.
    pub held: u64,
    pub longest: u64,
    pub slept: u64,
}

/// What happened in a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// It allocated above its limit.
    pub asks: bool,
    /// It needs more than its maximum.
    pub killed: bool,
}

/// Milliseconds that an allocation of a batch sleeps.
fn sleep(used: u64, high: u64) -> f64 {
    let over = used.saturating_sub(high) as f64 / high.max(1) as f64;
    let sleep = (over * over * 64_000.0).min(LONGEST);
    if sleep <= SHORTEST { 0.0 } else { sleep }
}

impl Group {
    /// In the millisecond that begins at `at` it wants so much, and takes at most `most` more.
    pub fn step(&mut self, at: u64, wants: u64, most: u64) -> Step {
        let mut step = Step { asks: false, killed: self.used > self.max };
        if wants <= self.used {
            self.used = wants;
            self.slept = 0;
            return step;
        }
        let mut left = most.min(wants - self.used);
        if self.sleeps > at as f64 {
            self.held += 1;
            self.slept += 1;
            self.longest = self.longest.max(self.slept);
            return step;
        }
        self.slept = 0;
        while left > 0 {
            let part = left.min(BATCH);
            if self.used + part > self.max {
                step.killed = true;
                break;
            }
            self.used += part;
            left -= part;
            step.asks |= self.limit.is_some_and(|limit| self.used > limit);
            let sleep = self.high.map_or(0.0, |high| sleep(self.used, high)) * part as f64 / BATCH as f64;
            if sleep > 0.0 {
                self.sleeps = at as f64 + sleep;
                break;
            }
        }
        step
    }

    /// It has ended.
    pub fn end(&mut self) {
        self.used = 0;
        self.sleeps = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::case::MEBI;

    #[test]
    fn allocations_above_high_sleep_as_the_kernel_documents() {
        // The table in mm/memcontrol.c, for a high of 100 MiB.
        let table = [(100, 0.0), (101, 0.0), (102, 25.6), (103, 57.6), (104, 102.4), (105, 160.0), (117, 1_849.6)];
        for (used, expected) in table {
            let slept = sleep(used * MEBI, 100 * MEBI);
            assert!((slept - expected).abs() < 1e-6, "{used} {slept}");
        }
        assert_eq!([sleep(150 * MEBI, 100 * MEBI), sleep(1, 0), sleep(0, 0)], [2_000.0, 2_000.0, 0.0]);
        assert_eq!((sleep(10_124, 10_000), sleep(10_126, 10_000) > 10.0), (0.0, true));
    }

    #[test]
    fn it_takes_what_it_wants_as_fast_as_it_can() {
        let mut group = Group { max: 1_000, ..Group::default() };
        assert_eq!((group.step(0, 500, 200), group.used), (Step::default(), 200));
        assert_eq!((group.step(1, 250, 200), group.used), (Step::default(), 250));
        assert_eq!((group.step(2, 100, 200), group.used), (Step::default(), 100), "falls at once");
        group.step(3, 2_000, 900);
        assert_eq!(group.used, 1_000, "up to the maximum");
        let step = group.step(4, 2_000, 1);
        assert_eq!((step, group.used), (Step { asks: false, killed: true }, 1_000));
        group.end();
        assert_eq!((group.used, group.held), (0, 0));
        let step = Group { used: 11, max: 10, ..Group::default() }.step(0, 11, 1);
        assert!(step.killed, "no more than the maximum from the beginning");
    }

    #[test]
    fn it_asks_while_it_allocates_above_the_limit() {
        let mut group = Group { limit: Some(200), max: 1_000, ..Group::default() };
        let asks: Vec<bool> = [200, 201, 201, 250, 240].map(|wants| group.step(0, wants, 500).asks).into();
        assert_eq!(asks, [false, true, false, true, false]);
    }

    #[test]
    fn above_high_it_is_held_up_until_the_sleep_is_over() {
        let high = Some(100 * MEBI);
        let mut group = Group { used: 105 * MEBI, limit: high, high, max: 500 * MEBI, ..Group::default() };
        // 160 ms for 256 KiB at 105 MiB; a little more above.
        assert!(group.step(0, 300 * MEBI, MEBI).asks);
        assert_eq!(group.used, 105 * MEBI + BATCH);
        let mut at = 1;
        while group.used == 105 * MEBI + BATCH {
            assert!(!group.step(at, 300 * MEBI, MEBI).asks || group.used > 105 * MEBI + BATCH);
            at += 1;
        }
        assert_eq!((at, group.held, group.longest), (178, 176, 176));
        // A new high does not wake it.
        group.high = None;
        let used = group.used;
        group.step(at, 300 * MEBI, MEBI);
        assert_eq!((group.used, group.held, group.longest), (used, 177, 176));
        group.step(at, 0, MEBI);
        assert_eq!(group.used, 0, "others of the container give back");
        group.end();
        group.step(at, 1, MEBI);
        assert_eq!((group.used, group.held), (1, 177));
    }
}
