//! A request takes one grant, and gives up everything else that it has asked for.

use super::{Asked, Search};

fn asked(ids: impl IntoIterator<Item = u64>) -> Vec<Asked> {
    ids.into_iter().map(|id| Asked { id, server: id as u32 % 10 }).collect()
}

fn search(ids: impl IntoIterator<Item = u64>) -> Search {
    let mut search = Search::default();
    search.begin(asked(ids));
    search
}

#[test]
fn the_first_grant_is_taken_and_the_others_are_cancelled() {
    let mut search = search(1..=3);
    let mut others = search.granted(2).unwrap();
    others.sort_by_key(|asked| asked.id);
    assert_eq!(others, asked([1, 3]));
    assert_eq!([search.granted(1), search.granted(3), search.granted(2)], [None, None, None], "refused");
}

#[test]
fn a_search_that_is_over_refuses_every_grant() {
    assert_eq!(Search::default().granted(1), None);
    let mut search = search([1, 2]);
    assert_eq!(search.give_up(), asked([1, 2]));
    assert_eq!(search.granted(1), None);
}

#[test]
fn looks_further_when_the_last_reservation_has_failed() {
    let mut search = search(1..=3);
    assert_eq!([1, 9, 3, 3].map(|id| search.failed(id)), [false; 4]);
    assert!(search.failed(2));
    assert!(!search.failed(2), "once");
}

#[test]
fn a_failure_leaves_the_other_reservations() {
    let mut search = search([1, 2]);
    assert!(!search.failed(1));
    assert_eq!(search.granted(2), Some(Vec::new()), "the failed one needs no cancellation");
    assert!(!search.failed(1), "a request that has a place does not look further");
}

#[test]
fn only_its_own_round_runs_out_of_patience() {
    let mut search = search([4, 5]);
    assert_eq!(search.out_of_patience(1), None, "an earlier round's time");
    assert_eq!(search.out_of_patience(4), Some(asked([4, 5])));
    assert_eq!(search.out_of_patience(4), None, "it has ended");
    search.begin(asked([6, 7]));
    assert_eq!(search.out_of_patience(4), None, "nor does an earlier one end a later one");
    assert!(search.granted(7).is_some());
    assert_eq!(search.out_of_patience(6), None, "a request with a place waits no more");
}

#[test]
fn rounds_are_bounded() {
    let mut search = Search::default();
    let rounds = (0..10).filter(|_| search.another_round(3)).count();
    assert_eq!(rounds, 3);
}
