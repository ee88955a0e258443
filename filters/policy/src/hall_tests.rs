//! [`Hall`] under every interleaving: workers whose grants arrive late and in any order between them.

use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn hall(workers: u64) -> (Hall, Vec<Worker>) {
    let mut hall = Hall::default();
    let workers = (1..=workers).map(|id| hall.join(id, at(0)).unwrap()).collect();
    (hall, workers)
}

/// A worker as the filter has it: its held requests in order, and grants that have not arrived yet.
#[derive(Default)]
struct Thread {
    held: VecDeque<u32>,
    inside: Vec<u32>,
    grants: usize,
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
    hall: Hall,
    workers: Vec<Worker>,
    threads: Vec<Thread>,
    concurrency: Concurrency,
    /// Worker and number of each request that waited, in the order in which they got in.
    order: Vec<(usize, u32)>,
}

impl World {
    fn grant(&mut self) {
        while let Some(worker) = self.hall.grant(self.concurrency) {
            self.threads[usize::from(worker.0)].grants += 1;
        }
    }

    fn deliver(&mut self, w: usize) {
        if self.threads[w].grants == 0 {
            return;
        }
        self.threads[w].grants -= 1;
        match self.threads[w].held.pop_front() {
            Some(request) => {
                self.order.push((w, request));
                self.threads[w].inside.push(request);
            }
            // Everybody here has given up meanwhile: the place is passed on.
            None => {
                self.hall.leave(self.workers[w]);
                self.grant();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_bound_holds_nobody_is_forgotten_and_each_worker_is_first_in_first_out(steps in steps(), concurrency in 1u32..5) {
        let (hall, workers) = hall(4);
        let threads = (0..4).map(|_| Thread::default()).collect();
        let mut world = World { hall, workers, threads, concurrency: Concurrency::new(concurrency), order: Vec::new() };
        let mut bytes = Vec::new();
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Come(w) => match world.hall.enter(world.workers[w], world.concurrency) {
                    Entrance::Inside => world.threads[w].inside.push(number),
                    Entrance::Waits => world.threads[w].held.push_back(number),
                },
                Step::Leave(w, i) => if !world.threads[w].inside.is_empty() {
                    let i = i % world.threads[w].inside.len();
                    world.threads[w].inside.swap_remove(i);
                    world.hall.leave(world.workers[w]);
                    world.grant();
                },
                Step::GiveUp(w, i) => if !world.threads[w].held.is_empty() {
                    let own = world.threads[w].held.len();
                    let i = i % own;
                    world.hall.give_up(world.workers[w], i, own);
                    world.threads[w].held.remove(i);
                },
                Step::Deliver(w) => world.deliver(w),
            }
            let inside: usize = world.threads.iter().map(|thread| thread.inside.len()).sum();
            prop_assert!(inside <= concurrency as usize, "{inside} inside");
            prop_assert!(world.hall.inside() <= concurrency);
            prop_assert!(world.hall.waiting() == 0 || world.hall.inside() == concurrency, "a free place while somebody waits");
            world.hall.encode(&mut bytes);
            prop_assert_eq!(&Hall::decode(&bytes), &world.hall);
        }
        // Deliver everything, let everybody leave: all must get inside, and the hall must end empty.
        for _ in 0..2_000 {
            for w in 0..4 {
                world.deliver(w);
                if world.threads[w].inside.pop().is_some() {
                    world.hall.leave(world.workers[w]);
                    world.grant();
                }
            }
        }
        for thread in &world.threads {
            prop_assert!(thread.held.is_empty() && thread.grants == 0, "somebody waits for ever");
        }
        prop_assert_eq!((world.hall.inside(), world.hall.waiting()), (0, 0));
        for w in 0..4 {
            // Requests are numbered in the order in which they came.
            let order: Vec<u32> = world.order.iter().filter(|(worker, _)| *worker == w).map(|(_, number)| *number).collect();
            prop_assert!(order.is_sorted(), "worker {w}: {order:?}");
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut hall = Hall::decode(&bytes);
        let worker = hall.join(7, at(0));
        prop_assert!(worker.is_some() || hall.workers.len() == MAX_WORKERS);
    }
}

#[test]
fn the_line_is_first_in_first_out_over_all_workers() {
    let (mut hall, workers) = hall(3);
    let one = Concurrency::new(1);
    assert_eq!(hall.enter(workers[0], one), Entrance::Inside);
    for w in [2, 0, 1, 2] {
        assert_eq!(hall.enter(workers[w], one), Entrance::Waits);
    }
    let mut turns = Vec::new();
    let mut inside = workers[0];
    for _ in 0..4 {
        hall.leave(inside);
        inside = hall.grant(one).unwrap();
        assert_eq!(hall.grant(one), None, "one place, one grant");
        turns.push(inside);
    }
    assert_eq!(turns, [workers[2], workers[0], workers[1], workers[2]]);
}

#[test]
fn more_concurrency_lets_more_in_at_once() {
    let (mut hall, workers) = hall(1);
    for _ in 0..5 {
        hall.enter(workers[0], Concurrency::new(1));
    }
    let granted = std::iter::from_fn(|| hall.grant(Concurrency::new(3))).count();
    assert_eq!((granted, hall.inside(), hall.waiting()), (2, 3, 2));
}

#[test]
fn the_dead_keep_neither_places_nor_turns() {
    let (mut hall, workers) = hall(2);
    let one = Concurrency::new(1);
    hall.enter(workers[0], one);
    hall.enter(workers[0], one);
    hall.enter(workers[1], one);
    hall.join(2, at(2_500));
    hall.bury(at(2_500));
    assert_eq!((hall.inside(), hall.waiting()), (0, 1));
    assert_eq!(hall.grant(one), Some(workers[1]));
    assert_eq!(hall.id(workers[0]), None);
    assert_eq!(hall.join(9, at(3_000)), Some(workers[0]), "the place in the list is used again");
}

/// As the last will of a worker that panics.
#[test]
fn whoever_resigns_leaves_its_places_and_turns_to_the_others_at_once() {
    let (mut hall, workers) = hall(2);
    let one = Concurrency::new(1);
    hall.enter(workers[0], one);
    hall.enter(workers[0], one);
    hall.enter(workers[1], one);
    hall.resign(7);
    assert_eq!((hall.inside(), hall.waiting()), (1, 2), "whoever does not take part has nothing to leave");
    hall.resign(1);
    assert_eq!((hall.inside(), hall.waiting()), (0, 1));
    assert_eq!(hall.ids().collect::<Vec<_>>(), [2]);
    assert_eq!(hall.grant(one), Some(workers[1]));
    assert_eq!(hall.join(9, at(0)), Some(workers[0]), "the place in the list is used again");
    assert_eq!(hall.inside_of(workers[0]), 0, "and empty");
}
