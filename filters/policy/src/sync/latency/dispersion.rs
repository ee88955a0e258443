//! The index of dispersion of arrivals over 100 ms, 1 s and 10 s: the variance of the count in a
//! window, divided by its mean. It is 1 for a Poisson process, more for bursts.
//!
//! Threads count arrivals by slots of 100 ms. A block of 100 slots becomes numbers that add up over
//! blocks, proxies and replicas. A service's index is the mean of its servers' indices, weighted by
//! arrivals: a random split over `n` equal servers leaves each `1 + (I - 1) / n` of an index `I`.

use crate::units::Timestamp;
use std::time::Duration;

/// The length of a slot, in milliseconds.
const SLOT_MS: u64 = 100;
/// Slots per block and per window.
const BLOCK: u64 = 100;
const WINDOWS: [u64; 3] = [1, 10, BLOCK];
/// A thread hands over its counts within this time: an idle one ticks every 5 s.
const LATE: Duration = Duration::from_secs(7);
/// How many past blocks to keep if nobody asks for them.
const KEPT: u64 = 3;

/// Blocks, arrivals, and the sums of the squares of the counts in 100 ms, 1 s and 10 s.
pub const NUMBERS: usize = 5;

fn slot(now: Timestamp) -> u64 {
    now.as_nanos() / (SLOT_MS * 1_000_000)
}

/// The end of the blocks that are over and reported by all threads.
fn over(now: Timestamp) -> u64 {
    slot(now).saturating_sub(LATE.as_millis() as u64 / SLOT_MS) / BLOCK * BLOCK
}

/// Arrivals by slot, ascending, without empty slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Where the next block begins; 0: unknown.
    pub(super) next: u64,
    pub(super) counts: Vec<(u64, u64)>,
}

impl Slots {
    /// A request arrived. The clock never goes back.
    pub fn arrive(&mut self, now: Timestamp) {
        let slot = slot(now);
        match self.counts.last_mut() {
            Some((last, count)) if *last >= slot => *count += 1,
            _ => self.counts.push((slot, 1)),
        }
    }

    /// Whether there are no arrivals.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds another thread's counts. Ignores those that are too late for their block.
    pub fn add(&mut self, other: &Self) {
        for &(slot, count) in other.counts.iter().filter(|(slot, _)| *slot >= self.next) {
            match self.counts.binary_search_by_key(&slot, |(own, _)| *own) {
                Ok(at) => {
                    if let Some((_, own)) = self.counts.get_mut(at) {
                        *own = own.saturating_add(count);
                    }
                }
                Err(at) => self.counts.insert(at, (slot, count)),
            }
        }
    }

    /// Drops counts too old for any block.
    pub fn forget_old(&mut self, now: Timestamp) {
        let oldest = over(now).saturating_sub(KEPT * BLOCK);
        let old = self.counts.partition_point(|(slot, _)| *slot < oldest);
        if old > 0 {
            self.counts.drain(..old);
            self.next = oldest;
        }
    }

    /// Takes the blocks that are over, and drops those that nobody asked for in time.
    pub fn close(&mut self, now: Timestamp) -> [u64; NUMBERS] {
        let over = over(now);
        let oldest = over.saturating_sub(KEPT * BLOCK);
        if self.next == 0 {
            // The first block must be complete, so it starts after the first arrival's block.
            self.next = self.counts.first().map_or(over, |(first, _)| (first / BLOCK + 1) * BLOCK);
        }
        self.next = self.next.max(oldest);
        let next = self.next;
        self.counts.retain(|(slot, _)| *slot >= next);
        let mut numbers = [0; NUMBERS];
        while self.next < over {
            let ends = self.next + BLOCK;
            let split = self.counts.partition_point(|(slot, _)| *slot < ends);
            let block: Vec<(u64, u64)> = self.counts.drain(..split).collect();
            let [blocks, arrivals, squares @ ..] = &mut numbers;
            *blocks += 1;
            *arrivals += block.iter().map(|(_, count)| count).sum::<u64>();
            for (sum, window) in squares.iter_mut().zip(WINDOWS) {
                *sum = sum.saturating_add(squares_of(&block, window));
            }
            self.next = ends;
        }
        numbers
    }
}

/// The sum of squared counts in windows of this many slots.
fn squares_of(block: &[(u64, u64)], window: u64) -> u64 {
    let windows = block.chunk_by(|one, next| one.0 / window == next.0 / window);
    let counts = windows.map(|slots| slots.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count)));
    counts.fold(0, |sum, count| sum.saturating_add(count.saturating_mul(count)))
}

/// The indices of dispersion over 100 ms, 1 s and 10 s; none without arrivals.
pub fn indices(numbers: [f64; NUMBERS]) -> Option<[f64; 3]> {
    let [blocks, arrivals, squares @ ..] = numbers;
    if arrivals <= 0.0 || blocks <= 0.0 {
        return None;
    }
    let mut indices = [0.0; 3];
    for ((index, squares), window) in indices.iter_mut().zip(squares).zip(WINDOWS) {
        let windows = blocks * (BLOCK / window) as f64;
        let mean = arrivals / windows;
        *index = ((squares / windows - mean * mean) / mean).max(0.0);
    }
    Some(indices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::rng::Rng;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// The numbers of these arrivals, in milliseconds, after their blocks are over.
    fn numbers(arrivals: &[u64], end: u64) -> [u64; NUMBERS] {
        let mut slots = Slots::default();
        arrivals.iter().for_each(|millis| slots.arrive(at(*millis)));
        slots.close(at(end))
    }

    #[test]
    fn a_block_is_closed_when_all_threads_had_time_to_report_it() {
        let mut slots = Slots { next: 100, counts: Vec::new() };
        assert!(slots.is_empty());
        [10_000, 10_050, 10_150, 11_100, 19_999, 20_000].into_iter().for_each(|millis| slots.arrive(at(millis)));
        assert_eq!(slots.close(at(26_999)), [0; NUMBERS]);
        // Counts in 100 ms: 2, 1, 1, 1; in 1 s: 3, 1, 1; in 10 s: 5.
        assert_eq!(slots.close(at(27_000)), [1, 5, 7, 11, 25]);
        assert_eq!(slots.counts, [(200, 1)]);
        assert!(!slots.is_empty());
        let late = Slots { next: 0, counts: vec![(150, 7), (200, 2)] };
        slots.add(&late);
        assert_eq!(slots.close(at(37_000)), [1, 3, 9, 9, 9], "what came too late is left out");
        assert_eq!(slots.close(at(57_000)), [2, 0, 0, 0, 0], "blocks without arrivals");
        assert!(slots.is_empty());
    }

    #[test]
    fn the_first_block_is_whole_and_old_ones_are_dropped() {
        assert_eq!(numbers(&[12_345, 20_000], 37_000), [1, 1, 1, 1, 1]);
        assert_eq!(numbers(&[], 37_000), [0; NUMBERS]);
        let mut slots = Slots { next: 100, counts: vec![(100, 1), (900, 1)] };
        assert_eq!(slots.close(at(107_000)), [3, 1, 1, 1, 1]);
        assert_eq!(slots.next, 1000);
    }

    #[test]
    fn slots_that_nobody_asks_for_are_dropped() {
        let mut slots = Slots::default();
        for seconds in 1..3_600 {
            slots.arrive(at(1_000 * seconds));
            slots.forget_old(at(1_000 * seconds));
            assert!(slots.counts.len() < 60, "{} after {seconds} s", slots.counts.len());
        }
        assert_eq!((slots.next, slots.counts.first()), (35_600, Some(&(35_600, 1))));
        assert_eq!(slots.close(at(3_607_000))[..2], [3, 30], "the last whole blocks are there");
        let mut new = Slots::default();
        new.arrive(at(105_000));
        new.forget_old(at(105_000));
        assert_eq!(new.close(at(137_000)), [2, 0, 0, 0, 0], "no blocks before the first arrival");
    }

    #[test]
    fn threads_add_up() {
        let (mut one, mut other) = (Slots::default(), Slots::default());
        [5_000, 5_100, 5_300].into_iter().for_each(|millis| one.arrive(at(millis)));
        assert_eq!(one.counts, [(50, 1), (51, 1), (53, 1)]);
        one.arrive(at(5_399));
        assert_eq!(one.counts, [(50, 1), (51, 1), (53, 2)]);
        [5_100, 5_199, 5_200].into_iter().for_each(|millis| other.arrive(at(millis)));
        one.add(&other);
        assert_eq!(one.counts, [(50, 1), (51, 3), (52, 1), (53, 2)]);
    }

    #[test]
    fn a_poisson_process_has_an_index_of_one_and_a_steady_one_of_zero() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut poisson, mut time) = (Vec::new(), 0.0);
        while time < 2_000_000.0 {
            time -= 5.0 * (1.0 - rng.unit()).ln();
            poisson.push(time as u64);
        }
        let sum = |arrivals: &[u64]| {
            let (mut slots, mut sum, mut next) = (Slots::default(), [0.0; NUMBERS], 10_000);
            for millis in arrivals {
                slots.arrive(at(*millis));
                if *millis >= next {
                    next += 10_000;
                    slots.close(at(*millis)).into_iter().zip(&mut sum).for_each(|(number, sum)| *sum += number as f64);
                }
            }
            indices(sum).unwrap()
        };
        let [short, middle, long] = sum(&poisson);
        assert!((short - 1.0).abs() < 0.05 && (middle - 1.0).abs() < 0.1 && (long - 1.0).abs() < 0.3);
        let steady: Vec<u64> = (0..400_000).map(|nth| nth * 5).collect();
        assert!(sum(&steady).into_iter().all(|index| index < 1e-9));
        // 100 at once each second: even over 1 s.
        let bursts: Vec<u64> = (0..200_000).map(|nth| nth / 100 * 1_000 + 500).collect();
        let [short, middle, long] = sum(&bursts);
        assert!((short - 90.0).abs() < 1.0 && middle < 1e-9 && long < 1e-9, "{short} {middle} {long}");
        assert_eq!(indices([3.0, 0.0, 0.0, 0.0, 0.0]), None);
    }
}
