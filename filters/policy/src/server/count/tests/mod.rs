//! [`Count`] under random histories: between any two calls to the host another thread may run, for
//! any time, and any thread may trap at any call.

mod histories;
mod rules;

use super::*;
use crate::proxy::shared::Cas;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// The state that all threads share, and the source of interruptions.
struct World {
    values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    issued: Cell<u32>,
    gauges: [Cell<i64>; 2],
    now: Cell<Timestamp>,
    vms: RefCell<Vec<Rc<RefCell<Vm>>>>,
    last_id: Cell<u64>,
    /// Requests that are certainly in flight: counted after they are added, until just before they
    /// go.
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
    /// Traps after this many more calls to the host.
    After(u32),
    /// The VM has trapped, so its further calls have no effect.
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

    /// Creates a VM, which looks before it counts.
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

    /// A random thread takes a random action, unless it is in the middle of one.
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

    /// No thread reads less than is in flight, unless one traps or stalls.
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

    /// All threads tick four times a second for this long, without interruptions.
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
