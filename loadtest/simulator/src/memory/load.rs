//! What each container wants.

use super::case::{Case, GROWS, GROWTH, LARGEST, MEBI};
use bloc_node_agent::bytes::Bytes;

const SMALLEST: u64 = 300 * MEBI;
/// Smallest and largest use without a burst.
const BASES: [u64; 2] = [100 * MEBI, 300 * MEBI];
/// Milliseconds in which a container that was killed starts again: the kubelet's first back-off.
const RESTARTS: u64 = 10_000;
/// Before this many milliseconds nothing is measured, and there is no burst.
pub(super) const WARM_UP: u64 = 10_000;

/// The load of one container.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub base: u64,
    pub burst: u64,
    grows: bool,
    /// Milliseconds: its first burst begins, the next one after a round; it rises, holds and falls.
    begins: u64,
    round: u64,
    rise: u64,
    hold: u64,
    /// It starts then, and has grown since. What is left of the burst in which it was killed is
    /// lost.
    starts: u64,
}

impl Load {
    pub fn new(case: &Case, key: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(case.seed.wrapping_mul(1_000_003).wrapping_add(key as u64));
        let [least, most] = BASES;
        let (base, burst) = (rng.u64(least..=most), rng.u64(SMALLEST..=LARGEST));
        // Bursts begin at no fixed place between two reclaims.
        let late = rng.u64(0..=case.pause.as_millis() as u64);
        Self {
            base,
            burst,
            grows: key == 0,
            begins: WARM_UP + case.every() * key as u64 + late,
            round: case.round(),
            rise: case.rise(burst),
            hold: case.hold.as_millis() as u64,
            starts: 0,
        }
    }

    /// The most that it wants.
    pub fn peak(&self) -> u64 {
        self.base + self.burst + if self.grows { GROWTH } else { 0 }
    }

    /// What it wants at this millisecond.
    pub fn wants(&self, at: u64) -> u64 {
        if at < self.starts {
            return 0;
        }
        let growth = if self.grows { GROWTH * ((at - self.starts) % GROWS) / GROWS } else { 0 };
        let burst = self.since(at).map_or(0, |since| {
            let falls = self.rise + self.hold;
            let part = if since < falls { since.min(self.rise) } else { self.rise - (since - falls) };
            (u128::from(self.burst) * u128::from(part) / u128::from(self.rise)) as u64
        });
        self.base + growth + burst
    }

    /// It was killed at this millisecond.
    pub fn kill(&mut self, at: u64) {
        self.starts = at + RESTARTS;
    }

    /// Milliseconds since its burst began, if it has one now.
    fn since(&self, at: u64) -> Option<u64> {
        let since = at.checked_sub(self.begins)? % self.round;
        let lost = self.starts + since >= at + RESTARTS;
        (since < 2 * self.rise + self.hold && !lost).then_some(since)
    }
}

impl Case {
    /// The loads of all containers.
    pub(super) fn loads(&self) -> Vec<Load> {
        (0..self.containers).map(|key| Load::new(self, key)).collect()
    }

    /// What all may have together.
    pub fn limit(&self) -> Bytes {
        let loads = self.loads();
        let bases: u64 = loads.iter().map(|load| load.base).sum();
        let burst = loads.iter().map(|load| load.burst).max().unwrap_or(0);
        Bytes::new(((bases + GROWTH + burst) as f64 * self.room) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_node_agent::bytes::Bytes;
    use std::time::Duration;

    fn case() -> Case {
        Case { speed: Bytes::mebi(100), pause: Duration::ZERO, ..Case::default() }
    }

    #[test]
    fn one_container_after_the_other_has_a_burst_that_rises_holds_and_falls() {
        let case = case();
        // 500 MiB in 5 s, twice, and 10 s.
        assert_eq!((case.every(), case.round(), case.measured()), (20_000, 80_000, 640_000));
        let mut load = Load::new(&case, 1);
        (load.base, load.burst, load.rise) = (100, 5_000, 5_000);
        let at = |load: &Load, at: u64| load.wants(30_000 + at) - 100;
        let wanted = [0, 1, 5_000, 14_999, 15_000, 15_001, 19_999, 20_000, 79_999].map(|time| at(&load, time));
        assert_eq!(wanted, [0, 1, 5_000, 5_000, 5_000, 4_999, 1, 0, 0]);
        assert_eq!((load.wants(29_999), at(&load, 80_007)), (100, 7), "the next one after a round");
        load.kill(30_005);
        assert_eq!([5, 10_004].map(|time| load.wants(30_000 + time)), [0, 0], "until it has started again");
        assert_eq!([10_005, 10_006, 19_000].map(|time| at(&load, time)), [0, 0, 0], "the rest of the burst is lost");
        assert_eq!(at(&load, 80_007), 7);
        load.kill(30_000);
        assert_eq!(at(&load, 15_000), 0);
        load.kill(29_999);
        assert_eq!(at(&load, 15_000), 5_000, "a kill before the burst");
    }

    #[test]
    fn the_first_container_grows_slowly_and_falls_back() {
        let load = Load::new(&case(), 0);
        let grown = |load: &Load, at: u64| load.wants(at) - load.base;
        // Burst from 10 to 30 s at most; round of 80 s.
        assert_eq!([0, 4_000, 64_000].map(|at| grown(&load, at)), [0, MEBI, 16 * MEBI]);
        assert_eq!(grown(&load, GROWS + 20_000), 5 * MEBI);
        assert_eq!(grown(&Load { grows: false, ..load.clone() }, 64_000), 0);
        let mut killed = load.clone();
        killed.kill(50_000);
        assert_eq!(grown(&killed, 64_000), MEBI, "since it has started again");
        assert_eq!(load.peak(), load.base + load.burst + GROWTH);
        let other = Load::new(&case(), 1);
        assert_eq!(other.peak(), other.base + other.burst);
    }

    #[test]
    fn sizes_are_drawn_and_repeat_with_the_seed() {
        let case = Case { pause: Duration::from_secs(5), containers: 68, ..case() };
        let loads = case.loads();
        let of = |loads: &[Load]| loads.iter().map(|load| (load.base, load.burst, load.begins)).collect::<Vec<_>>();
        assert_eq!(of(&loads), of(&case.loads()));
        assert_ne!(of(&loads), of(&Case { seed: 2, ..case.clone() }.loads()));
        let mut latest = 0;
        for (key, load) in loads.iter().enumerate() {
            assert!((100 * MEBI..=300 * MEBI).contains(&load.base), "{load:?}");
            assert!((300 * MEBI..=500 * MEBI).contains(&load.burst), "{load:?}");
            let late = load.begins - WARM_UP - case.every() * key as u64;
            assert!(late <= 5_000, "{late}");
            latest = latest.max(late);
            assert_eq!(load.rise, (load.burst * 10).div_ceil(MEBI), "100 MiB/s");
        }
        assert!(latest > 4_000, "{latest}");
        let bases: u64 = loads.iter().map(|load| load.base).sum();
        let burst = loads.iter().map(|load| load.burst).max().unwrap();
        let limit = Case { room: 2.0, ..case.clone() }.limit();
        assert_eq!(limit, Bytes::new(2 * (bases + GROWTH + burst)));
        let most = (0..case.measured()).step_by(500).map(|at| loads.iter().map(|load| load.wants(at)).sum::<u64>());
        let most = most.max().unwrap() as f64 / limit.get() as f64;
        assert!((0.45..=0.5).contains(&most), "{most}");
    }
}
