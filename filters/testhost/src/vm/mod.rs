//! One VM: an instance of the module with its root contexts, on one worker thread.

mod callbacks;

use crate::common::Common;
use crate::context::{Context, Key, RootState};
use crate::cost::Cost;
use crate::exports::Exports;
use crate::guest::Guest;
use crate::instance::Instance;
use crate::module::Module;
use crate::options::{FailurePolicy, VmOptions};
use crate::shared::Address;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use wasmtime::Store;

/// A failed VM is replaced this long after its start at the earliest (Envoy: one second, with
/// jitter).
const RELOAD_AFTER: Duration = Duration::from_secs(1);

/// A plugin configuration that the guest refused, or that it trapped on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest refused the configuration of {root_id}")]
pub struct Refused {
    /// The root id.
    pub root_id: String,
}

/// The number of the VMs on the main thread in which configurations are tried; no worker has it.
const CANARY: usize = usize::MAX;

/// A plugin's configuration, and its root context in the current instance.
struct Plugin {
    key: Key,
    context: u32,
    /// The handle that its listeners hold; empty if a test created the plugin directly.
    handle: Weak<Handle>,
}

pub(crate) struct VmCell {
    common: Common,
    module: Module,
    index: usize,
    options: VmOptions,
    state: RefCell<State>,
}

struct State {
    instance: Instance,
    /// By number. Removed ones leave their place empty.
    plugins: Vec<Option<Plugin>>,
    generation: u32,
    started: Duration,
    stands: bool,
    /// Whether its last plugin has been removed, and the instance with it.
    ended: bool,
}

impl Drop for VmCell {
    fn drop(&mut self) {
        if !self.state.get_mut().ended {
            self.common.with(|common| {
                let count = common.vms.entry(self.options.vm_id.clone()).or_default();
                *count = count.saturating_sub(1);
            });
        }
    }
}

/// A VM. A handle: clones are the same VM. Its thread ends when the last handle, root and stream
/// has been dropped.
///
/// As in Envoy, it ends with its last plugin; the next plugin gets a new one.
#[derive(Clone)]
pub struct Vm(Rc<VmCell>);

/// What listeners and streams hold of a plugin. When the last one is dropped, the root context is
/// done, deleted and removed.
pub(crate) struct Handle {
    pub(crate) vm: Vm,
    pub(crate) plugin: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.vm.shut_down(self.plugin);
        }
    }
}

impl From<Rc<VmCell>> for Vm {
    fn from(cell: Rc<VmCell>) -> Self {
        Self(cell)
    }
}

impl Vm {
    pub(crate) fn start(common: &Common, module: &Module, index: usize, options: VmOptions) -> Self {
        let instance = Instance::new(common, module, Address { vm: index, generation: 0, root: 0 }, &options);
        common.begin_vm(&options.vm_id);
        let (plugins, started) = (Vec::new(), common.now());
        let state = State { instance, plugins, generation: 0, started, stands: false, ended: false };
        let vm = VmCell { common: common.clone(), module: module.clone(), index, options, state: state.into() };
        Self(Rc::new(vm))
    }

    pub(crate) fn downgrade(&self) -> Weak<VmCell> {
        Rc::downgrade(&self.0)
    }

    fn common(&self) -> &Common {
        &self.0.common
    }

    pub(crate) fn generation(&self) -> u32 {
        self.0.state.borrow().generation
    }

    /// The root context of a plugin in the current instance.
    pub(crate) fn context_of(&self, plugin: usize) -> u32 {
        let state = self.0.state.borrow();
        state.plugins[plugin].as_ref().expect("a plugin that is not gone").context
    }

    /// Whether there is a root context with this number.
    pub(crate) fn has_root(&self, context: u32) -> bool {
        self.guest(|guest| matches!(guest.contexts.get(&context), Some(Context::Root(_))))
    }

    pub(crate) fn failure_policy(&self) -> FailurePolicy {
        self.0.options.failure_policy
    }

    /// Creates and configures a root context; returns the plugin's number in this VM.
    pub(crate) fn add_plugin(&self, key: Key) -> Result<usize, Refused> {
        self.begin_anew();
        let context = self.configure(&key)?;
        let plugins = &mut self.0.state.borrow_mut().plugins;
        plugins.push(Some(Plugin { key, context, handle: Weak::new() }));
        Ok(plugins.len() - 1)
    }

    /// The handle of a living plugin with this key.
    pub(crate) fn handle_of(&self, key: &Key) -> Option<Rc<Handle>> {
        let state = self.0.state.borrow();
        let mut plugins = state.plugins.iter().flatten();
        plugins.find_map(|plugin| plugin.handle.upgrade().filter(|_| plugin.key == *key))
    }

    /// Sets the handle through which listeners hold this plugin.
    pub(crate) fn hold(&self, plugin: usize, handle: &Rc<Handle>) {
        if let Some(plugin) = &mut self.0.state.borrow_mut().plugins[plugin] {
            plugin.handle = Rc::downgrade(handle);
        }
    }

    /// Whether a plugin with this key is accepted. It is tried once, as on Envoy's main thread, in
    /// a VM that is then deleted.
    pub(crate) fn try_plugin(&self, key: &Key) -> Result<(), Refused> {
        let known = self.common().with(|common| common.canaries.get(key).copied());
        let accepted = known.unwrap_or_else(|| {
            let canary = Self::start(self.common(), &self.0.module, CANARY, self.0.options.clone());
            let accepted = canary.configure(key).is_ok();
            self.common().forget(CANARY);
            self.common().with(|common| common.canaries.insert(key.clone(), accepted));
            accepted
        });
        if accepted { Ok(()) } else { Err(Refused { root_id: key.root_id.to_string() }) }
    }

    /// Removes a plugin, and with the last one the instance.
    pub(crate) fn shut_down(&self, plugin: usize) {
        let Some(Plugin { context, .. }) = self.0.state.borrow_mut().plugins[plugin].take() else { return };
        let done = self.call("proxy_on_done", context, |exports, store| exports.done(store, context));
        if done == Some(false) {
            self.guest(|guest| {
                if let Some(Context::Root(root)) = guest.contexts.get_mut(&context) {
                    root.ending = true;
                }
            });
        } else {
            self.delete_root(context);
        }
        if self.0.state.borrow().plugins.iter().all(Option::is_none) {
            self.end();
        }
    }

    fn delete_root(&self, context: u32) {
        self.call("proxy_on_delete", context, |exports, store| exports.delete(store, context));
        self.guest(|guest| guest.contexts.remove(&context));
        self.common().forget_calls(self.0.index, context);
    }

    fn end(&self) {
        let cell = &self.0;
        self.guest(|guest| guest.contexts.clear());
        self.common().forget(cell.index);
        self.common().end_vm(&cell.options.vm_id);
        let mut state = cell.state.borrow_mut();
        (state.ended, state.generation) = (true, state.generation + 1);
    }

    /// Replaces the VM if it has ended.
    fn begin_anew(&self) {
        if self.0.state.borrow().ended {
            self.common().begin_vm(&self.0.options.vm_id);
            self.instantiate();
        }
    }

    /// A new instance with the current generation's number, without plugins.
    fn instantiate(&self) {
        let (cell, address) = (&self.0, self.address());
        let instance = Instance::new(self.common(), &cell.module, address, &cell.options);
        let mut state = cell.state.borrow_mut();
        (state.instance, state.started, state.ended) = (instance, self.common().now(), false);
    }

    fn address(&self) -> Address {
        Address { vm: self.0.index, generation: self.generation(), root: 0 }
    }

    fn configure(&self, key: &Key) -> Result<u32, Refused> {
        let refused = || Refused { root_id: key.root_id.to_string() };
        let (size, vm_size) = (key.configuration.len() as u32, self.0.options.configuration.len() as u32);
        let context = self.guest(|guest| {
            let context = guest.next_context();
            let root = RootState { key: key.clone(), configuring: false, ending: false };
            guest.contexts.insert(context, Context::Root(root));
            context
        });
        let created = self.call("proxy_on_context_create", context, |exports, store| exports.create(store, context, 0));
        created.ok_or_else(refused)?;
        let started = self.call("proxy_on_vm_start", context, |exports, store| exports.start(store, context, vm_size));
        if started != Some(true) {
            return Err(refused());
        }
        self.configuring(context, true);
        let accepted =
            self.call("proxy_on_configure", context, |exports, store| exports.configure(store, context, size));
        self.configuring(context, false);
        if accepted == Some(true) { Ok(context) } else { Err(refused()) }
    }

    fn configuring(&self, context: u32, now: bool) {
        self.guest(|guest| {
            if let Some(Context::Root(root)) = guest.contexts.get_mut(&context) {
                root.configuring = now;
            }
        });
    }

    /// Whether the VM has trapped, so that none of its code runs any more.
    pub fn is_dead(&self) -> bool {
        self.0.state.borrow().instance.failed
    }

    /// The size of the guest's linear memory in pages of 64 KiB.
    pub fn memory_pages(&self) -> u64 {
        let state = self.0.state.borrow();
        let store = &state.instance.store;
        store.data().memory.map_or(0, |memory| memory.size(store))
    }

    /// The contexts that exist: one for each root, stream and attempt.
    pub fn contexts(&self) -> usize {
        self.guest(|guest| guest.contexts.len())
    }

    /// What the callbacks of all root contexts have cost since the last reading.
    pub fn take_cost(&self) -> Cost {
        self.guest(|guest| {
            let mut sum = Cost::default();
            guest.tallies.iter_mut().for_each(|(_, tally)| sum.add(&tally.take(&guest.functions)));
            sum
        })
    }

    /// Whether to measure the time spent in host calls from now on; see [`Cost::host_time`].
    pub fn time_host_calls(&self, on: bool) {
        self.guest(|guest| guest.timed = on);
    }

    /// Ends the VM as a trap would.
    pub fn trap(&self) {
        self.0.state.borrow_mut().instance.failed = true;
    }

    /// Whether its thread stands still from now on, as one that is stopped or throttled. Its ticks
    /// and wake-ups then wait. A test must not call its streams in that time.
    pub fn stand_still(&self, stands: bool) {
        self.0.state.borrow_mut().stands = stands;
    }

    pub(crate) fn stands(&self) -> bool {
        self.0.state.borrow().stands
    }

    /// Replaces a VM that has trapped, if its failure policy says so and it is time.
    pub(crate) fn reload(&self) {
        let cell = &self.0;
        let early = self.common().now() < cell.state.borrow().started + RELOAD_AFTER;
        if !self.is_dead() || self.failure_policy() != FailurePolicy::Reload || early {
            return;
        }
        self.common().forget(cell.index);
        cell.state.borrow_mut().generation += 1;
        self.instantiate();
        let keys: Vec<(usize, Key)> = {
            let state = cell.state.borrow();
            let plugins = state.plugins.iter().enumerate();
            plugins.filter_map(|(index, plugin)| Some((index, plugin.as_ref()?.key.clone()))).collect()
        };
        for (index, key) in keys {
            let context = self.configure(&key).unwrap_or_default();
            if let Some(plugin) = &mut cell.state.borrow_mut().plugins[index] {
                plugin.context = context;
            }
        }
    }

    pub(crate) fn guest<T>(&self, work: impl FnOnce(&mut Guest) -> T) -> T {
        work(self.0.state.borrow_mut().instance.store.data_mut())
    }

    /// Runs a callback and then the actions that it left; none if the VM is dead or traps.
    pub(crate) fn call<T>(
        &self,
        name: &'static str,
        context: u32,
        work: impl FnOnce(&Exports, &mut Store<Guest>) -> wasmtime::Result<T>,
    ) -> Option<T> {
        let result = self.enter(name, context, work);
        while let Some(action) = self.guest(|guest| guest.actions.pop_front()) {
            self.act(action);
        }
        self.common().raise();
        result
    }

    fn enter<T>(
        &self,
        name: &'static str,
        context: u32,
        work: impl FnOnce(&Exports, &mut Store<Guest>) -> wasmtime::Result<T>,
    ) -> Option<T> {
        self.0.state.borrow_mut().instance.enter(name, context, work)
    }
}
