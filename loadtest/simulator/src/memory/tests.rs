//! The simulation as a whole.

use super::*;
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::memory::Rule;
use std::time::Duration;

/// One round of bursts.
fn case(speed: u64) -> Case {
    Case { speed: Bytes::mebi(speed), duration: Duration::ZERO, ..Case::default() }
}

fn agent(version: Version) -> Allocator {
    Allocator::Agent(AgentSettings { version, ..AgentSettings::default() })
}

fn of(case: &Case, allocator: Allocator) -> Outcome {
    run(case, allocator).unwrap()
}

#[test]
fn a_seed_gives_one_outcome() {
    let case = case(300);
    let outcome = of(&case, agent(Version::Two));
    assert_eq!(outcome, of(&case, agent(Version::Two)));
    assert_ne!(outcome, of(&Case { seed: 2, ..case }, agent(Version::Two)));
}

#[test]
fn only_static_limits_are_more_than_the_limit() {
    for containers in [4, 16] {
        let case = Case { containers, ..case(300) };
        let equal = of(&case, Allocator::Equal);
        assert!((equal.mean_sum - 1.0).abs() < 1e-6 && equal.sum <= 1.0, "{equal:?}");
        for allocator in [Allocator::Autoscaler, agent(Version::One), agent(Version::Two)] {
            for room in [1.1, 1.5, 2.0] {
                let outcome = of(&Case { room, ..case.clone() }, allocator);
                assert!(outcome.sum <= 1.0, "{allocator:?} {room} {outcome:?}");
                assert!(outcome.mean_sum < outcome.sum && outcome.used < outcome.sum, "{outcome:?}");
            }
        }
        let fixed = of(&case, Allocator::Peak(1.5));
        assert!(fixed.sum > 1.5 && (fixed.sum - fixed.mean_sum).abs() < 1e-6, "{fixed:?}");
        assert!((0.5..=0.67).contains(&fixed.used), "all bursts are served, of 1 / 1.5: {fixed:?}");
    }
}

#[test]
fn the_agent_kills_nobody_where_equal_parts_do() {
    for speed in [10, 100, 1_024] {
        let case = case(speed);
        let equal = of(&case, Allocator::Equal);
        assert!(equal.bursts == 4 && (3..=4).contains(&equal.kills), "{speed} {equal:?}");
        let fixed = of(&case, Allocator::Peak(1.5));
        assert_eq!(fixed.kills, 0);
        for version in [Version::One, Version::Two] {
            let agent = of(&case, agent(version));
            assert_eq!((agent.kills, agent.refused), (0, 0), "{speed} {version:?} {agent:?}");
            assert!((agent.used - fixed.used).abs() < 1e-9, "{speed}: it serves all: {agent:?} {fixed:?}");
            assert!(agent.grants >= 40 && agent.slack_p50 <= 0.45 * fixed.slack_p50, "{agent:?} {fixed:?}");
        }
    }
    let (slow, fast) = (of(&case(10), Allocator::Autoscaler), of(&case(100), Allocator::Autoscaler));
    assert_eq!((slow.kills, fast.kills), (0, 4), "a second is too long");
}

#[test]
fn a_fast_container_is_held_up_in_version_2_and_killed_in_version_1_where_the_answer_comes_late() {
    assert_eq!(of(&case(100), agent(Version::Two)).held_ms, 0.0);
    let fast = of(&case(1_024), agent(Version::Two));
    assert!((90.0..150.0).contains(&fast.held_ms) && (10..=13).contains(&fast.longest_ms), "{fast:?}");
    let late = Case { delay: Duration::from_millis(50), ..case(1_024) };
    let held = of(&late, agent(Version::Two));
    assert!(held.kills == 0 && held.held_ms > 3.0 * fast.held_ms, "{held:?}");
    let killed = of(&late, agent(Version::One));
    assert!(killed.kills >= 4 && killed.held_ms == 0.0, "{killed:?}");
}

#[test]
fn margins_of_others_kill_where_the_limit_is_tight() {
    let case = Case { containers: 16, room: 1.1, ..case(100) };
    let with = |agent| run(&case, Allocator::Agent(agent));
    let own = with(AgentSettings::default()).unwrap();
    assert!(own.kills > 8 && own.refused > 0, "{own:?}");
    let tight = with(AgentSettings { tight: Bytes::mebi(8), ..AgentSettings::default() }).unwrap();
    assert_eq!(tight.kills, 0, "{tight:?}");
    let small = Rule { margin: Bytes::mebi(16), ..Rule::default() };
    assert_eq!(with(AgentSettings { rule: small, tight: small.margin, ..AgentSettings::default() }).unwrap().kills, 0);
    let many = Case { containers: 68, ..case.clone() };
    let refused = run(&many, Allocator::Agent(AgentSettings::default())).unwrap_err();
    assert_eq!(refused.limit, many.limit());
    assert!(refused.needed > refused.limit);
}

#[test]
fn memory_is_taken_sooner_where_it_is_reclaimed_more_often() {
    let case = case(100);
    let [own, often] = [5, 1].map(|seconds| {
        let agent = AgentSettings { reclaim: Duration::from_secs(seconds), ..AgentSettings::default() };
        of(&case, Allocator::Agent(agent))
    });
    assert!(often.slack_p99 < 0.5 * own.slack_p99 && often.mean_sum < own.mean_sum, "{often:?} {own:?}");
    assert_eq!((often.slack_p50, own.slack_p50), (50.0, 50.0), "the margin");
}
