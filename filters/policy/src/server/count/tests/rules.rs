//! Each rule on its own: who recounts, when, and who wakes whom.

use super::*;

#[test]
fn corrects_a_wrong_count_after_the_recount_period() {
    for wrong in [-3, 5] {
        let world = World::new(1, 2);
        let vms = world.vms.borrow().clone();
        world.ticks(1);
        vms.iter().for_each(|vm| world.arrive(vm));
        world.gauges[0].set(2 + wrong);
        assert_eq!(i64::from(vms[0].borrow().count.get(&world.host(&vms[0].borrow())).get()), (2 + wrong).max(0));
        // A gauge below a worker's own count is noticed sooner.
        world.ticks(if wrong < 0 { (PAUSE + 2 * LOOK).as_secs() } else { (PERIOD + 2 * LOOK).as_secs() });
        world.is_true();
    }
}

#[test]
fn crash_recovery_removes_a_workers_requests_from_the_count_at_once() {
    let world = World::new(1, 3);
    let vms = world.vms.borrow().clone();
    world.ticks(1);
    for _ in 0..2 {
        vms.iter().for_each(|vm| world.arrive(vm));
    }
    let host = world.host(&vms[0].borrow());
    vms[0].borrow().count.own().take_back(&host);
    resign(&host, "service", 1);
    assert_eq!(world.gauges[0].get(), 4);
    let table = Table::decode(&world.values.borrow()[&key("service")].0);
    assert_eq!(table.members.iter().map(|member| member.id).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_stall_of_the_process_during_a_recount_drops_no_worker() {
    let world = World::new(1, 3);
    let vms = world.vms.borrow().clone();
    vms.iter().for_each(|vm| world.arrive(vm));
    world.make();
    let members = || Table::decode(&world.values.borrow()[&key("service")].0).members.len();
    assert_eq!(members(), 4);
    world.pass(10_000);
    vms.iter().for_each(|vm| {
        world.look(vm);
        assert_eq!(members(), 4);
    });
}

/// Looks now. Returns the VMs that must look.
fn told(world: &World, vm: &Rc<RefCell<Vm>>) -> Vec<u64> {
    let mut vm = vm.borrow_mut();
    let host = world.host(&vm);
    vm.count.look(&host, &host, world.now.get())
}

fn stage(world: &World) -> u32 {
    Table::decode(&world.values.borrow()[&key("service")].0).stage.0
}

fn needs_looks(world: &World, vm: &Rc<RefCell<Vm>>) -> bool {
    vm.borrow().count.needs_looks(world.now.get())
}

/// The count that a thread outside reads.
fn read_from_outside(world: &World) -> i64 {
    let host = Host { world, traps: Rc::new(Cell::new(Traps::No)) };
    i64::from(in_flight(&host, "service", &host).get())
}

/// Two VMs with a request each. The second one has just joined, so a recount is under way.
fn two_that_count_anew() -> (World, [Rc<RefCell<Vm>>; 2]) {
    let world = World::new(1, 1);
    let first = Rc::clone(&world.vms.borrow()[0]);
    world.arrive(&first);
    world.make();
    let second = Rc::clone(&world.vms.borrow()[1]);
    world.arrive(&second);
    assert_eq!(stage(&world), 1);
    (world, [first, second])
}

#[test]
fn each_service_has_a_key_of_its_own() {
    assert_eq!((key("a"), key("b")), ("bloc/count/a".to_owned(), "bloc/count/b".to_owned()));
}

#[test]
fn each_recount_stage_wakes_the_workers_it_waits_for() {
    let (world, [first, second]) = two_that_count_anew();
    // The first member goes on when all have reached its stage. The last one to reach it wakes the
    // first.
    for (vm, others, at) in
        [(&first, vec![2], 2), (&second, vec![1], 2), (&first, vec![2], 3), (&second, vec![1], 3), (&first, vec![2], 4)]
    {
        assert_eq!(read_from_outside(&world), 2);
        assert_eq!((told(&world, vm), stage(&world)), (others, at));
        assert_eq!(needs_looks(&world, vm), at < 4);
    }
    assert_eq!(told(&world, &second), Vec::<u64>::new());
    assert_eq!(read_from_outside(&world), 2);
    assert!(!needs_looks(&world, &first) && !needs_looks(&world, &second));
    world.is_true();
}

#[test]
fn a_worker_that_joins_during_a_recount_triggers_another_round() {
    let (world, [first, second]) = two_that_count_anew();
    told(&world, &first);
    world.make();
    let third = Rc::clone(&world.vms.borrow()[2]);
    for vm in [&second, &first, &second, &third] {
        told(&world, vm);
    }
    assert_eq!(stage(&world), 3);
    told(&world, &first);
    assert_eq!(stage(&world), 5, "not settled in between");
    for _ in 0..4 {
        [&first, &second, &third].iter().for_each(|vm| drop(told(&world, vm)));
    }
    assert_eq!(stage(&world), 8);
    world.is_true();
}

/// The living threads look four times a second until the dead one is dropped.
fn drop_while(world: &World, living: &[&Rc<RefCell<Vm>>]) {
    for _ in 0..WORKER_TIMEOUT.as_millis() / 250 + 2 {
        world.pass(250);
        living.iter().for_each(|vm| drop(told(world, vm)));
    }
}

#[test]
fn a_worker_gone_early_needs_one_recount_and_one_gone_later_two() {
    for dies_later in [false, true] {
        let (world, [first, second]) = two_that_count_anew();
        // One worker dies with its request: the first before it hears of the recount, or the second
        // after it has moved its own requests.
        let (living, dead) = if dies_later { (first, 1) } else { (second, 0) };
        if dies_later {
            told(&world, &living);
            assert_eq!(stage(&world), 2);
        }
        world.vms.borrow_mut().remove(dead);
        drop_while(&world, &[&living]);
        (0..8).for_each(|_| drop(told(&world, &living)));
        assert_eq!(stage(&world), if dies_later { 8 } else { 4 });
        world.is_true();
    }
}

#[test]
fn workers_look_often_while_a_dropped_worker_may_return() {
    let (world, [first, second]) = two_that_count_anew();
    drop_while(&world, &[&first]);
    (0..8).for_each(|_| drop(told(&world, &first)));
    assert_eq!(stage(&world) % 4, 0);
    assert!(needs_looks(&world, &first), "settled, but a worker was dropped");
    let until = first.borrow().count.attentive;
    assert!(first.borrow().count.needs_looks(Timestamp::from_nanos(until.as_nanos() - 1)));
    assert!(!first.borrow().count.needs_looks(until));
    // It had only stalled, and joins again. It looks often, too, and its requests are counted.
    world.pass(250);
    told(&world, &second);
    for _ in 0..4 {
        [&first, &second].iter().for_each(|vm| drop(told(&world, vm)));
    }
    assert_eq!(stage(&world) % 4, 0);
    assert!(needs_looks(&world, &second), "settled, but it was dropped");
    world.ticks(10);
    world.is_true();
    assert!(!needs_looks(&world, &second));
}

#[test]
fn looks_every_3_s_when_settled_and_every_50_ms_during_a_recount() {
    let looks = |vm: &Rc<RefCell<Vm>>, world: &World, at: Timestamp| {
        let mut vm = vm.borrow_mut();
        let (host, before) = (world.host(&vm), world.issued.get());
        vm.count.tick(&host, &host, at);
        world.issued.get() > before
    };
    let world = World::new(1, 1);
    let vm = Rc::clone(&world.vms.borrow()[0]);
    told(&world, &vm);
    let settled = world.now.get();
    assert!(!looks(&vm, &world, settled.after(Duration::from_millis(2_999))));
    assert!(looks(&vm, &world, settled.after(Duration::from_secs(3))));
    let (world, [first, _]) = two_that_count_anew();
    told(&world, &first);
    let now = world.now.get();
    assert!(!looks(&first, &world, now.after(Duration::from_millis(49))));
    assert!(looks(&first, &world, now.after(Duration::from_millis(50))));
}

#[test]
fn recounts_after_a_minute_only_if_requests_are_in_flight() {
    for (requests, begins) in [(1, true), (0, false)] {
        let world = World::new(1, 1);
        let vm = Rc::clone(&world.vms.borrow()[0]);
        let began = world.now.get();
        (0..requests).for_each(|_| world.arrive(&vm));
        let look_at = |time: Duration| {
            world.now.set(began.after(time));
            told(&world, &vm);
            stage(&world) > 0
        };
        assert!(!(1..=60).any(|second| look_at(Duration::from_secs(second))), "not within the period");
        assert_eq!(look_at(PERIOD + Duration::from_nanos(1)), begins, "{requests} requests");
    }
}

#[test]
fn recounts_when_a_worker_has_not_looked_within_the_promised_time() {
    for (more, begins) in [(0, false), (1, true)] {
        let world = World::new(1, 2);
        let vms = world.vms.borrow().clone();
        told(&world, &vms[0]);
        told(&world, &vms[1]);
        world.now.set(world.now.get().after(LOOK_DEADLINE + Duration::from_nanos(more)));
        told(&world, &vms[0]);
        // In the first stage, all wait for the one that does not look.
        assert_eq!(stage(&world), u32::from(begins), "{more} ns later, though nothing is in flight");
    }
}

#[test]
fn recounts_after_a_pause_if_the_gauge_is_below_a_workers_own_count() {
    for (gauge, more, begins) in [(0, 1, true), (0, 0, false), (1, 1, false)] {
        let world = World::new(1, 1);
        let vm = Rc::clone(&world.vms.borrow()[0]);
        world.arrive(&vm);
        world.gauges[0].set(gauge);
        world.now.set(world.now.get().after(PAUSE + Duration::from_nanos(more)));
        told(&world, &vm);
        assert_eq!(stage(&world) > 0, begins, "{gauge} in the gauge, {more} ns after the pause");
    }
}
