//! What each container wants, and when.

use super::super::plan::{CONTAINERS, Plan};
use std::time::Duration;

/// 2^20 bytes.
pub const MEBI: u64 = 1 << 20;
/// What all may use together. All of them want at most 488 MiB at once.
pub const LIMIT: u64 = 768 * MEBI;
/// What a grant adds, and the distance between a container's limit and its maximum.
pub const STEP: u64 = 16 * MEBI;
const BASE: u64 = 64 * MEBI;
const BURST: u64 = 200 * MEBI;
const GROWTH: u64 = 32 * MEBI;
/// A burst rises in this part of its time.
const RISES: u32 = 10;
/// Before the warm-up: the processes take their base, and the agent comes.
pub const SETTLES: Duration = Duration::from_secs(5);

/// What one container wants. Times are since the start of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes without a burst.
    pub base: u64,
    /// Bytes that it grows by until the end of the plan.
    pub growth: u64,
    /// Until then it grows.
    pub length: Duration,
    /// Bytes of its burst.
    pub burst: u64,
    /// When its burst begins.
    pub begin: Duration,
    /// How long that rises; it falls at once.
    pub rise: Duration,
    /// How long it stays.
    pub hold: Duration,
}

/// The shape of each container.
pub fn shapes(plan: Plan) -> Vec<Shape> {
    let shape = |container: usize| Shape {
        base: BASE,
        growth: if container == 0 { GROWTH } else { 0 },
        length: length(plan),
        burst: BURST,
        begin: counts_from(plan) + plan.every * container as u32,
        rise: plan.burst / RISES,
        hold: plan.burst - plan.burst / RISES,
    };
    (0..CONTAINERS).map(shape).collect()
}

/// From when on it counts.
pub fn counts_from(plan: Plan) -> Duration {
    SETTLES + plan.warm_up()
}

/// All of it.
pub fn length(plan: Plan) -> Duration {
    SETTLES + plan.length()
}

impl Shape {
    /// Bytes by which a burst rises in such a time.
    pub fn burst_in(&self, time: Duration) -> u64 {
        (self.burst as f64 * time.div_duration_f64(self.rise)) as u64
    }

    /// Bytes without the burst, and those of the burst.
    pub fn wants(&self, at: Duration) -> [u64; 2] {
        let part = |bytes: u64, share: f64| (bytes as f64 * share.min(1.0)) as u64;
        let grown = part(self.growth, at.div_duration_f64(self.length));
        let burst = at.checked_sub(self.begin).filter(|since| *since < self.rise + self.hold);
        let burst = burst.map_or(0, |since| part(self.burst, since.div_duration_f64(self.rise)));
        [self.base + grown, burst]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { burst: Duration::from_secs(10), every: Duration::from_secs(20) };

    #[test]
    fn bursts_come_in_turns_after_the_warm_up() {
        let shapes = shapes(PLAN);
        let begins: Vec<u64> = shapes.iter().map(|shape| shape.begin.as_secs()).collect();
        assert_eq!((begins, length(PLAN).as_secs(), counts_from(PLAN).as_secs()), (vec![15, 35, 55, 75], 95, 15));
        let times = shapes.iter().map(|shape| (shape.rise.as_secs(), shape.hold.as_secs(), shape.length.as_secs()));
        assert!(times.clone().all(|times| times == (1, 9, 95)), "{:?}", times.collect::<Vec<_>>());
        let bytes: Vec<_> = shapes.iter().map(|shape| (shape.base, shape.growth, shape.burst)).collect();
        assert_eq!(bytes[0], (64 * MEBI, 32 * MEBI, 200 * MEBI));
        assert!(bytes[1..].iter().all(|one| *one == (64 * MEBI, 0, 200 * MEBI)), "{bytes:?}");
        assert!(bytes.iter().map(|one| one.0 + one.1).sum::<u64>() + 200 * MEBI < LIMIT);
        assert!(bytes[1].0 + bytes[1].2 > LIMIT / 4, "an equal part is too little");
    }

    #[test]
    fn a_burst_rises_holds_and_falls_at_once() {
        let ms = Duration::from_millis;
        let shape =
            Shape { base: 100, growth: 10, length: ms(1_000), burst: 50, begin: ms(200), rise: ms(100), hold: ms(300) };
        let wants = [0, 100, 199, 200, 250, 300, 599, 600, 1_000, 2_000].map(|at| shape.wants(ms(at)));
        assert_eq!((shape.burst_in(ms(10)), shape.burst_in(ms(300))), (5, 150));
        let burst = [0, 0, 0, 0, 25, 50, 50, 0, 0, 0];
        let grown = [0, 1, 1, 2, 2, 3, 5, 6, 10, 10];
        let expected: Vec<[u64; 2]> = grown.into_iter().zip(burst).map(|(grown, burst)| [100 + grown, burst]).collect();
        assert_eq!(wants.to_vec(), expected);
    }
}
