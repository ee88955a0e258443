//! [`Count`] under random histories: between any two calls to the host another thread may run, for
//! any time, and any thread may trap at any call.

use super::*;
use crate::shared::Cas;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// What all threads share, and what interrupts them.
struct World {
    values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    issued: Cell<u32>,
    gauges: [Cell<i64>; 2],
    now: Cell<Timestamp>,
    vms: RefCell<Vec<Rc<RefCell<Vm>>>>,
    last_id: Cell<u64>,
    /// Requests that are certainly in flight: counted before they are, and until they are not.
    certain: Cell<i64>,
    /// Whether a thread reads. Requests that come and go between the calls of one read may be
    /// missed.
    reading: Cell<bool>,
    rng: RefCell<fastrand::Rng>,
    depth: Cell<u32>,
    /// How often a call to the host is interrupted, in percent.
    interrupts: Cell<u32>,
}

struct Vm {
    count: Count,
    own: i64,
    traps: Rc<Cell<Traps>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Traps {
    No,
    /// Traps at the call to the host after this many.
    After(u32),
    /// Has trapped: its further calls have no effect.
    Trapped,
}

/// The host as one VM sees it.
struct Host<'a> {
    world: &'a World,
    traps: Rc<Cell<Traps>>,
}

impl Host<'_> {
    /// A call to the host; none if the VM has trapped.
    fn call<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        self.world.interrupt();
        match self.traps.get() {
            Traps::Trapped => return None,
            Traps::After(0) => {
                self.traps.set(Traps::Trapped);
                return None;
            }
            Traps::After(more) => self.traps.set(Traps::After(more - 1)),
            Traps::No => {}
        }
        let result = call();
        self.world.interrupt();
        Some(result)
    }
}

impl Shared for Host<'_> {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let value = self.call(|| self.world.values.borrow().get(key).cloned()).flatten();
        value.map_or((None, Cas::ABSENT), |(value, cas)| (Some(value), Cas::new(cas)))
    }

    /// As in Envoy, an absent key takes any number.
    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        let set = || {
            let mut values = self.world.values.borrow_mut();
            if values.get(key).is_some_and(|(_, there)| *there != cas.get()) {
                return false;
            }
            self.world.issued.set(self.world.issued.get() + 1);
            values.insert(key.to_owned(), (value.to_vec(), self.world.issued.get()));
            true
        };
        self.call(set).unwrap_or(true)
    }

    fn overwrite(&self, _key: &str, _value: &[u8]) {
        unreachable!("a count is never overwritten");
    }
}

impl Gauges for Host<'_> {
    fn add(&self, side: Side, offset: i64) {
        let gauge = &self.world.gauges[side as usize];
        self.call(|| gauge.set(gauge.get() + offset));
    }

    fn get(&self, side: Side) -> i64 {
        self.call(|| self.world.gauges[side as usize].get()).unwrap_or(0)
    }

    fn clear(&self, side: Side) {
        self.call(|| self.world.gauges[side as usize].set(0));
    }
}

impl World {
    fn new(seed: u64, vms: usize) -> Self {
        let world = Self {
            values: RefCell::default(),
            issued: Cell::new(0),
            gauges: [Cell::new(0), Cell::new(0)],
            now: Cell::new(Timestamp::from_nanos(1_000_000_000_000)),
            vms: RefCell::default(),
            last_id: Cell::new(0),
            certain: Cell::new(0),
            reading: Cell::new(false),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            depth: Cell::new(0),
            interrupts: Cell::new(0),
        };
        for _ in 0..vms {
            world.make();
        }
        world
    }

    fn draw(&self, below: u32) -> u32 {
        self.rng.borrow_mut().u32(0..below)
    }

    /// Makes a VM, which looks before it counts.
    fn make(&self) {
        self.last_id.set(self.last_id.get() + 1);
        let count = Count::new("service", self.last_id.get());
        let vm = Rc::new(RefCell::new(Vm { count, own: 0, traps: Rc::new(Cell::new(Traps::No)) }));
        self.vms.borrow_mut().push(Rc::clone(&vm));
        self.look(&vm);
    }

    fn pass(&self, millis: u64) {
        self.now.set(self.now.get().after(Duration::from_millis(millis)));
    }

    fn add_certain(&self, by: i64) {
        self.certain.set(self.certain.get() + by);
    }

    /// Now and then another thread runs in between.
    fn interrupt(&self) {
        if self.depth.get() < 3 && self.draw(100) < self.interrupts.get() {
            self.depth.set(self.depth.get() + 1);
            self.step();
            self.depth.set(self.depth.get() - 1);
        }
    }

    /// A random thread does something random, unless it is in the middle of something.
    fn step(&self) {
        let vms = self.vms.borrow().clone();
        if vms.is_empty() {
            return;
        }
        let vm = &vms[self.draw(vms.len() as u32) as usize];
        match self.draw(10) {
            _ if self.reading.get() => self.look(vm),
            0..4 => self.arrive(vm),
            4..7 => self.depart(vm),
            7 => self.read(vm),
            _ => self.look(vm),
        }
    }

    fn host(&self, vm: &Vm) -> Host<'_> {
        Host { world: self, traps: Rc::clone(&vm.traps) }
    }

    fn arrive(&self, vm: &Rc<RefCell<Vm>>) {
        let Ok(mut vm) = vm.try_borrow_mut() else { return };
        let host = self.host(&vm);
        vm.count.add(&host, 1);
        vm.own += 1;
        self.add_certain(1);
        drop(vm);
        self.remove_trapped();
    }

    fn depart(&self, vm: &Rc<RefCell<Vm>>) {
        let Ok(mut vm) = vm.try_borrow_mut() else { return };
        if vm.own > 0 {
            let host = self.host(&vm);
            vm.own -= 1;
            self.add_certain(-1);
            vm.count.add(&host, -1);
        }
        drop(vm);
        self.remove_trapped();
    }

    fn look(&self, vm: &Rc<RefCell<Vm>>) {
        let Ok(mut vm) = vm.try_borrow_mut() else { return };
        let (host, now) = (self.host(&vm), self.now.get());
        vm.count.look(&host, &host, now);
        drop(vm);
        self.remove_trapped();
    }

    /// No thread reads less than is in flight, as long as none traps or stands still.
    fn read(&self, vm: &Rc<RefCell<Vm>>) {
        let Ok(vm) = vm.try_borrow_mut() else { return };
        let host = self.host(&vm);
        self.reading.set(true);
        let read = i64::from(vm.count.get(&host).get());
        self.reading.set(false);
        if !self.faults() && vm.traps.get() == Traps::No {
            assert!(read >= self.certain.get(), "{read} read, at least {} in flight", self.certain.get());
        }
        drop(vm);
        self.remove_trapped();
    }

    fn faults(&self) -> bool {
        self.now.get().since(Timestamp::from_nanos(1_000_000_000_000)) > Duration::ZERO
    }

    /// Removes the VMs that have trapped, and their requests with them.
    fn remove_trapped(&self) {
        self.vms.borrow_mut().retain(|vm| {
            let gone = vm.try_borrow().ok().filter(|vm| vm.traps.get() == Traps::Trapped);
            if let Some(vm) = &gone {
                self.add_certain(-vm.own);
            }
            gone.is_none()
        });
    }

    fn traps(&self, vm: usize, after: u32) {
        let vms = self.vms.borrow();
        let Some(vm) = vms.get(vm % vms.len().max(1)) else { return };
        let Ok(vm) = vm.try_borrow() else { return };
        if vm.traps.get() == Traps::No {
            vm.traps.set(Traps::After(after));
        }
    }

    /// All threads tick, four times a second, for this long; none is interrupted.
    fn ticks(&self, seconds: u64) {
        self.interrupts.set(0);
        for _ in 0..4 * seconds {
            self.pass(250);
            let vms = self.vms.borrow().clone();
            for vm in vms {
                let mut vm = vm.borrow_mut();
                vm.traps.set(Traps::No);
                let (host, now) = (self.host(&vm), self.now.get());
                vm.count.tick(&host, &host, now);
            }
        }
    }

    fn truth(&self) -> i64 {
        self.vms.borrow().iter().map(|vm| vm.borrow().own).sum()
    }

    fn is_true(&self) {
        let gauges = [self.gauges[0].get(), self.gauges[1].get()];
        assert_eq!(gauges[0], self.truth(), "in the first gauge");
        for vm in self.vms.borrow().iter() {
            let vm = vm.borrow();
            assert!(vm.count.stage.is_settled());
            assert_eq!(i64::from(vm.count.get(&self.host(&vm)).get()), self.truth());
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Steps(u32),
    Pass(u64),
    Trap(usize, u32),
    Join,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (1u32..30).prop_map(Event::Steps),
        3 => (0u64..4_000).prop_map(Event::Pass),
        1 => (0usize..4, 0u32..12).prop_map(|(vm, after)| Event::Trap(vm, after)),
        2 => Just(Event::Join),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Once all workers are alive and tick, the count is right, even without an idle moment.
    #[test]
    fn the_count_recovers_after_any_traps_and_stalls(events in events(), seed: u64, interrupts in 0u32..25) {
        let world = World::new(seed, 3);
        world.interrupts.set(interrupts);
        for event in events {
            match event {
                Event::Steps(steps) => (0..steps).for_each(|_| world.step()),
                Event::Pass(millis) => world.pass(millis),
                Event::Trap(vm, after) => world.traps(vm, after),
                Event::Join if world.vms.borrow().len() < 5 => world.make(),
                Event::Join => {}
            }
        }
        world.make();
        world.ticks((PROMISE + 2 * LOOK + 3 * LIFE).as_secs());
        world.is_true();
    }

    /// Without traps and stalls no worker reads too low a count, however often they recount.
    #[test]
    fn no_worker_reads_too_low_a_count_during_a_recount(steps in 1u32..400, joins in 0usize..4, seed: u64) {
        let world = World::new(seed, 2);
        world.interrupts.set(20);
        for _ in 0..steps {
            world.step();
            if world.draw(100) < joins as u32 {
                world.make();
            }
        }
        prop_assert!(!world.faults());
    }

    /// A VM traps under steady load and is replaced: the count is right after that, and stays so.
    #[test]
    fn the_count_is_right_within_five_seconds_of_a_trap_under_load(seed: u64, after in 0u32..6) {
        let world = World::new(seed, 3);
        let serve = |seconds: u64| {
            for millis in 0..seconds * 1000 {
                world.pass(1);
                let vms = world.vms.borrow().clone();
                for vm in vms {
                    if world.draw(2) == 0 { world.arrive(&vm) } else { world.depart(&vm) }
                    if millis % 250 == 0 {
                        world.look(&vm);
                    }
                }
            }
        };
        serve(2);
        world.traps(0, after);
        serve(1);
        prop_assert_eq!(world.vms.borrow().len(), 2);
        world.make();
        serve(4);
        for _ in 0..100 {
            prop_assert_eq!(world.gauges[0].get(), world.truth());
            prop_assert_eq!(world.gauges[1].get(), 0);
            world.pass(1);
            world.step();
        }
    }

    #[test]
    fn the_count_recovers_from_any_bytes_in_shared_data(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let world = World::new(1, 2);
        world.values.borrow_mut().insert(key("service"), (bytes, 7));
        world.issued.set(7);
        world.ticks((PERIOD + PROMISE + 2 * LOOK + 3 * LIFE).as_secs());
        world.is_true();
    }
}

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

/// What a thread reads that takes no part.
fn read_by_a_stranger(world: &World) -> i64 {
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
    // The first of the list goes on when all have reached its stage; the last one to reach it wakes
    // it.
    for (vm, others, at) in
        [(&first, vec![2], 2), (&second, vec![1], 2), (&first, vec![2], 3), (&second, vec![1], 3), (&first, vec![2], 4)]
    {
        assert_eq!(read_by_a_stranger(&world), 2);
        assert_eq!((told(&world, vm), stage(&world)), (others, at));
        assert_eq!(needs_looks(&world, vm), at < 4);
    }
    assert_eq!(told(&world, &second), Vec::<u64>::new());
    assert_eq!(read_by_a_stranger(&world), 2);
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

/// The living look, four times a second, until the dead one is dropped.
fn drop_while(world: &World, living: &[&Rc<RefCell<Vm>>]) {
    for _ in 0..LIFE.as_millis() / 250 + 2 {
        world.pass(250);
        living.iter().for_each(|vm| drop(told(world, vm)));
    }
}

#[test]
fn a_worker_gone_early_needs_one_recount_and_one_gone_later_two() {
    for dies_later in [false, true] {
        let (world, [first, second]) = two_that_count_anew();
        // One worker is gone with its request: the first before it has heard of the recount, or the
        // second after it has moved its own.
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
    // It only stalled, and joins again: it looks often, too, and its requests are counted.
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
        world.now.set(world.now.get().after(PROMISE + Duration::from_nanos(more)));
        told(&world, &vms[0]);
        // In the first stage they wait for the one that does not look.
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
