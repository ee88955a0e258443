//! The concurrency limiter ([`Limiter`]) under random interleavings: grants reach the workers late
//! and in any order.

use super::*;
use proptest::prelude::*;
use std::iter::repeat_n;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn limiter(workers: u64) -> (Limiter, Vec<Worker>) {
    let mut limiter = Limiter::default();
    let workers = (1..=workers).map(|id| limiter.join(id, at(0)).unwrap()).collect();
    (limiter, workers)
}

/// A worker as the filter sees it: its held requests in order, and those inside.
#[derive(Default)]
struct Thread {
    held: VecDeque<u32>,
    inside: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Step {
    Come(usize),
    Leave(usize, usize),
    GiveUp(usize, usize),
    Deliver(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..4).prop_map(Step::Come),
        3 => (0usize..4, 0usize..8).prop_map(|(w, i)| Step::Leave(w, i)),
        2 => (0usize..4, 0usize..8).prop_map(|(w, i)| Step::GiveUp(w, i)),
        4 => (0usize..4).prop_map(Step::Deliver),
    ];
    prop::collection::vec(step, 1..300)
}

struct World {
    limiter: Limiter,
    workers: Vec<Worker>,
    threads: Vec<Thread>,
    concurrency: Concurrency,
    /// Worker and number of each request that waited, in the order in which they entered.
    order: Vec<(usize, u32)>,
}

impl World {
    fn report(&mut self, w: usize) {
        let (worker, thread) = (self.workers[w], &self.threads[w]);
        self.limiter.report(worker, thread.inside.len() as u32, repeat_n(self.concurrency, thread.held.len()));
    }

    fn grant(&mut self) {
        while self.limiter.grant().is_some() {}
    }

    fn deliver(&mut self, w: usize) {
        self.report(w);
        for _ in 0..self.limiter.take(self.workers[w]) {
            let request = self.threads[w].held.pop_front().expect("nobody is granted twice");
            self.order.push((w, request));
            self.threads[w].inside.push(request);
        }
        self.grant();
    }

    fn leave(&mut self, w: usize, i: usize) {
        let inside = &mut self.threads[w].inside;
        if !inside.is_empty() {
            inside.swap_remove(i % inside.len());
            self.report(w);
            self.grant();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn limits_concurrency_and_serves_each_workers_requests_in_order(steps in steps(), concurrency in 1u32..5) {
        let (limiter, workers) = limiter(4);
        let threads = (0..4).map(|_| Thread::default()).collect();
        let mut world = World { limiter, workers, threads, concurrency: Concurrency::new(concurrency), order: Vec::new() };
        let mut bytes = Vec::new();
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Come(w) => {
                    world.report(w);
                    match world.limiter.enter(world.workers[w], world.concurrency) {
                        Entrance::Inside => world.threads[w].inside.push(number),
                        Entrance::Waits => world.threads[w].held.push_back(number),
                    }
                }
                Step::Leave(w, i) => world.leave(w, i),
                Step::GiveUp(w, i) => if !world.threads[w].held.is_empty() {
                    let i = i % world.threads[w].held.len();
                    world.report(w);
                    world.limiter.give_up(world.workers[w], i);
                    world.threads[w].held.remove(i);
                    world.grant();
                },
                Step::Deliver(w) => world.deliver(w),
            }
            let inside: usize = world.threads.iter().map(|thread| thread.inside.len()).sum();
            prop_assert!(inside <= concurrency as usize, "{inside} inside");
            prop_assert!(world.limiter.inside() <= concurrency);
            prop_assert!(world.limiter.waiting() == 0 || world.limiter.inside() == concurrency, "a free place while a request waits");
            world.limiter.encode(&mut bytes);
            prop_assert_eq!(&Limiter::decode(&bytes), &world.limiter);
        }
        // Deliver everything, and let all requests leave. Each must enter, and the limiter must end
        // empty.
        for _ in 0..2_000 {
            for w in 0..4 {
                world.deliver(w);
                world.leave(w, 0);
            }
        }
        for thread in &world.threads {
            prop_assert!(thread.held.is_empty(), "a request waits for ever");
        }
        prop_assert_eq!((world.limiter.inside(), world.limiter.waiting()), (0, 0));
        for w in 0..4 {
            // Requests are numbered in the order in which they came.
            let order: Vec<u32> = world.order.iter().filter(|(worker, _)| *worker == w).map(|(_, number)| *number).collect();
            prop_assert!(order.is_sorted(), "worker {w}: {order:?}");
        }
    }

    #[test]
    fn decodes_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut limiter = Limiter::decode(&bytes);
        let worker = limiter.join(7, at(0));
        prop_assert!(worker.is_some() || limiter.workers.len() == MAX_WORKERS);
    }
}

#[test]
fn the_wait_queue_is_first_in_first_out_across_workers() {
    let (mut limiter, workers) = limiter(3);
    let one = Concurrency::new(1);
    assert_eq!(limiter.enter(workers[0], one), Entrance::Inside);
    for w in [2, 0, 1, 2] {
        assert_eq!(limiter.enter(workers[w], one), Entrance::Waits);
    }
    let mut held = [1, 1, 2];
    let mut turns = Vec::new();
    let mut inside = 0;
    for _ in 0..4 {
        limiter.report(workers[inside], 0, repeat_n(one, held[inside]));
        let next = limiter.grant().unwrap();
        assert_eq!(limiter.grant(), None, "one place, one grant");
        assert_eq!(limiter.take(next), 1);
        inside = usize::from(next.0);
        held[inside] -= 1;
        turns.push(inside);
    }
    assert_eq!(turns, [2, 0, 1, 2]);
}

#[test]
fn a_higher_concurrency_admits_more_requests_at_once() {
    let (mut limiter, workers) = limiter(1);
    for _ in 0..5 {
        limiter.enter(workers[0], Concurrency::new(1));
    }
    limiter.report(workers[0], 1, repeat_n(Concurrency::new(3), 4));
    let granted = std::iter::from_fn(|| limiter.grant()).count();
    assert_eq!((granted, limiter.inside(), limiter.waiting()), (2, 3, 2));
}

/// As while a listener is updated: requests of the old configuration and of the new one.
#[test]
fn admits_each_request_by_the_concurrency_of_its_own_configuration() {
    let (mut limiter, workers) = limiter(2);
    let [one, four] = [1, 4].map(Concurrency::new);
    assert_eq!(limiter.enter(workers[0], four), Entrance::Inside);
    assert_eq!(limiter.enter(workers[0], four), Entrance::Inside);
    assert_eq!(limiter.enter(workers[1], one), Entrance::Waits);
    assert_eq!(limiter.enter(workers[0], four), Entrance::Waits, "the head of the queue comes first");
    limiter.report(workers[0], 1, repeat_n(four, 1));
    assert_eq!(limiter.grant(), None, "one is inside, which is all that the head allows");
    limiter.report(workers[0], 0, repeat_n(four, 1));
    assert_eq!((limiter.grant(), limiter.grant()), (Some(workers[1]), Some(workers[0])));
    let mut bytes = Vec::new();
    limiter.encode(&mut bytes);
    assert_eq!(Limiter::decode(&bytes), limiter);
}

#[test]
fn workers_that_are_gone_lose_their_places_and_turns() {
    let (mut limiter, workers) = limiter(2);
    let one = Concurrency::new(1);
    limiter.enter(workers[0], one);
    limiter.enter(workers[0], one);
    limiter.enter(workers[1], one);
    limiter.join(2, at(2_600));
    limiter.remove_dead(at(1_000), at(2_600));
    assert_eq!(
        (limiter.inside(), limiter.waiting()),
        (1, 2),
        "a worker that slept until then could not notice the other one"
    );
    limiter.remove_dead(at(0), at(2_600));
    assert_eq!((limiter.inside(), limiter.waiting()), (0, 1));
    assert_eq!(limiter.grant(), Some(workers[1]));
    assert_eq!(limiter.id(workers[0]), None);
    assert_eq!(limiter.join(9, at(3_000)), Some(workers[0]), "the place in the list is used again");
}

#[test]
fn a_worker_wrongly_taken_for_gone_returns_with_all_its_requests() {
    let (mut limiter, workers) = limiter(2);
    let two = Concurrency::new(2);
    for worker in [0, 0, 0, 1] {
        limiter.enter(workers[worker], two);
    }
    limiter.join(2, at(2_600));
    limiter.remove_dead(at(0), at(2_600));
    assert_eq!((limiter.grant(), limiter.grant()), (Some(workers[1]), None));
    let back = limiter.join(1, at(2_700)).unwrap();
    limiter.report(back, 2, repeat_n(two, 1));
    assert_eq!((limiter.inside(), limiter.waiting()), (3, 1), "more than there are places");
    assert_eq!(limiter.grant(), None);
    limiter.report(back, 1, repeat_n(two, 1));
    assert_eq!(limiter.grant(), None);
    limiter.report(back, 0, repeat_n(two, 1));
    assert_eq!(limiter.grant(), Some(back));
}

#[test]
fn a_workers_report_corrects_its_counts_in_the_concurrency_limiter() {
    let (mut limiter, workers) = limiter(2);
    let one = Concurrency::new(1);
    for worker in [0, 1, 0, 1, 0] {
        limiter.enter(workers[worker], one);
    }
    limiter.report(workers[0], 0, repeat_n(one, 2));
    assert_eq!(limiter.grant(), Some(workers[1]), "its place is free");
    limiter.report(workers[1], 0, repeat_n(one, 0));
    assert_eq!(
        (limiter.inside(), limiter.waiting()),
        (0, 2),
        "the second worker has nothing inside and nothing waiting"
    );
    limiter.report(workers[1], 3, repeat_n(one, 4));
    assert_eq!((limiter.inside(), limiter.waiting()), (3, 6));
    limiter.report(workers[0], 0, repeat_n(one, 1));
    assert_eq!((limiter.waiting(), limiter.waiting_of(workers[1])), (5, 4));
}

/// As in the crash recovery of a worker that panics.
#[test]
fn a_worker_that_resigns_frees_its_places_and_turns_at_once() {
    let (mut limiter, workers) = limiter(2);
    let one = Concurrency::new(1);
    limiter.enter(workers[0], one);
    limiter.enter(workers[0], one);
    limiter.enter(workers[1], one);
    limiter.resign(7);
    assert_eq!((limiter.inside(), limiter.waiting()), (1, 2), "an unknown worker has nothing to free");
    limiter.resign(1);
    assert_eq!((limiter.inside(), limiter.waiting()), (0, 1));
    assert_eq!(limiter.ids().collect::<Vec<_>>(), [2]);
    assert_eq!(limiter.grant(), Some(workers[1]));
    assert_eq!(limiter.join(9, at(0)), Some(workers[0]), "the place in the list is used again");
}

#[test]
fn suspects_another_worker_with_a_request_after_half_a_second_of_silence() {
    let one = Concurrency::new(1);
    let suspected = |limiter: &Limiter, by: Worker, millis| limiter.somebody_may_be_dead(by, at(millis));
    let (mut inside, workers) = limiter(2);
    assert!(!suspected(&inside, workers[1], 501), "the silent worker has nothing");
    inside.enter(workers[0], one);
    assert!(suspected(&inside, workers[1], 501));
    assert!(!suspected(&inside, workers[1], 500), "not silent for long enough");
    assert!(!suspected(&inside, workers[0], 501), "the request is its own");
    let (mut waiting, workers) = limiter(2);
    waiting.enter(workers[1], one);
    waiting.enter(workers[0], one);
    assert!(suspected(&waiting, workers[1], 501), "a request in the queue counts, too");
}

#[test]
fn a_worker_is_gone_after_more_than_two_and_a_half_seconds_of_silence() {
    let (mut limiter, _) = limiter(1);
    limiter.remove_dead(at(0), at(2_500));
    assert_eq!(limiter.ids().count(), 1);
    limiter.remove_dead(at(0), at(2_501));
    assert_eq!(limiter.ids().count(), 0);
}

#[test]
fn bytes_with_a_turn_of_an_unknown_worker_decode_as_an_empty_limiter() {
    let (mut limiter, workers) = limiter(2);
    let one = Concurrency::new(1);
    limiter.enter(workers[0], one);
    limiter.enter(workers[1], one);
    let mut bytes = Vec::new();
    limiter.encode(&mut bytes);
    assert_eq!(Limiter::decode(&bytes), limiter);
    // The byte with the worker of the only queued request.
    let at = bytes.len() - TURN_BYTES;
    bytes[at] = 2;
    assert_eq!(Limiter::decode(&bytes), Limiter::default());
}
