//! Who sets the limits of memory.

use super::super::plan::CONTAINERS;
use super::plan::LIMIT;
use serde::Serialize;

/// A way to set limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAllocator {
    /// Each container has 1.5 times the most that it has used, whatever the limit is.
    Static,
    /// Each has an equal part of the limit.
    Equal,
    /// The node agent.
    Agent,
}

const STATIC: f64 = 1.5;

impl MemoryAllocator {
    /// In the order of tables.
    pub const ALL: [Self; 3] = [Self::Static, Self::Equal, Self::Agent];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "memory-static",
            Self::Equal => "memory-equal",
            Self::Agent => "memory-agent",
        }
    }

    /// The first limits in bytes. `peaks` is the most that each container has used.
    pub fn limits(self, peaks: &[u64]) -> Vec<u64> {
        match self {
            Self::Static => peaks.iter().map(|peak| (*peak as f64 * STATIC) as u64).collect(),
            Self::Equal | Self::Agent => vec![LIMIT / CONTAINERS as u64; CONTAINERS],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::quota::memory::plan::MEBI;

    #[test]
    fn first_limits_are_a_peak_and_a_half_or_an_equal_part() {
        assert_eq!(MemoryAllocator::Static.limits(&[100, 200, 300, 400]), [150, 300, 450, 600]);
        for allocator in [MemoryAllocator::Equal, MemoryAllocator::Agent] {
            assert_eq!(allocator.limits(&[]), [192 * MEBI; 4]);
        }
        let names = MemoryAllocator::ALL.map(MemoryAllocator::name);
        assert_eq!(names, ["memory-static", "memory-equal", "memory-agent"]);
    }
}
