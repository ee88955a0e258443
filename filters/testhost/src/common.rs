//! What the VMs of an Envoy share: clocks, randomness, data, queues, metrics, timers, calls, the
//! log.
//!
//! Guests reach it through host calls. It knows no VMs: a due timer, a wake-up or an answer is for
//! an [`Address`], and the process calls the VM.

use crate::calls::Calls;
use crate::context::Key;
use crate::metrics::Metrics;
use crate::shared::{Address, Queues, SharedData};
use crate::status::{Fault, Status};
use crate::timers::Timers;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

/// Where the monotonic clock starts: not at zero, so that a guest cannot rely on that.
const BOOTED: Duration = Duration::from_secs(1000);
/// Where the realtime clock starts: 2026-01-01.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// A line that a guest logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// 0 trace, 1 debug, 2 info, 3 warning, 4 error, 5 critical.
    pub level: u32,
    /// Its text.
    pub text: String,
}

/// The shared state.
pub(crate) struct Shared {
    pub(crate) now: Duration,
    pub(crate) rng: fastrand::Rng,
    pub(crate) data: SharedData,
    pub(crate) queues: Queues,
    pub(crate) metrics: Metrics,
    pub(crate) clusters: BTreeSet<String>,
    pub(crate) calls: Calls,
    pub(crate) timers: Timers,
    /// How many VMs there are by VM id.
    pub(crate) vms: BTreeMap<String, usize>,
    /// Plugins that were tried on the main thread, and whether they were accepted.
    pub(crate) canaries: HashMap<Key, bool>,
    pub(crate) log: Vec<LogLine>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) records_faults: bool,
}

/// A handle to the shared state, which all clones share.
#[derive(Clone)]
pub(crate) struct Common(Rc<RefCell<Shared>>);

impl Common {
    /// `seed` determines what the guests draw at random.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            now: BOOTED,
            rng: fastrand::Rng::with_seed(seed),
            data: SharedData::default(),
            queues: Queues::default(),
            metrics: Metrics::default(),
            clusters: BTreeSet::new(),
            calls: Calls::default(),
            timers: Timers::default(),
            vms: BTreeMap::new(),
            canaries: HashMap::new(),
            log: Vec::new(),
            faults: Vec::new(),
            records_faults: false,
        })))
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }

    /// The monotonic clock.
    pub(crate) fn now(&self) -> Duration {
        self.with(|shared| shared.now)
    }

    /// The realtime clock: time since 1970.
    pub(crate) fn realtime(&self) -> Duration {
        EPOCH + self.now()
    }

    /// The id of this node, as the property gives it.
    pub(crate) fn node(&self) -> &'static str {
        "testhost"
    }

    pub(crate) fn log(&self, level: u32, text: String) {
        self.with(|shared| shared.log.push(LogLine { level, text }));
    }

    pub(crate) fn fault(&self, callback: &'static str, call: &'static str, status: Status, why: String) {
        self.with(|shared| shared.faults.push(Fault { callback, call, status, why }));
    }

    /// Fails the test if there was a fault, unless faults are recorded.
    pub(crate) fn raise(&self) {
        let fault = self.with(|shared| shared.faults.first().filter(|_| !shared.records_faults).cloned());
        if let Some(fault) = fault.filter(|_| !std::thread::panicking()) {
            panic!("{fault}");
        }
    }

    /// Restarts a timer, or stops it.
    pub(crate) fn set_timer(&self, address: Address, period: Duration) {
        self.with(|shared| shared.timers.set(address, period, shared.now));
    }

    /// Forgets the timers and calls of a VM.
    pub(crate) fn forget(&self, vm: usize) {
        self.with(|shared| {
            shared.timers.forget(|address| address.vm == vm);
            shared.calls.forget(|address| address.vm == vm);
        });
    }

    /// Forgets the calls of a root context: nobody will get their answers. As in Envoy its timer
    /// stays.
    pub(crate) fn forget_calls(&self, vm: usize, root: u32) {
        self.with(|shared| shared.calls.forget(|address| address.vm == vm && address.root == root));
    }

    /// Counts one more VM with this id.
    pub(crate) fn begin_vm(&self, vm_id: &str) {
        self.with(|shared| *shared.vms.entry(vm_id.to_owned()).or_default() += 1);
    }

    /// Counts one VM less. With the last one, what VMs of this id share is forgotten.
    pub(crate) fn end_vm(&self, vm_id: &str) {
        self.with(|shared| {
            let count = shared.vms.entry(vm_id.to_owned()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                shared.data.forget(vm_id);
                shared.queues.forget(vm_id);
            }
        });
    }
}
