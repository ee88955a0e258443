//! Each way to set limits, by itself.

use super::allocator::{AgentSettings, Allocator, State};
use super::case::Case;
use super::case::MEBI;
use super::group::{Group, Version};
use super::load::Load;
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::memory::Rule;
use std::time::Duration;

/// Loads with these bases, in MiB.
fn loads(bases: &[u64]) -> Vec<Load> {
    let load = |base: &u64| {
        let mut load = Load::new(&Case::default(), 1);
        (load.base, load.burst) = (base * MEBI, 100 * MEBI);
        load
    };
    bases.iter().map(load).collect()
}

fn start(allocator: Allocator, bases: &[u64], limit: u64) -> (State, Vec<Group>) {
    allocator.start(&loads(bases), Bytes::mebi(limit)).unwrap()
}

/// Limit, `high` and maximum in MiB.
fn of(group: &Group) -> (Option<u64>, Option<u64>, u64) {
    (group.limit.map(|limit| limit / MEBI), group.high.map(|high| high / MEBI), group.max / MEBI)
}

#[test]
fn fixed_limits_are_a_peak_and_a_half_or_an_equal_part() {
    let (mut state, mut groups) = start(Allocator::Peak(1.5), &[100, 200], 1_000);
    assert_eq!(groups.iter().map(of).collect::<Vec<_>>(), [(None, None, 300), (None, None, 450)]);
    assert_eq!(groups[1].used, 200 * MEBI);
    state.tick(5_000, &mut groups);
    state.answer(5_000, 0, &mut groups);
    state.killed(0, &groups);
    assert_eq!(groups[0].max, 300 * MEBI);
    let (_, groups) = start(Allocator::Equal, &[100, 200], 1_000);
    assert_eq!(groups.iter().map(of).collect::<Vec<_>>(), [(None, None, 500), (None, None, 500)]);
}

#[test]
fn the_autoscaler_looks_back_ten_seconds_and_decides_each_second() {
    let (mut state, mut groups) = start(Allocator::Autoscaler, &[100, 200], 1_000);
    let run = |state: &mut State, from: u64, to: u64, uses: [u64; 2], groups: &mut [Group]| {
        for at in from..=to {
            groups[0].used = uses[0] * MEBI;
            groups[1].used = uses[1] * MEBI;
            state.tick(at, groups);
        }
        [groups[0].max / MEBI, groups[1].max / MEBI]
    };
    assert_eq!(run(&mut state, 1, 999, [100, 400], &mut groups), [500, 500], "not yet");
    assert_eq!(run(&mut state, 1_000, 1_000, [100, 400], &mut groups), [120, 480]);
    assert_eq!(run(&mut state, 1_001, 10_900, [100, 200], &mut groups), [120, 480], "the largest use of ten seconds");
    assert_eq!(run(&mut state, 10_901, 11_000, [100, 200], &mut groups), [120, 240]);
    // 60 and 140 above the uses, and 100 are left.
    assert_eq!(run(&mut state, 11_001, 12_000, [270, 630], &mut groups), [300, 700]);
    assert_eq!(
        run(&mut state, 12_001, 12_000 + 10_000, [0, 100], &mut groups),
        [324, 120],
        "not while it does not run"
    );
    state.killed(0, &groups);
    state.tick(23_000, &mut groups);
    assert_eq!(groups[0].max / MEBI, 388, "a fifth more than what killed it");
}

#[test]
fn the_agent_writes_limits_high_and_a_step_above() {
    let one = AgentSettings { version: Version::One, ..AgentSettings::default() };
    let (_, groups) = start(Allocator::Agent(one), &[100, 500], 1_000);
    assert_eq!(groups.iter().map(of).collect::<Vec<_>>(), [(Some(400), None, 416), (Some(550), None, 566)]);
    let (mut state, mut groups) = start(Allocator::Agent(AgentSettings::default()), &[100, 500], 1_000);
    assert_eq!(of(&groups[0]), (Some(400), Some(400), 416));
    state.tick(4_999, &mut groups);
    state.tick(4_000, &mut groups);
    assert_eq!(of(&groups[0]), (Some(400), Some(400), 416), "reclaims each five seconds");
    state.tick(5_000, &mut groups);
    assert_eq!(of(&groups[0]), (Some(150), Some(150), 166));
}

#[test]
fn the_agent_grants_steps_until_there_is_one_above_the_use() {
    let (mut state, mut groups) = start(Allocator::Agent(AgentSettings::default()), &[100, 500], 1_000);
    groups[1].used = 555 * MEBI;
    state.answer(20, 1, &mut groups);
    assert_eq!(of(&groups[1]), (Some(582), Some(582), 598));
    // The pool has 18; the other one gives what it has above 300 and the margin, as it is needed.
    groups[0].used = 300 * MEBI;
    groups[1].used = 615 * MEBI;
    state.answer(30, 1, &mut groups);
    assert_eq!(of(&groups[1]), (Some(646), Some(646), 662));
    assert_eq!(of(&groups[0]), (Some(354), Some(354), 370));
    groups[1].used = 640 * MEBI;
    state.answer(40, 1, &mut groups);
    assert_eq!(of(&groups[1]), (Some(650), Some(666), 666), "it must not sleep for what nobody has");
    let State::Agent(running) = &state else { panic!() };
    assert_eq!((running.grants, running.refused), (3, 1));
    groups[1].used = 600 * MEBI;
    state.tick(3_000, &mut groups);
    assert_eq!(of(&groups[1]), (Some(650), Some(650), 666), "it is not short any more");
    groups[0].used = 340 * MEBI;
    state.tick(4_000, &mut groups);
    let State::Agent(running) = &state else { panic!() };
    assert_eq!((of(&groups[0]).0, running.refused), (Some(350), 2), "each second all are served");
}

#[test]
fn the_agent_takes_nothing_that_others_use_by_now() {
    let (mut state, mut groups) = start(Allocator::Agent(AgentSettings::default()), &[100, 500], 1_000);
    groups[0].used = 380 * MEBI;
    // The pool has 50; it lacks 46, and three steps are 48.
    groups[1].used = 580 * MEBI;
    state.answer(20, 1, &mut groups);
    assert_eq!([of(&groups[0]).0, of(&groups[1]).0], [Some(400), Some(598)]);
    groups[1].used = 590 * MEBI;
    state.answer(30, 1, &mut groups);
    assert_eq!([of(&groups[0]).0, of(&groups[1]).0], [Some(400), Some(600)], "the other one uses 380 of its 400");
}

#[test]
fn what_may_differ_from_the_agent() {
    let tight = AgentSettings { tight: Bytes::mebi(8), ..AgentSettings::default() };
    let (mut state, mut groups) = start(Allocator::Agent(tight), &[100, 500], 720);
    // The part of the first one is 288, and 720 - 550 are there.
    assert_eq!([of(&groups[0]).0, of(&groups[1]).0], [Some(170), Some(550)]);
    groups[1].used = 590 * MEBI;
    state.answer(20, 1, &mut groups);
    assert_eq!([of(&groups[0]).0, of(&groups[1]).0], [Some(108), Some(612)], "of the margin 8 MiB are left");

    let double = AgentSettings { most_steps: 4, ..AgentSettings::default() };
    let (mut state, mut groups) = start(Allocator::Agent(double), &[100, 500], 4_000);
    let mut ask = |at: u64, used: u64| {
        groups[1].used = used * MEBI;
        state.answer(at, 1, &mut groups);
        groups[1].limit.unwrap() / MEBI - used
    };
    // It starts with 1600 MiB.
    let asked = [(0, 1_600), (1_000, 1_700), (2_000, 1_800), (3_000, 1_900), (4_001, 2_000)];
    assert_eq!(asked.map(|(at, used)| ask(at, used)), [16, 44, 72, 68, 16]);

    let often = AgentSettings { reclaim: Duration::from_secs(1), ..AgentSettings::default() };
    let (mut state, mut groups) = start(Allocator::Agent(often), &[100, 500], 1_000);
    state.tick(1_000, &mut groups);
    assert_eq!(of(&groups[0]).0, Some(150));
    let none = AgentSettings { rule: Rule { reserve: 0.9, ..Rule::default() }, ..AgentSettings::default() };
    assert_eq!(of(&start(Allocator::Agent(none), &[100, 500], 1_000).1[0]).0, Some(150));
    assert!(Allocator::Agent(none).start(&loads(&[500, 500]), Bytes::mebi(1_099)).is_err());
}
