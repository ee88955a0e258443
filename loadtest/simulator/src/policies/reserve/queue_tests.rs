//! A place is given once, and kept until somebody comes, cancels, or the time is over.

use super::{Cancelled, Queue, Reservation};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

fn reservation(id: u64) -> Reservation {
    Reservation { id, request: id as u32 }
}

fn queue_of(places: u32, waiting: impl IntoIterator<Item = u64>) -> Queue {
    let mut queue = Queue::new(Some(places));
    waiting.into_iter().for_each(|id| queue.reserve(reservation(id)));
    queue
}

fn grants(queue: &mut Queue) -> Vec<u64> {
    // One more than any test reserves.
    (0..100).map_while(|_| queue.grant()).map(|granted| granted.id).collect()
}

#[test]
fn grants_as_many_as_there_are_places_first_come_first_served() {
    let mut queue = queue_of(2, 1..=4);
    assert_eq!(grants(&mut queue), [1, 2]);
    assert!(queue.claim(1) && queue.enter(false));
    assert!(grants(&mut queue).is_empty(), "one is inside, and a place is kept for the other");
    queue.leave();
    assert_eq!(grants(&mut queue), [3]);
}

#[test]
fn a_kept_place_waits_for_its_own_request_only() {
    let mut queue = queue_of(1, [1]);
    assert_eq!(grants(&mut queue), [1]);
    assert!(!queue.enter(true), "an attempt with bid 0 does not take it");
    assert!(!queue.claim(2), "nor does another grant");
    assert!(queue.claim(1) && queue.enter(false));
    assert!(!queue.claim(1), "and only once");
}

#[test]
fn a_kept_place_is_free_again_after_a_refusal_or_the_timeout() {
    for end in ["refusal", "timeout"] {
        let mut queue = queue_of(1, [1, 2]);
        assert_eq!(grants(&mut queue), [1]);
        let ended = if end == "refusal" { queue.cancel(1) == Cancelled::Kept } else { queue.expire(1) };
        assert!(ended, "{end}");
        assert_eq!(grants(&mut queue), [2], "{end}");
        assert!(!queue.claim(1), "{end}: the request comes too late");
        assert!(!queue.expire(1) && queue.cancel(1) == Cancelled::Nothing, "{end}");
    }
}

#[test]
fn a_cancelled_reservation_is_passed_over() {
    let mut queue = queue_of(1, 1..=3);
    assert_eq!(grants(&mut queue), [1]);
    assert_eq!([queue.cancel(2), queue.cancel(9)], [Cancelled::Waiting, Cancelled::Nothing]);
    assert!(queue.claim(1) && queue.enter(false));
    queue.leave();
    assert_eq!(grants(&mut queue), [3]);
}

#[test]
fn a_request_without_a_limit_enters_a_full_server_which_then_grants_nothing() {
    let mut queue = queue_of(1, []);
    assert!(queue.enter(true) && !queue.enter(true) && queue.enter(false));
    queue.reserve(reservation(1));
    queue.leave();
    assert!(grants(&mut queue).is_empty(), "one of the two is still inside");
    queue.leave();
    assert_eq!(grants(&mut queue), [1]);
}

#[test]
fn a_place_that_is_turned_over_is_not_free() {
    let mut queue = queue_of(1, [1]);
    queue.turn();
    assert!(grants(&mut queue).is_empty() && !queue.enter(true));
    queue.turned();
    assert_eq!(grants(&mut queue), [1]);
}

#[test]
fn without_a_number_of_places_there_is_always_one() {
    let mut queue = Queue::new(None);
    (1..=50).for_each(|id| queue.reserve(reservation(id)));
    assert_eq!(grants(&mut queue).len(), 50);
    assert!(queue.enter(true));
}

#[test]
fn a_server_that_dies_tells_those_that_wait_and_forgets_the_rest() {
    let mut queue = queue_of(1, 1..=3);
    assert_eq!(grants(&mut queue), [1]);
    assert_eq!(queue.die().map(|lost| lost.id).collect::<Vec<_>>(), [2, 3]);
    assert!(queue.is_idle() && !queue.claim(1));
}

/// What may happen to a queue; the number picks a reservation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve,
    Enter,
    Claim(usize),
    Expire(usize),
    Cancel(usize),
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Reserve),
        1 => Just(Step::Enter),
        2 => (0usize..8).prop_map(Step::Claim),
        1 => (0usize..8).prop_map(Step::Expire),
        1 => (0usize..8).prop_map(Step::Cancel),
        2 => Just(Step::Leave),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// The oracle keeps the reservations in a list, and the places in a number.
    #[test]
    fn no_place_is_given_twice_and_no_reservation_is_lost(places in 1u32..4, steps in steps()) {
        let mut queue = Queue::new(Some(places));
        let (mut waiting, mut kept, mut inside, mut next) = (VecDeque::new(), BTreeSet::new(), 0u32, 0u64);
        for step in steps {
            let pick = |of: usize| next.checked_sub(of as u64 + 1);
            match step {
                Step::Reserve => {
                    queue.reserve(reservation(next));
                    waiting.push_back(next);
                    next += 1;
                }
                Step::Enter => {
                    let free = inside + (kept.len() as u32) < places;
                    prop_assert_eq!(queue.enter(true), free);
                    inside += u32::from(free);
                }
                Step::Claim(of) => if let Some(id) = pick(of) {
                    let claims = kept.remove(&id);
                    prop_assert_eq!(queue.claim(id), claims);
                    if claims {
                        prop_assert!(queue.enter(false));
                        inside += 1;
                    }
                },
                Step::Expire(of) => if let Some(id) = pick(of) {
                    prop_assert_eq!(queue.expire(id), kept.remove(&id));
                },
                Step::Cancel(of) => if let Some(id) = pick(of) {
                    let found = if kept.remove(&id) {
                        Cancelled::Kept
                    } else if waiting.contains(&id) {
                        waiting.retain(|waiting| *waiting != id);
                        Cancelled::Waiting
                    } else {
                        Cancelled::Nothing
                    };
                    prop_assert_eq!(queue.cancel(id), found);
                },
                Step::Leave => if inside > 0 {
                    queue.leave();
                    inside -= 1;
                },
            }
            for id in grants(&mut queue) {
                prop_assert_eq!(Some(id), waiting.pop_front());
                kept.insert(id);
            }
            prop_assert!(inside + kept.len() as u32 <= places);
            prop_assert!(waiting.is_empty() || inside + kept.len() as u32 == places, "a place is free");
            prop_assert_eq!(queue.waits(), !waiting.is_empty());
        }
    }
}
