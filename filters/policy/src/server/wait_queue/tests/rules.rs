//! Each rule on its own.

use super::*;

/// An observed fault: two workers, one place, 16 requests, and the whole process stalls for 3 s.
/// Neither worker takes the other for dead, so there is never a second place.
#[test]
fn every_held_request_is_answered_after_the_whole_process_stalls() {
    let requests = (0..16).map(|n| Request {
        at: n,
        worker: n as usize % 2,
        takes: 100,
        bound: 15_000,
        concurrency: 1,
        patience: None,
    });
    let requests: Vec<Request> = requests.collect();
    for time in [1_000, 2_500, 3_000, 6_000, 20_000] {
        let stalls = [0, 1].map(|worker| Stall { worker, from: 150, until: 150 + time + 10 * worker as u64 });
        check(World { strict: true, ..world(2, &requests, &stalls, time) });
    }
}

/// Neither worker has looked at the shared data before.
#[test]
fn a_new_worker_sees_the_place_that_another_worker_has_taken() {
    let data = Data::default();
    let one = Concurrency::new(1);
    let (mut here, mut there) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    assert!(here.arrive(&data, one, at(0)));
    assert!(!there.arrive(&data, one, at(0)));
}

/// The host has no room for shared data: no request is held, and one held already times out.
#[test]
fn without_shared_data_requests_enter_and_held_ones_time_out() {
    struct Nothing;
    impl Shared for Nothing {
        fn get(&self, _key: &str) -> (Option<Vec<u8>>, Cas) {
            (None, Cas::ABSENT)
        }
        fn set(&self, _key: &str, _value: &[u8], _cas: Cas) -> bool {
            false
        }
        fn overwrite(&self, _key: &str, _value: &[u8]) {}
    }
    let one = Concurrency::new(1);
    let mut queue = WaitQueue::<u32>::new(SERVICE, 1);
    assert!(queue.arrive(&Nothing, one, at(0)) && queue.arrive(&Nothing, one, at(0)));
    queue.hold(7, one, at(100));
    assert_eq!(queue.look(&Nothing, at(99)).late, [0; 0]);
    assert_eq!(queue.look(&Nothing, at(100)).late, [7]);
}

#[test]
fn a_held_request_gets_a_gone_workers_place_within_three_seconds() {
    let data = Data::default();
    let one = Concurrency::new(1);
    let (mut gone, mut here) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    assert!(gone.arrive(&data, one, at(0)));
    assert!(!here.arrive(&data, one, at(0)));
    here.hold(7, one, at(100_000));
    let looks = |here: &mut WaitQueue<u32>, until: u64| {
        (0..until).step_by(250).flat_map(|now| here.look(&data, at(now)).in_turn).collect::<Vec<_>>()
    };
    assert_eq!(looks(&mut here, 2_500), [0; 0]);
    assert_eq!(looks(&mut here, 3_000), [7]);
}

/// Traffic is so sparse that a thread is idle most of the time, and looks every few seconds only.
#[test]
fn an_idle_worker_also_frees_the_place_of_a_worker_that_is_gone() {
    let data = Data::default();
    let one = Concurrency::new(1);
    let (mut gone, mut here) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    assert!(gone.arrive(&data, one, at(0)));
    let mut now = 5_000;
    for _ in 0..20 {
        let turns = here.look(&data, at(now));
        assert!(turns.in_turn.is_empty() && turns.late.is_empty());
        now += if here.needs_looks() { 250 } else { 5_000 };
    }
    assert!(here.arrive(&data, one, at(now)));
}

#[test]
fn giving_up_removes_that_requests_own_turn_from_the_wait_queue() {
    let data = Data::default();
    let one = Concurrency::new(1);
    let (mut here, mut there) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    assert!(here.arrive(&data, one, at(0)));
    for (queue, number) in [(&mut here, 1), (&mut there, 2)] {
        assert!(!queue.arrive(&data, one, at(0)));
        queue.hold(number, one, at(100_000));
    }
    assert!(!here.arrive(&data, one, at(0)));
    here.hold(3, one, at(100_000));
    assert_eq!(here.cancel(&data, at(1), |held| *held == 1).in_turn, [0; 0]);
    let turns = here.leave(&data, at(2));
    assert_eq!(
        (turns.in_turn.as_slice(), turns.wake.as_slice()),
        (&[][..], &[2][..]),
        "the next turn is the other worker's"
    );
    assert_eq!(there.look(&data, at(3)).in_turn, [2]);
}

/// A queue with one occupied place and these held requests.
fn holding<const N: usize>(data: &Data, requests: [u32; N]) -> WaitQueue<u32> {
    let (one, mut queue) = (Concurrency::new(1), WaitQueue::new(SERVICE, 1));
    assert!(queue.arrive(data, one, at(0)));
    for request in requests {
        assert!(!queue.arrive(data, one, at(0)));
        queue.hold(request, one, at(100_000));
    }
    queue
}

/// The control plane removes the service while requests are held.
#[test]
fn requests_that_need_not_be_held_any_more_leave_at_the_next_look() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let mut queue = holding(&data, [1, 2, 3]);
    queue.configure(|number| (*number == 2).then_some(one));
    assert_eq!(queue.look(&data, at(1)).in_turn, [1, 3], "also from behind one that is still held");
    assert_eq!(queue.look(&data, at(1)).in_turn, [0; 0]);
    queue.configure(|_| None);
    assert_eq!(queue.look(&data, at(2)).in_turn, [2]);
    assert!((0..4).all(|_| queue.leave(&data, at(3)).in_turn.is_empty()) && queue.is_idle());
}

#[test]
fn a_worker_that_resigns_frees_its_place_and_wakes_the_other_workers_of_its_service() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let mut gone = WaitQueue::<u32>::new(SERVICE, 1);
    let mut others = [2, 3].map(|vm| WaitQueue::<u32>::new(SERVICE, vm));
    let mut elsewhere = WaitQueue::<u32>::new("another", 1);
    assert!(gone.arrive(&data, one, at(0)) && elsewhere.arrive(&data, one, at(0)));
    for queue in &mut others {
        assert!(!queue.arrive(&data, one, at(0)));
        queue.hold(7, one, at(100_000));
    }
    assert_eq!(resign(&data, SERVICE, 1), [2, 3]);
    assert_eq!(others[0].look(&data, at(1)).in_turn, [7]);
    assert!(!WaitQueue::<u32>::new("another", 4).arrive(&data, one, at(1)), "its place for another service is taken");
    assert_eq!(resign(&data, "a third", 1), [0; 0]);
}

#[test]
fn a_request_let_in_beyond_the_places_delays_the_next_turn() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let mut queue = holding(&data, []);
    assert!(queue.enter_over_limit(&data, at(0)).in_turn.is_empty());
    assert!(!queue.arrive(&data, one, at(0)));
    queue.hold(7, one, at(100_000));
    assert_eq!(queue.leave(&data, at(1)).in_turn, [0; 0], "one is still inside");
    assert_eq!(queue.leave(&data, at(2)).in_turn, [7]);
}

#[test]
fn a_released_request_leaves_at_the_next_look_and_takes_a_place() {
    let data = Data::default();
    let mut queue = holding(&data, [1, 2, 3]);
    let until = at(100_000);
    assert!(!queue.release(until, |_| false) && !queue.release(at(99_999), |_| true));
    assert!(queue.release(until, |number| *number == 2));
    assert_eq!(queue.look(&data, at(1)).in_turn, [2]);
    assert_eq!(queue.leave(&data, at(2)).in_turn, [0; 0], "one is still inside");
    assert_eq!(queue.leave(&data, at(3)).in_turn, [1]);
}

/// The message that wakes the other worker comes late.
#[test]
fn a_request_that_has_waited_too_long_takes_the_place_that_another_worker_has_left_it() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let (mut here, mut there) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    assert!(here.arrive(&data, one, at(0)));
    for (queue, number) in [(&mut there, 7), (&mut here, 9)] {
        assert!(!queue.arrive(&data, one, at(0)));
        queue.hold(number, one, at(100_000 - u64::from(number)));
    }
    assert!(!there.arrive(&data, one, at(0)));
    there.hold(8, one, at(100_000));
    assert_eq!(here.leave(&data, at(99_999)).wake, [2]);
    let turns = there.look(&data, at(100_000));
    assert_eq!((turns.in_turn, turns.late, turns.wake), (vec![7], vec![8], vec![0; 0]));
    assert_eq!(there.leave(&data, at(100_001)).wake, [1], "none was given twice");
    assert_eq!(here.look(&data, at(100_002)).in_turn, [9], "late, too");
}

/// The first of the queue has a configuration without a place.
#[test]
fn a_place_goes_on_at_the_look_that_finds_the_first_of_the_queue_late() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let (mut here, mut there) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    for (queue, places) in [(&mut here, Concurrency::new(0)), (&mut there, one)] {
        assert!(!queue.arrive(&data, places, at(0)));
        queue.hold(7, places, at(100));
    }
    assert!(here.look(&data, at(99)).late.is_empty());
    let turns = here.look(&data, at(100));
    assert_eq!((turns.late, turns.wake), (vec![7], vec![2]));
    assert_eq!(there.look(&data, at(101)).in_turn, [7]);
}

#[test]
fn a_wait_queue_needs_looks_while_it_has_a_request_inside_or_waiting() {
    let (data, one) = (Data::default(), Concurrency::new(1));
    let (mut inside, mut waiting) = (WaitQueue::<u32>::new(SERVICE, 1), WaitQueue::<u32>::new(SERVICE, 2));
    let states = |queue: &WaitQueue<u32>| (queue.is_idle(), queue.needs_looks());
    assert_eq!(states(&inside), (true, false));
    assert!(inside.arrive(&data, one, at(0)) && !waiting.arrive(&data, one, at(0)));
    waiting.hold(7, one, at(100_000));
    assert_eq!((states(&inside), states(&waiting)), ((false, true), (false, true)));
    assert_eq!(inside.leave(&data, at(1)).wake, [2]);
    assert_eq!(states(&inside), (true, false));
}

#[test]
fn the_next_deadline_is_that_of_the_request_that_leaves_first() {
    let one = Concurrency::new(1);
    let mut queue = WaitQueue::<u32>::new(SERVICE, 1);
    assert_eq!(queue.next_late(), None);
    queue.hold(7, one, at(200));
    queue.hold(8, one, at(100));
    assert_eq!(queue.next_late(), Some(at(100)));
}
