//! The simulation as a whole.

use super::run::p99;
use super::*;
use bloc_node_agent::qos::Rule;
use std::time::Duration;

fn agent() -> Allocator {
    Allocator::Agent(Rule::new(Duration::from_millis(100)))
}

fn short() -> Case {
    Case { duration: Duration::from_secs(240), ..Case::default() }
}

/// What is promised where an application has bursts and the node is contended.
fn holds(case: &Case, unaided: &Outcome, aided: &Outcome) -> bool {
    aided.violations as f64 <= 0.7 * unaided.violations as f64
        && aided.worst <= unaided.worst
        && aided.outside_cores >= case.cores - case.part()
        && aided.sum <= 1.005
}

#[test]
fn a_seed_gives_one_outcome() {
    let outcome = run(&short(), agent());
    assert_eq!(outcome, run(&short(), agent()));
    assert_ne!(outcome, run(&Case { seed: 2, ..short() }, agent()));
    assert_ne!(outcome, run(&Case { delayed: false, ..short() }, agent()));
}

#[test]
fn the_agent_keeps_its_promise_where_others_do_not() {
    for seed in 1..=3 {
        let case = Case { seed, duration: Duration::from_secs(480), ..Case::default() };
        let rule = Rule::new(case.target);
        let unaided = run(&case, Allocator::Requests);
        assert!(!holds(&case, &unaided, &unaided), "{seed} {unaided:?}");
        for allocator in [agent(), Allocator::Oracle] {
            let aided = run(&case, allocator);
            assert!(holds(&case, &unaided, &aided), "{seed} {unaided:?} {aided:?}");
        }
        for allocator in [Allocator::Steps(rule), Allocator::Paper(rule)] {
            let aided = run(&case, allocator);
            assert!(!holds(&case, &unaided, &aided), "{seed} {unaided:?} {aided:?}");
        }
    }
}

#[test]
fn on_a_node_that_is_fully_requested_nothing_moves() {
    let full = Case { requested: 1.0, ..short() };
    assert_eq!(run(&full, agent()), run(&full, Allocator::Requests));
    let more = Case { requested: 1.5, ..short() };
    assert_eq!(run(&more, agent()), run(&more, Allocator::Requests));
}

#[test]
fn without_contention_nobody_is_late_and_nothing_is_to_be_gained() {
    let idle = Case { outside: 0.0, load: 0.3, ..short() };
    let unaided = run(&idle, Allocator::Requests);
    assert_eq!(unaided, run(&idle, agent()));
    // exp(-6) of the requests need more than 120 ms of CPU time.
    assert!(unaided.violations < unaided.requests / 200 && unaided.left == 0, "{unaided:?}");
    assert!((19.0..25.0).contains(&unaided.mean_ms) && (88.0..120.0).contains(&unaided.p99_ms), "{unaided:?}");
    assert!((1.15..1.25).contains(&unaided.cores), "0.3 of four: {unaided:?}");
    assert_eq!((unaided.outside_cores, unaided.outside_p99_ms, unaided.sum), (0.0, 0.0, 1.0));
}

#[test]
fn the_cores_are_all_used_and_each_side_has_its_part() {
    for load in [0.8, 1.3] {
        let case = Case { load, ..short() };
        for allocator in [Allocator::Requests, agent(), Allocator::Oracle] {
            let outcome = run(&case, allocator);
            assert!((outcome.cores + outcome.outside_cores - 4.0).abs() < 1e-6, "{outcome:?}");
            assert!(outcome.outside_cores >= 1.0 && outcome.cores <= 0.8 * 3.0 * 1.7, "{outcome:?}");
        }
    }
    let paper = run(&Case { load: 1.3, ..short() }, Allocator::Paper(Rule::new(Duration::from_millis(100))));
    assert!(paper.outside_cores < 0.5 && paper.sum > 10.0, "it takes from others: {paper:?}");
}

#[test]
fn who_leaves_has_waited_for_so_long_and_counts() {
    let case = Case { load: 1.3, ..short() };
    let outcome = run(&case, Allocator::Requests);
    assert!((outcome.p99_ms - 1_000.0).abs() < 1e-6 && outcome.left > outcome.requests / 10, "{outcome:?}");
    assert!(outcome.violations > outcome.left && outcome.mean_ms < 1_000.0, "{outcome:?}");
    let patient = run(&Case { patience: Duration::from_secs(10), ..case }, Allocator::Requests);
    assert!(patient.p99_ms > 5_000.0 && patient.worst > outcome.violations as f64 / outcome.requests as f64);
}

#[test]
fn the_p99_of_nothing_is_0() {
    assert_eq!(p99((1..=200).rev().map(f64::from).collect()), 198.0);
    assert_eq!([p99(vec![7.0]), p99(vec![])], [7.0, 0.0]);
}
