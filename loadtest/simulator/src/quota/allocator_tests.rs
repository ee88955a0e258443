//! What each way to set quotas does, by exact values.

use super::allocator::{Allocator, State};
use super::case::FLOOR;
use super::cgroup::Counters;
use bloc_node_agent::Cores;
use bloc_node_agent::cpu::Rule;

const LIMIT: Cores = Cores::new(1.0);

/// Use in cores over 100 ms, and whether it was throttled.
fn counted(uses: &[(f64, bool)]) -> Vec<Counters> {
    let one = |&(used, throttled): &(f64, bool)| Counters {
        used: (used * 1e8) as u64,
        periods: 1,
        throttled: throttled.into(),
    };
    uses.iter().map(one).collect()
}

/// What is written from one step on, for some steps.
fn steps(state: &mut State, from: usize, steps: usize, uses: &[(f64, bool)]) -> Vec<(usize, usize, f64)> {
    let mut written = Vec::new();
    for at in from..from + steps {
        state.step(at, &counted(uses), LIMIT, |key, quota| {
            written.push((at, key, (quota.get() * 1_000.0).round() / 1_000.0));
        });
    }
    written
}

fn start(allocator: Allocator, peaks: &[f64]) -> (State, Vec<f64>) {
    let (state, quotas) = allocator.start(peaks, LIMIT);
    (state, quotas.iter().map(|quota| quota.get()).collect())
}

#[test]
fn a_static_quota_is_a_multiple_of_each_ones_own_peak_or_an_equal_part() {
    assert_eq!(start(Allocator::Peak(1.5), &[0.5, 1.0]).1, [0.75, 1.5]);
    for allocator in [Allocator::Equal, Allocator::Burst] {
        let (mut state, quotas) = start(allocator, &[0.5, 1.0]);
        assert_eq!(quotas, [0.5, 0.5]);
        assert_eq!(steps(&mut state, 0, 30, &[(0.5, true), (0.0, false)]), []);
    }
    assert_eq!(Allocator::Burst.burst(Cores::new(0.25)), 25_000_000);
    assert_eq!(Allocator::Equal.burst(Cores::new(0.25)), 0);
}

#[test]
fn the_autoscaler_looks_back_ten_seconds_each_second() {
    let (mut state, quotas) = start(Allocator::Autoscaler, &[0.0, 0.0]);
    assert_eq!(quotas, [0.5, 0.5]);
    assert_eq!(steps(&mut state, 0, 10, &[(0.5, true), (0.0, false)]), [(9, 0, 0.6), (9, 1, 0.02)]);
    // 0.5 is the largest of the last hundred until the step 109, ...
    let written = steps(&mut state, 10, 100, &[(0.25, true), (0.0, false)]);
    assert_eq!(
        written.iter().filter(|(_, key, _)| *key == 0).map(|(_, _, quota)| *quota).collect::<Vec<_>>(),
        [0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.3]
    );
    // ... and above the limit all get less.
    assert_eq!(steps(&mut state, 110, 10, &[(1.0, true), (0.25, false)]), [(119, 0, 0.8), (119, 1, 0.2)]);
}

#[test]
fn koordinator_adds_a_fifth_each_second_up_to_three_times_the_part() {
    let (mut state, quotas) = start(Allocator::Koordinator { node: Cores::new(2.0) }, &[0.0, 0.0]);
    assert_eq!(quotas, [0.5, 0.5]);
    // Throttled once in a second is enough.
    assert_eq!(steps(&mut state, 0, 1, &[(0.5, true), (0.0, false)]), []);
    assert_eq!(steps(&mut state, 1, 9, &[(0.5, false), (0.0, false)]), [(9, 0, 0.6)]);
    assert_eq!(steps(&mut state, 10, 10, &[(0.5, false), (0.0, false)]), [], "it stays, unless the node is busy");
    let grown = steps(&mut state, 20, 80, &[(0.5, true), (0.0, false)]);
    assert_eq!(grown.iter().map(|(_, _, quota)| *quota).collect::<Vec<_>>(), [0.72, 0.864, 1.037, 1.244, 1.493, 1.5]);
    assert_eq!(grown.last(), Some(&(79, 0, 1.5)));
    // From 0.45 of the node on, nothing grows; from half of it on, all lose a fifth.
    assert_eq!(steps(&mut state, 100, 10, &[(0.45, false), (0.45, true)]), []);
    let mut cooler = steps(&mut state, 110, 10, &[(0.44, false), (0.45, true)]);
    assert_eq!(cooler.pop(), Some((119, 1, 0.6)));
    assert_eq!(steps(&mut state, 120, 10, &[(0.5, true), (0.5, true)]), [(129, 0, 1.2), (129, 1, 0.5)]);
    assert_eq!(steps(&mut state, 130, 10, &[(0.49, false), (0.5, false)]), []);
}

#[test]
fn the_agent_is_told_use_and_throttled_share() {
    let rule = Rule { grow: 0.5, shrink: 1.0, slack: Cores::new(0.125), window: 1 };
    let (mut state, quotas) = start(Allocator::Agent(rule), &[0.0, 0.0]);
    assert_eq!(quotas, [0.125, 0.125]);
    // Half of 0.75 that are free.
    assert_eq!(steps(&mut state, 0, 1, &[(0.125, true), (0.0, false)]), [(0, 0, 0.5)]);
    assert_eq!(steps(&mut state, 1, 1, &[(0.25, false), (0.0, false)]), [(1, 0, 0.375)]);
    // Without a period nothing was throttled.
    let idle = vec![Counters::default(); 2];
    let mut written = Vec::new();
    state.step(2, &idle, LIMIT, |key, quota| written.push((key, quota)));
    assert_eq!(written, [(0, Cores::new(0.125))]);
    // More containers than the limit has floors for: the first ones are the agent's.
    let (_, many) = start(Allocator::Agent(Rule { slack: Cores::new(0.01), ..rule }), &[0.0; 60]);
    assert_eq!(many, [FLOOR.get(); 60]);
}
