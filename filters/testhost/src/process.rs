//! An Envoy process: its VMs, virtual time, and the event loop that calls the VMs.

use crate::calls::HttpCall;
use crate::common::{Common, LogLine, Shared};
use crate::headers::{HeaderMap, Headers};
use crate::listener::Listener;
use crate::module::Module;
use crate::options::VmOptions;
use crate::shared::Address;
use crate::status::Fault;
use crate::vm::{Vm, VmCell};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// The most wake-ups delivered at one moment; a guest that causes more wakes itself for ever.
const MOST_WAKEUPS: usize = 1_000_000;

struct Inner {
    module: Module,
    common: Common,
    vms: RefCell<Vec<Weak<VmCell>>>,
    ticks: Cell<u64>,
    orphaned_ticks: Cell<u64>,
    /// Removed listeners, and when each drain ends.
    draining: RefCell<Vec<(Duration, Listener)>>,
}

/// An Envoy process. A handle: clones are the same process. Single-threaded, so a run with the same
/// seed is the same run.
#[derive(Clone)]
pub struct Process(Rc<Inner>);

impl Process {
    /// A process that runs this module in all its VMs. `seed` determines what the guests draw at
    /// random.
    pub fn new(module: &Module, seed: u64) -> Self {
        Self(Rc::new(Inner {
            module: module.clone(),
            common: Common::new(seed),
            vms: RefCell::default(),
            ticks: Cell::default(),
            orphaned_ticks: Cell::default(),
            draining: RefCell::default(),
        }))
    }

    /// Keeps faults for [`Self::take_faults`] instead of failing the test at once.
    #[must_use]
    pub fn recording_faults(self) -> Self {
        self.with(|common| common.records_faults = true);
        self
    }

    /// Adds a cluster that guests may call.
    #[must_use]
    pub fn with_cluster(self, name: &str) -> Self {
        self.with(|common| common.clusters.insert(name.to_owned()));
        self
    }

    /// Starts a VM, for one more worker thread.
    ///
    /// # Panics
    /// The module imports a function that Envoy does not have, lacks one that the ABI wants, or
    /// traps in its start function.
    pub fn vm(&self, options: VmOptions) -> Vm {
        let index = self.0.vms.borrow().len();
        self.0.vms.borrow_mut().push(Weak::new());
        let vm = Vm::start(&self.0.common, &self.0.module, index, options);
        self.0.vms.borrow_mut()[index] = vm.downgrade();
        vm
    }

    /// The monotonic clock.
    pub fn now(&self) -> Duration {
        self.0.common.now()
    }

    /// The realtime clock: time since 1970.
    pub fn realtime(&self) -> Duration {
        self.0.common.realtime()
    }

    /// Lets time pass: delivers wake-ups at once, and ticks and timeouts of calls when they are
    /// due, in order of time.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn advance(&self, by: Duration) {
        let end = self.now() + by;
        self.deliver();
        while let Some(due) = self.next_due(end) {
            self.with(|common| common.now = common.now.max(due));
            self.fire(due);
            self.deliver();
        }
        self.with(|common| common.now = end);
    }

    /// Delivers the wake-ups of shared queues, and those that these cause.
    ///
    /// # Panics
    /// As [`Self::advance`]; or a guest wakes itself for ever.
    pub fn deliver(&self) {
        let mut waiting = Vec::new();
        for _ in 0..MOST_WAKEUPS {
            let Some((owner, queue)) = self.with(|common| common.queues.next_wakeup()) else {
                self.with(|common| common.queues.keep_wakeups(waiting));
                return;
            };
            match self.vm_at(owner) {
                Some(vm) if vm.stands() => waiting.push((owner, queue)),
                Some(vm) if vm.has_root(owner.root) => vm.on_queue_ready(owner.root, queue),
                // The context that it woke is gone; the message stays.
                _ => {}
            }
        }
        panic!("{MOST_WAKEUPS} wake-ups at one moment");
    }

    /// The number of pending wake-ups.
    pub fn wakeups(&self) -> usize {
        self.with(|common| common.queues.wakeups())
    }

    /// Drops the pending wake-ups; the messages stay.
    pub fn lose_wakeups(&self) {
        self.with(|common| common.queues.lose_wakeups());
    }

    /// The number of ticks so far.
    pub fn ticks(&self) -> u64 {
        self.0.ticks.get()
    }

    /// How many timers of removed root contexts have fired: no callback runs, but the thread is
    /// woken.
    pub fn orphaned_ticks(&self) -> u64 {
        self.0.orphaned_ticks.get()
    }

    /// Removes a listener, or the previous version of an updated one. As in Envoy it keeps its
    /// plugin until it has drained for `time`, and its streams keep it until they end.
    pub fn drain(&self, listener: Listener, time: Duration) {
        self.0.draining.borrow_mut().push((self.now() + time, listener));
    }

    /// A counter or a gauge by the guest's name for it.
    pub fn metric(&self, name: &str) -> Option<u64> {
        self.with(|common| common.metrics.named(name))
    }

    /// A value in the shared data.
    pub fn shared_data(&self, vm_id: &str, key: &str) -> Option<Vec<u8>> {
        self.with(|common| common.data.get(vm_id, key.as_bytes()).map(|(value, _)| value.clone()))
    }

    /// The log since the last reading.
    pub fn take_log(&self) -> Vec<LogLine> {
        self.with(|common| std::mem::take(&mut common.log))
    }

    /// The faults since the last reading.
    pub fn take_faults(&self) -> Vec<Fault> {
        self.with(|common| std::mem::take(&mut common.faults))
    }

    /// The calls that wait for an answer, the oldest first.
    pub fn http_calls(&self) -> Vec<HttpCall> {
        self.with(|common| common.calls.waiting().to_vec())
    }

    /// Answers a call.
    ///
    /// # Panics
    /// It has been answered already, or the callback made a call that Envoy refuses.
    pub fn answer(&self, call: &HttpCall, status: u32, headers: &[(&str, &str)], body: &[u8]) {
        let mut map = HeaderMap::default();
        map.add(":status", status.to_string());
        headers.iter().for_each(|(name, value)| map.add(name, value));
        self.conclude(call, Some((map.into(), body.to_vec())));
    }

    /// Ends a call without an answer: the connection was refused or reset.
    ///
    /// # Panics
    /// As [`Self::answer`].
    pub fn fail(&self, call: &HttpCall) {
        self.conclude(call, None);
    }

    fn conclude(&self, call: &HttpCall, answer: Option<(Headers, Vec<u8>)>) {
        let known = self.with(|common| common.calls.remove(call.token));
        assert!(known, "call {} to {} has been answered already", call.token, call.cluster);
        if let Some(vm) = self.vm_at(call.from) {
            vm.on_http_call_response(call.from.root, call.token, answer);
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        self.0.common.with(work)
    }

    /// The VM at this address, if it is still the same instance.
    fn vm_at(&self, address: Address) -> Option<Vm> {
        let vm = self.0.vms.borrow().get(address.vm).and_then(Weak::upgrade).map(Vm::from)?;
        (vm.generation() == address.generation).then_some(vm)
    }

    /// When the next event is due, at most at `end`; threads that stand still have none.
    fn next_due(&self, end: Duration) -> Option<Duration> {
        let dues: Vec<(Address, Duration)> = self.with(|common| {
            let dues = common.timers.dues().chain(common.calls.dues());
            dues.filter(|(_, due)| *due <= end).collect()
        });
        let draining = self.0.draining.borrow();
        let drained = draining.iter().filter(|(due, listener)| *due <= end && !listener.vm().stands());
        let drained = drained.map(|(due, _)| *due).min();
        dues.into_iter().filter(|(address, _)| !self.stands(*address)).map(|(_, due)| due).chain(drained).min()
    }

    fn stands(&self, address: Address) -> bool {
        self.vm_at(address).is_some_and(|vm| vm.stands())
    }

    fn fire(&self, due: Duration) {
        let (mut timers, mut calls) = self.with(|common| {
            let timers = common.timers.dues().filter(|(_, at)| *at <= due);
            let late = common.calls.waiting().iter().filter(|call| call.due.is_some_and(|at| at <= due));
            (timers.map(|(address, _)| address).collect::<Vec<_>>(), late.cloned().collect::<Vec<_>>())
        });
        timers.retain(|address| !self.stands(*address));
        calls.retain(|call| !self.stands(call.from));
        for address in timers {
            match self.vm_at(address) {
                Some(vm) if vm.has_root(address.root) => {
                    self.0.ticks.set(self.0.ticks.get() + 1);
                    vm.on_tick(address.root);
                }
                Some(_) => self.0.orphaned_ticks.set(self.0.orphaned_ticks.get() + 1),
                None => {}
            }
            let gone = self.0.vms.borrow().get(address.vm).is_none_or(|vm| vm.strong_count() == 0);
            // As in Envoy: the period that the callback asked for begins when the callback ends.
            self.with(|common| match gone {
                true => common.timers.forget(|other| *other == address),
                false => common.timers.restart(address, common.now),
            });
        }
        for call in calls {
            // Envoy itself answers a call that times out, unless its caller ended in a tick above.
            if self.http_calls().iter().any(|waiting| waiting.token == call.token) {
                self.answer(&call, 504, &[], b"upstream request timeout");
            }
        }
        let drained: Vec<_> = {
            let mut draining = self.0.draining.borrow_mut();
            draining.extract_if(.., |(at, listener)| *at <= due && !listener.vm().stands()).collect()
        };
        drop(drained);
    }
}
