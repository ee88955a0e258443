//! An Envoy process: what its VMs share, virtual time, and the event loop.

use crate::calls::HttpCall;
use crate::metrics::Metrics;
use crate::module::Module;
use crate::shared::{Address, Queues, SharedData};
use crate::status::{Fault, Status};
use crate::vm::{Vm, VmCell, VmOptions};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Where the monotonic clock starts: a guest must not take its first reading for zero.
const BOOTED: Duration = Duration::from_secs(1000);
/// 2026-01-01, where the realtime clock starts.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);
/// Wake-ups that are delivered at one moment; more than that is a guest that wakes itself for ever.
const MOST_WAKEUPS: usize = 1_000_000;

/// A line that a guest logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// 0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 critical.
    pub level: u32,
    /// What it says.
    pub text: String,
}

struct Timer {
    period: Duration,
    due: Duration,
}

pub(crate) struct Inner {
    module: Module,
    node: String,
    pub(crate) now: Duration,
    pub(crate) rng: fastrand::Rng,
    pub(crate) data: SharedData,
    pub(crate) queues: Queues,
    pub(crate) metrics: Metrics,
    pub(crate) clusters: BTreeSet<String>,
    pub(crate) calls: Vec<HttpCall>,
    pub(crate) last_token: u32,
    timers: BTreeMap<Address, Timer>,
    ticks: u64,
    vms: Vec<Weak<VmCell>>,
    log: Vec<LogLine>,
    faults: Vec<Fault>,
    records_faults: bool,
}

/// An Envoy process. A handle: clones are the same process. Single-threaded, so a run with the same seed is the same run.
#[derive(Clone)]
pub struct Process(Rc<RefCell<Inner>>);

impl Process {
    /// A process that runs this module in all its VMs; what its guests draw at random follows from the seed.
    pub fn new(module: &Module, seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            module: module.clone(),
            node: "testhost".to_owned(),
            now: BOOTED,
            rng: fastrand::Rng::with_seed(seed),
            data: SharedData::default(),
            queues: Queues::default(),
            metrics: Metrics::default(),
            clusters: BTreeSet::new(),
            calls: Vec::new(),
            last_token: 0,
            timers: BTreeMap::new(),
            ticks: 0,
            vms: Vec::new(),
            log: Vec::new(),
            faults: Vec::new(),
            records_faults: false,
        })))
    }

    /// Keeps faults for [`Self::take_faults`] instead of failing the test at once.
    #[must_use]
    pub fn recording_faults(self) -> Self {
        self.with(|process| process.records_faults = true);
        self
    }

    /// Adds a cluster that guests may call.
    #[must_use]
    pub fn with_cluster(self, name: &str) -> Self {
        self.with(|process| process.clusters.insert(name.to_owned()));
        self
    }

    /// Starts a VM: that of one more worker thread.
    ///
    /// # Panics
    /// The module imports a function that Envoy does not have, lacks one that the ABI wants, or traps in its start function.
    pub fn vm(&self, options: VmOptions) -> Vm {
        let (module, index) = self.with(|process| {
            process.vms.push(Weak::new());
            (process.module.clone(), process.vms.len() - 1)
        });
        let vm = Vm::start(self, &module, index, options);
        self.with(|process| process.vms[index] = vm.downgrade());
        vm
    }

    /// The monotonic clock.
    pub fn now(&self) -> Duration {
        self.with(|process| process.now)
    }

    /// The realtime clock, since 1970.
    pub fn realtime(&self) -> Duration {
        EPOCH + self.now()
    }

    /// Lets time pass: wake-ups are delivered at once, ticks and timeouts of calls come when they are due, in order of time.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn advance(&self, by: Duration) {
        let end = self.now() + by;
        self.deliver();
        while let Some(due) = self.next_due(end) {
            self.with(|process| process.now = process.now.max(due));
            self.fire(due);
            self.deliver();
        }
        self.with(|process| process.now = end);
    }

    /// Delivers the wake-ups of shared queues, and those that these cause.
    ///
    /// # Panics
    /// As [`Self::advance`]; or a guest wakes itself for ever.
    pub fn deliver(&self) {
        let mut waiting = Vec::new();
        for _ in 0..MOST_WAKEUPS {
            let Some((owner, queue)) = self.with(|process| process.queues.next_wakeup()) else {
                self.with(|process| process.queues.keep_wakeups(waiting));
                return;
            };
            match self.vm_at(owner) {
                Some(vm) if vm.stands() => waiting.push((owner, queue)),
                Some(vm) => vm.on_queue_ready(owner.root, queue),
                None => {}
            }
        }
        panic!("{MOST_WAKEUPS} wake-ups at one moment");
    }

    /// How many wake-ups are on the way.
    pub fn wakeups(&self) -> usize {
        self.with(|process| process.queues.wakeups())
    }

    /// Loses the wake-ups that are on the way; the messages stay.
    pub fn lose_wakeups(&self) {
        self.with(|process| process.queues.lose_wakeups());
    }

    /// How many ticks there were.
    pub fn ticks(&self) -> u64 {
        self.with(|process| process.ticks)
    }

    /// A counter or a gauge by the name that the guest gave it.
    pub fn metric(&self, name: &str) -> Option<u64> {
        self.with(|process| process.metrics.named(name))
    }

    /// A value of the shared data.
    pub fn shared_data(&self, vm_id: &str, key: &str) -> Option<Vec<u8>> {
        self.with(|process| process.data.get(vm_id, key.as_bytes()).map(|(value, _)| value.clone()))
    }

    /// What was logged since the last look.
    pub fn take_log(&self) -> Vec<LogLine> {
        self.with(|process| std::mem::take(&mut process.log))
    }

    /// The faults since the last look.
    pub fn take_faults(&self) -> Vec<Fault> {
        self.with(|process| std::mem::take(&mut process.faults))
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }

    pub(crate) fn node(&self) -> String {
        self.with(|process| process.node.clone())
    }

    pub(crate) fn log(&self, level: u32, text: String) {
        self.with(|process| process.log.push(LogLine { level, text }));
    }

    pub(crate) fn fault(&self, callback: &'static str, call: &'static str, status: Status, why: String) {
        self.with(|process| process.faults.push(Fault { callback, call, status, why }));
    }

    /// Fails the test if there was a fault, unless faults are recorded.
    pub(crate) fn raise(&self) {
        let fault = self.with(|process| process.faults.first().filter(|_| !process.records_faults).cloned());
        if let Some(fault) = fault.filter(|_| !std::thread::panicking()) {
            panic!("{fault}");
        }
    }

    /// The VM at this address, if it is still the same one.
    pub(crate) fn vm_at(&self, address: Address) -> Option<Vm> {
        let vm = self.with(|process| process.vms.get(address.vm).and_then(Weak::upgrade)).map(Vm::from)?;
        (vm.generation() == address.generation).then_some(vm)
    }

    /// Starts a timer anew, or stops it.
    pub(crate) fn set_timer(&self, address: Address, period: Duration) {
        self.with(|process| match period {
            Duration::ZERO => drop(process.timers.remove(&address)),
            _ => drop(process.timers.insert(address, Timer { period, due: process.now + period })),
        });
    }

    /// Forgets the timers and calls of a VM, or of one root context of it.
    pub(crate) fn forget(&self, vm: usize, root: Option<u32>) {
        let gone = move |address: &Address| address.vm == vm && root.is_none_or(|root| root == address.root);
        self.with(|process| {
            process.timers.retain(|address, _| !gone(address));
            process.calls.retain(|call| !gone(&call.from));
        });
    }

    /// When the next thing is due, at most at `end`, of threads that do not stand still.
    fn next_due(&self, end: Duration) -> Option<Duration> {
        let dues: Vec<(Address, Duration)> = self.with(|process| {
            let calls = process.calls.iter().filter_map(|call| Some((call.from, call.due?)));
            let timers = process.timers.iter().map(|(address, timer)| (*address, timer.due));
            timers.chain(calls).filter(|(_, due)| *due <= end).collect()
        });
        dues.into_iter().filter(|(address, _)| !self.stands(*address)).map(|(_, due)| due).min()
    }

    fn stands(&self, address: Address) -> bool {
        self.vm_at(address).is_some_and(|vm| vm.stands())
    }

    fn fire(&self, due: Duration) {
        let (timers, calls) = self.with(|process| {
            let timers: Vec<Address> =
                process.timers.iter().filter(|(_, timer)| timer.due <= due).map(|(address, _)| *address).collect();
            let late = |call: &&HttpCall| call.due.is_some_and(|at| at <= due);
            (timers, process.calls.iter().filter(late).cloned().collect::<Vec<_>>())
        });
        let (timers, calls): (Vec<Address>, Vec<HttpCall>) = (
            timers.into_iter().filter(|address| !self.stands(*address)).collect(),
            calls.into_iter().filter(|call| !self.stands(call.from)).collect(),
        );
        for address in timers {
            if let Some(vm) = self.vm_at(address) {
                self.with(|process| process.ticks += 1);
                vm.on_tick(address.root);
            }
            // As in Envoy: whatever the callback asked for counts from its end.
            self.with(|process| {
                let now = process.now;
                let gone = process.vms.get(address.vm).is_none_or(|vm| vm.strong_count() == 0);
                if gone {
                    process.timers.remove(&address);
                } else if let Some(timer) = process.timers.get_mut(&address) {
                    timer.due = now + timer.period;
                }
            });
        }
        for call in calls {
            // Envoy's own answer to a call that takes too long.
            self.answer(&call, 504, &[], b"upstream request timeout");
        }
    }
}
