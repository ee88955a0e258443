//! Who sets the quotas.

use super::plan::{CONTAINERS, LIMIT};
use serde::Serialize;
use std::collections::VecDeque;

/// A way to set quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// Each container has 1.5 times the most that it has used in 100 ms, whatever the limit.
    Static,
    /// Each has an equal part of the limit.
    Equal,
    /// The same, and it may use what it did not use before, at most one period's quota.
    Burst,
    /// Each second: the largest use of the last ten seconds and a fifth, all scaled to the limit.
    Autoscaler,
    /// An equal part of the limit; each second that it is throttled in, 1.2 times that, up to three
    /// times as much, whatever the limit. It is never lowered: the rule does that if the node is
    /// overloaded, and this one is not.
    Koordinator,
    /// The node agent.
    Agent,
    /// The containers are on two nodes, and each node's agent has half of the limit.
    NodesEqual,
    /// The same, and the agents lease parts of the limit from a control plane.
    NodesLeases,
}

const STATIC: f64 = 1.5;
const EQUAL: f64 = LIMIT / CONTAINERS as f64;
/// What each container keeps at least; the kernel allows no quota below a hundredth of a core.
pub const FLOOR: f64 = 0.02;
/// Steps of 100 ms in which the autoscaler looks back, and those between two decisions.
const BACK: usize = 100;
const EACH: usize = 10;
const MARGIN: f64 = 1.2;
const STEP_UP: f64 = 1.2;
const MOST: f64 = 3.0;

/// What was seen of a container in 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// CPU that it used, in cores.
    pub used: f64,
    /// Whether it was throttled.
    pub throttled: bool,
}

/// An allocator at work.
#[derive(Clone, Debug)]
pub struct State {
    allocator: Allocator,
    quotas: Vec<f64>,
    /// What was seen in the last steps, of each container.
    last: Vec<VecDeque<Interval>>,
    steps: usize,
}

impl Allocator {
    /// In the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Static,
        Self::Equal,
        Self::Burst,
        Self::Autoscaler,
        Self::Koordinator,
        Self::Agent,
        Self::NodesEqual,
        Self::NodesLeases,
    ];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Equal => "equal",
            Self::Burst => "burst",
            Self::Autoscaler => "autoscaler",
            Self::Koordinator => "koordinator",
            Self::Agent => "agent",
            Self::NodesEqual => "nodes-equal",
            Self::NodesLeases => "nodes-leases",
        }
    }

    /// On how many nodes the containers are.
    pub const fn nodes(self) -> usize {
        if matches!(self, Self::NodesEqual | Self::NodesLeases) { 2 } else { 1 }
    }

    /// Whether agents set the quotas.
    pub const fn has_agent(self) -> bool {
        matches!(self, Self::Agent | Self::NodesEqual | Self::NodesLeases)
    }

    /// The first quotas. `peaks` is the most that each container has used in 100 ms, in cores.
    pub fn quotas(self, peaks: &[f64]) -> Vec<f64> {
        match self {
            Self::Static => peaks.iter().map(|peak| (peak * STATIC).max(FLOOR)).collect(),
            _ => vec![EQUAL; CONTAINERS],
        }
    }

    /// Cores of which a period's quota may be used later.
    pub fn burst(self) -> Option<f64> {
        (self == Self::Burst).then_some(EQUAL)
    }
}

impl State {
    /// After the first quotas are set.
    pub fn new(allocator: Allocator, quotas: &[f64]) -> Self {
        let last = vec![VecDeque::with_capacity(BACK); quotas.len()];
        Self { allocator, quotas: quotas.to_vec(), last, steps: 0 }
    }

    /// After each 100 ms: the quotas to set, if it sets any.
    pub fn step(&mut self, seen: &[Interval]) -> Option<&[f64]> {
        for (last, interval) in self.last.iter_mut().zip(seen) {
            if last.len() == BACK {
                last.pop_front();
            }
            last.push_back(*interval);
        }
        self.steps += 1;
        if !self.steps.is_multiple_of(EACH) {
            return None;
        }
        match self.allocator {
            Allocator::Autoscaler => self.quotas = autoscaled(&self.last),
            Allocator::Koordinator => {
                for (quota, last) in self.quotas.iter_mut().zip(&self.last) {
                    if last.iter().rev().take(EACH).any(|interval| interval.throttled) {
                        *quota = (*quota * STEP_UP).min(MOST * EQUAL);
                    }
                }
            }
            // The agent sets them itself.
            Allocator::Static
            | Allocator::Equal
            | Allocator::Burst
            | Allocator::Agent
            | Allocator::NodesEqual
            | Allocator::NodesLeases => return None,
        }
        Some(&self.quotas)
    }
}

fn autoscaled(last: &[VecDeque<Interval>]) -> Vec<f64> {
    let most = |last: &VecDeque<Interval>| last.iter().map(|interval| interval.used).fold(0.0, f64::max);
    let wanted: Vec<f64> = last.iter().map(|last| (most(last) * MARGIN).max(FLOOR)).collect();
    let scale = (LIMIT / wanted.iter().sum::<f64>()).min(1.0);
    // Once more, because scaling may lead below it.
    wanted.into_iter().map(|wanted| (wanted * scale).max(FLOOR)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(used: [f64; 4], throttled: usize) -> Vec<Interval> {
        let one = |(n, used)| Interval { used, throttled: n == throttled };
        used.into_iter().enumerate().map(one).collect()
    }

    /// The quotas after so many steps in which the same was seen.
    fn after(state: &mut State, steps: usize, seen: &[Interval]) -> Option<Vec<f64>> {
        let mut quotas = None;
        for _ in 0..steps {
            quotas = state.step(seen).map(<[f64]>::to_vec);
        }
        quotas
    }

    fn close(quotas: Option<Vec<f64>>, expected: [f64; 4]) -> bool {
        let same = |quotas: Vec<f64>| quotas.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9);
        quotas.is_some_and(same)
    }

    #[test]
    fn first_quotas_are_a_peak_and_a_half_or_an_equal_part() {
        let peaks = [0.4, 2.0, 0.001, 0.1];
        assert_eq!(Allocator::Static.quotas(&peaks), [0.4 * 1.5, 3.0, FLOOR, 0.1 * 1.5]);
        assert!(Allocator::ALL[1..].iter().all(|one| one.quotas(&peaks) == [0.25; 4]));
        let bursts = Allocator::ALL.map(Allocator::burst);
        assert_eq!(bursts, [None, None, Some(0.25), None, None, None, None, None]);
    }

    #[test]
    fn the_autoscaler_takes_the_largest_use_of_ten_seconds_within_the_limit() {
        let mut state = State::new(Allocator::Autoscaler, &[0.25; 4]);
        let (low, high) = (intervals([0.1; 4], 9), intervals([0.5, 0.1, 0.1, 0.0], 9));
        assert_eq!(after(&mut state, 9, &low), None, "it decides each second");
        assert!(close(after(&mut state, 1, &low), [0.12; 4]));
        assert!(close(
            after(&mut state, 10, &high),
            [0.6 / 0.96, 0.12 / 0.96, 0.12 / 0.96, 0.12 / 0.96].map(|q| q * 0.96)
        ));
        assert!(close(after(&mut state, 90, &low), [0.6, 0.12, 0.12, 0.12]), "the burst is 9 s ago");
        assert!(close(after(&mut state, 10, &low), [0.12; 4]));
        assert!(close(after(&mut state, 100, &intervals([1.0, 0.5, 0.25, 0.0], 9)), {
            let sum = 1.2 + 0.6 + 0.3 + FLOOR;
            [1.2 / sum, 0.6 / sum, 0.3 / sum, FLOOR]
        }));
    }

    #[test]
    fn koordinator_raises_those_that_were_throttled_in_the_last_second() {
        let mut state = State::new(Allocator::Koordinator, &[0.25; 4]);
        assert!(close(after(&mut state, 10, &intervals([0.1; 4], 1)), [0.25, 0.3, 0.25, 0.25]));
        let calm = intervals([0.1; 4], 9);
        assert!(close(after(&mut state, 10, &calm), [0.25, 0.3, 0.25, 0.25]), "it never lowers them");
        assert!(close(after(&mut state, 100, &intervals([0.1; 4], 1)), [0.25, 0.75, 0.25, 0.25]));
    }

    #[test]
    fn others_set_nothing_later() {
        let others =
            Allocator::ALL.into_iter().filter(|one| ![Allocator::Autoscaler, Allocator::Koordinator].contains(one));
        for allocator in others {
            assert_eq!(after(&mut State::new(allocator, &[0.25; 4]), 20, &intervals([1.0; 4], 0)), None);
        }
    }
}
