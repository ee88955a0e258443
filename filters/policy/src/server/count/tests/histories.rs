//! Random histories, with traps and stalls.

use super::*;

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
        world.ticks((LOOK_DEADLINE + 2 * LOOK + 3 * WORKER_TIMEOUT).as_secs());
        world.is_true();
    }

    /// Without traps and stalls, no worker reads too low a count, however often they recount.
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
        world.ticks((PERIOD + LOOK_DEADLINE + 2 * LOOK + 3 * WORKER_TIMEOUT).as_secs());
        world.is_true();
    }
}
