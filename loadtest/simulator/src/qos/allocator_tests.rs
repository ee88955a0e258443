//! Tests of the allocators.

use super::allocator::{Allocator, State};
use super::case::Case;
use bloc_node_agent::qos::{Answers, Rule};
use std::time::Duration;

const TARGET: Duration = Duration::from_millis(100);

fn rule() -> Rule {
    Rule { threshold: 1.5, ..Rule::new(TARGET) }
}

/// Two containers with 768 shares each, of which they keep 384.
fn start(allocator: Allocator) -> State {
    allocator.start(&Case { containers: 2, ..Case::default() })
}

fn answers(count: u64, mean: u64) -> Answers {
    Answers { count, time: Duration::from_millis(count * mean) }
}

#[test]
fn shares_stay_at_what_is_requested() {
    let mut state = start(Allocator::Requests);
    assert_eq!(state.second(&[answers(20, 900), answers(20, 1)], &[1.0, 1.0]), None);
    assert_eq!(state.answered(0, 0.9), None);
}

#[test]
fn the_agent_hears_of_answers_and_writes_whole_shares() {
    let mut state = start(Allocator::Agent(rule()));
    // The second one offers 0.75 of 76.8.
    let late = [answers(20, 400), answers(20, 25)];
    assert_eq!(state.second(&late, &[0.0; 2]), Some(vec![826.0, 710.0]));
    assert_eq!(state.second(&[answers(19, 400), answers(20, 25)], &[0.0; 2]), Some(vec![826.0, 710.0]));
    assert_eq!(state.second(&[answers(1, 400), answers(20, 25)], &[0.0; 2]), Some(vec![883.0, 653.0]));
    assert_eq!(state.answered(0, 0.9), None);
}

#[test]
fn equal_steps_are_given_to_who_is_late() {
    let mut state = start(Allocator::Steps(rule()));
    let mut second =
        |means: [(u64, u64); 2]| state.second(&means.map(|(count, mean)| answers(count, mean)), &[0.0; 2]).unwrap();
    assert_eq!(second([(20, 151), (20, 150)]), [778.0, 758.0]);
    assert_eq!(second([(19, 400), (20, 150)]), [778.0, 758.0]);
    assert_eq!(second([(1, 400), (20, 150)]), [788.0, 748.0]);
    assert_eq!(second([(20, 400), (20, 400)]), [788.0, 748.0], "all are late");
    assert_eq!(second([(20, 1), (20, 1)]), [788.0, 748.0]);
    for _ in 0..40 {
        second([(20, 400), (20, 1)]);
    }
    assert_eq!(second([(20, 400), (20, 1)]), [1_152.0, 384.0]);
}

#[test]
fn the_oracle_gives_what_will_be_wanted_and_the_rest_in_proportion() {
    let mut state = start(Allocator::Oracle);
    let mut second = |wanted: [f64; 2]| -> Vec<f64> {
        let shares = state.second(&[answers(20, 400); 2], &wanted).unwrap();
        shares.into_iter().map(|shares| (shares * 1e6).round() / 1e6).collect()
    };
    assert_eq!(second([2.0, 1.0]), [1_024.0, 512.0]);
    assert_eq!(second([9.0, 1.0]), [1_152.0, 384.0], "the floor");
    assert_eq!(second([0.5, 0.5]), [768.0, 768.0]);
}

#[test]
fn in_the_paper_each_answer_gives_or_takes_a_step() {
    let mut state = start(Allocator::Paper(rule()));
    assert_eq!(state.second(&[answers(20, 400); 2], &[0.0; 2]), None);
    assert_eq!([0.151, 0.151, 0.15].map(|took| state.answered(1, took)), [Some(778.0), Some(788.0), Some(778.0)]);
    assert_eq!(state.answered(0, 0.01), Some(758.0));
    assert_eq!((0..80).map(|_| state.answered(0, 0.01)).last(), Some(Some(2.0)));
    assert_eq!((0..1_100).map(|_| state.answered(1, 0.2)).last(), Some(Some(10_240.0)));
}
