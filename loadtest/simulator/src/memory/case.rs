//! What is simulated.

use bloc_node_agent::bytes::Bytes;
use std::time::Duration;

pub(super) const MEBI: u64 = 1 << 20;
/// What the first container grows by before it falls back, and in how many milliseconds.
pub(super) const GROWTH: u64 = 64 * MEBI;
pub(super) const GROWS: u64 = 256_000;
/// The largest burst; the smallest one is [`SMALLEST`].
pub(super) const LARGEST: u64 = 500 * MEBI;

/// A case. Times are whole milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Containers.
    pub containers: usize,
    /// What they may have together, as a multiple of the most that they want at once.
    pub room: f64,
    /// Memory that a burst takes and gives back in a second.
    pub speed: Bytes,
    /// How long a burst lasts between its rise and its fall.
    pub hold: Duration,
    /// From the end of a burst to the next one, at most.
    pub pause: Duration,
    /// From the moment in which a container exceeds its limit to the agent's answer.
    pub delay: Duration,
    /// The least that is measured; bursts are not cut off.
    pub duration: Duration,
    /// The seed.
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            containers: 4,
            room: 1.5,
            speed: Bytes::mebi(100),
            hold: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            delay: Duration::from_millis(10),
            duration: Duration::from_secs(600),
            seed: 1,
        }
    }
}

impl Case {
    /// Milliseconds until a burst has risen.
    pub(super) fn rise(&self, burst: u64) -> u64 {
        (burst * 1_000).div_ceil(self.speed.get().max(1))
    }

    /// Milliseconds from one burst to the next one.
    pub(super) fn every(&self) -> u64 {
        2 * self.rise(LARGEST) + (self.hold + self.pause).as_millis() as u64
    }

    /// Milliseconds in which each container has a burst.
    pub(super) fn round(&self) -> u64 {
        self.every() * self.containers as u64
    }

    /// Milliseconds that are measured: whole rounds.
    pub(super) fn measured(&self) -> u64 {
        (self.duration.as_millis() as u64).div_ceil(self.round()).max(1) * self.round()
    }
}
