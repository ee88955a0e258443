//! How often this thread ticks, and in which root context.
//!
//! A root context begins with a plugin configuration and ends with the last listener or stream that
//! has it. One of the present root contexts is the carrier of what the thread does for itself: its
//! ticks, its message queue, and the agent's calls to the control plane. All of these end with the
//! carrier; then another root context takes over.

use crate::host::Host;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// The ticks of a thread.
pub struct Pace<H> {
    host: H,
    /// The present root contexts, the newest last.
    roots: RefCell<Vec<u32>>,
    carrier: Cell<Option<u32>>,
    period: Cell<Duration>,
}

impl<H: Host> Pace<H> {
    /// No root context yet.
    pub fn new(host: &H) -> Self {
        let (roots, carrier, period) = (RefCell::default(), Cell::new(None), Cell::new(Duration::ZERO));
        Self { host: host.clone(), roots, carrier, period }
    }

    /// A root context begins. The first one becomes the carrier, and ticks every `period`.
    pub fn add(&self, root: u32, vm: u64, period: Duration) {
        self.roots.borrow_mut().push(root);
        if self.carrier.get().is_none() {
            self.carry(root, vm, period);
        }
    }

    /// A root context ends; returns whether it was the carrier.
    pub fn remove(&self, root: u32, vm: u64) -> bool {
        let mut roots = self.roots.borrow_mut();
        if let Some(place) = roots.iter().rposition(|known| *known == root) {
            roots.remove(place);
        }
        let carried = self.carrier.get() == Some(root) && !roots.contains(&root);
        if carried {
            // Otherwise Envoy would wake the thread for it for ever.
            self.host.set_tick_period(root, Duration::ZERO);
            self.carrier.set(None);
            if let Some(next) = roots.last() {
                self.carry(*next, vm, self.period.get());
            }
        }
        carried
    }

    fn carry(&self, root: u32, vm: u64, period: Duration) {
        self.carrier.set(Some(root));
        self.period.set(period);
        self.host.register_queue(root, vm);
        self.host.set_tick_period(root, period);
    }

    /// Whether this root context is the carrier.
    pub fn is_carried_by(&self, root: u32) -> bool {
        self.carrier.get() == Some(root)
    }

    /// Whether there is a carrier.
    pub fn is_carried(&self) -> bool {
        self.carrier.get().is_some()
    }

    /// The thread ticks every `period` from now on.
    pub fn set(&self, period: Duration) {
        let Some(carrier) = self.carrier.get() else { return };
        if self.period.replace(period) != period {
            self.host.set_tick_period(carrier, period);
        }
    }

    /// It ticks at least every `period` from now on.
    pub fn hurry(&self, period: Duration) {
        self.set(period.min(self.period.get()));
    }
}
