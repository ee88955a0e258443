//! One VM: an instance of the module with its root contexts, as one worker thread has it.

use crate::common::Common;
use crate::context::{Action, CallResponse, Context, RootState, StreamState};
use crate::cost::Cost;
use crate::exports::Exports;
use crate::guest::Guest;
use crate::headers::Headers;
use crate::instance::Instance;
use crate::module::Module;
use crate::options::{FailurePolicy, VmOptions};
use crate::shared::Address;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;
use wasmtime::Store;

/// A failed VM is made anew this long after its start at the earliest (Envoy: one second, with jitter).
const RELOAD_AFTER: Duration = Duration::from_secs(1);

/// A plugin configuration that the guest refused, or that it trapped on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest refused the configuration of {root_id}")]
pub struct Refused {
    /// The root id.
    pub root_id: String,
}

/// A plugin as it was configured, and its root context in the present instance.
struct Plugin {
    root_id: Rc<str>,
    configuration: Rc<[u8]>,
    context: u32,
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
    plugins: Vec<Plugin>,
    generation: u32,
    started: Duration,
    stands: bool,
}

/// A VM. A handle: clones are the same VM. When the last handle, root and stream is gone, so is its thread.
#[derive(Clone)]
pub struct Vm(Rc<VmCell>);

impl From<Rc<VmCell>> for Vm {
    fn from(cell: Rc<VmCell>) -> Self {
        Self(cell)
    }
}

impl Vm {
    pub(crate) fn start(common: &Common, module: &Module, index: usize, options: VmOptions) -> Self {
        let instance = Instance::new(common, module, Address { vm: index, generation: 0, root: 0 }, &options);
        let state = State { instance, plugins: Vec::new(), generation: 0, started: common.now(), stands: false };
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

    /// The root context of a plugin, as long as the instance is the same.
    pub(crate) fn context_of(&self, plugin: usize) -> u32 {
        self.0.state.borrow().plugins[plugin].context
    }

    /// Ends the timers and calls of a root context.
    pub(crate) fn forget(&self, root: u32) {
        self.common().forget(self.0.index, Some(root));
    }

    pub(crate) fn failure_policy(&self) -> FailurePolicy {
        self.0.options.failure_policy
    }

    /// Makes a root context and configures it; the plugin's number in this VM.
    pub(crate) fn add_plugin(&self, root_id: &str, configuration: &[u8]) -> Result<usize, Refused> {
        let (root_id, configuration): (Rc<str>, Rc<[u8]>) = (root_id.into(), configuration.into());
        let context = self.configure(&root_id, &configuration)?;
        let plugins = &mut self.0.state.borrow_mut().plugins;
        plugins.push(Plugin { root_id, configuration, context });
        Ok(plugins.len() - 1)
    }

    fn configure(&self, root_id: &Rc<str>, configuration: &Rc<[u8]>) -> Result<u32, Refused> {
        let refused = || Refused { root_id: root_id.to_string() };
        let (size, vm_size) = (configuration.len() as u32, self.0.options.configuration.len() as u32);
        let context = self.guest(|guest| {
            let context = guest.next_context();
            let (root_id, configuration) = (Rc::clone(root_id), Rc::clone(configuration));
            guest.contexts.insert(context, Context::Root(RootState { root_id, configuration, configuring: false }));
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

    /// Whether the VM has trapped; then none of its code runs any more.
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

    /// What the callbacks of all roots have cost since the last look.
    pub fn take_cost(&self) -> Cost {
        self.guest(|guest| {
            let mut sum = Cost::default();
            guest.tallies.iter_mut().for_each(|(_, tally)| sum.add(&tally.take(&guest.functions)));
            sum
        })
    }

    /// Whether the time spent in host calls is measured from now on; see [`Cost::host_time`].
    pub fn time_host_calls(&self, on: bool) {
        self.guest(|guest| guest.timed = on);
    }

    /// Ends the VM as a trap would.
    pub fn trap(&self) {
        self.0.state.borrow_mut().instance.failed = true;
    }

    /// Whether its thread stands still from now on, as when it is stopped or throttled: its ticks and wake-ups wait
    /// until it goes on. A test must not call its streams meanwhile.
    pub fn stand_still(&self, stands: bool) {
        self.0.state.borrow_mut().stands = stands;
    }

    pub(crate) fn stands(&self) -> bool {
        self.0.state.borrow().stands
    }

    /// Makes a VM that has trapped anew, if its failure policy says so and it is time.
    pub(crate) fn reload(&self) {
        let cell = &self.0;
        let early = self.common().now() < cell.state.borrow().started + RELOAD_AFTER;
        if !self.is_dead() || self.failure_policy() != FailurePolicy::Reload || early {
            return;
        }
        self.common().forget(cell.index, None);
        let generation = self.generation() + 1;
        let address = Address { vm: cell.index, generation, root: 0 };
        let instance = Instance::new(self.common(), &cell.module, address, &cell.options);
        let plugins: Vec<(Rc<str>, Rc<[u8]>)> = {
            let mut state = cell.state.borrow_mut();
            (state.instance, state.generation, state.started) = (instance, generation, self.common().now());
            state.plugins.iter().map(|plugin| (Rc::clone(&plugin.root_id), Rc::clone(&plugin.configuration))).collect()
        };
        for (index, (root_id, configuration)) in plugins.iter().enumerate() {
            let context = self.configure(root_id, configuration).unwrap_or_default();
            cell.state.borrow_mut().plugins[index].context = context;
        }
    }

    pub(crate) fn guest<T>(&self, work: impl FnOnce(&mut Guest) -> T) -> T {
        work(self.0.state.borrow_mut().instance.store.data_mut())
    }

    /// Runs a callback and then what it left to be done; none if the VM is dead or dies of it.
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

    fn act(&self, action: Action) {
        match action {
            Action::ResumeRequest(context) => self.stream_of(context, |stream| {
                (stream.request_paused, stream.request_resumed) = (false, true);
            }),
            Action::ResumeResponse(context) => self.stream_of(context, |stream| {
                (stream.response_paused, stream.response_resumed) = (false, true);
            }),
            Action::Reset(context) => self.stream_of(context, |stream| stream.reset = true),
            Action::Reply { context, reply } => {
                // Envoy sends a reply of the filter's own through the filter's response callback too.
                let size = reply.headers.borrow().len() as u32;
                let end = u32::from(reply.body.is_empty());
                let headers = reply.headers.clone();
                self.stream_of(context, |stream| {
                    (stream.response, stream.logged_response) = (Some(headers.clone()), Some(headers));
                    stream.request_paused = false;
                });
                self.enter("proxy_on_response_headers", context, |exports, store| {
                    exports.response_headers(store, context, size, end)
                });
                self.stream_of(context, |stream| {
                    (stream.response, stream.request) = (None, None);
                    stream.reply = Some(reply);
                });
            }
        }
    }

    fn stream_of(&self, context: u32, work: impl FnOnce(&mut StreamState)) {
        self.guest(|guest| guest.stream_of(context).map(work));
    }

    pub(crate) fn on_tick(&self, root: u32) {
        self.call("proxy_on_tick", root, |exports, store| exports.tick(store, root));
    }

    pub(crate) fn on_queue_ready(&self, root: u32, queue: u32) {
        self.call("proxy_on_queue_ready", root, |exports, store| exports.queue_ready(store, root, queue));
    }

    pub(crate) fn on_http_call_response(&self, root: u32, token: u32, answer: Option<(Headers, Vec<u8>)>) {
        let (headers, body) = answer.as_ref().map_or((0, 0), |(map, body)| (map.borrow().len(), body.len()));
        let response = answer.map(|(headers, body)| CallResponse { root, headers, body });
        self.guest(|guest| guest.call_response = response);
        self.call("proxy_on_http_call_response", root, |exports, store| {
            exports.http_call_response(store, root, token, headers as u32, body as u32)
        });
        self.guest(|guest| guest.call_response = None);
    }
}
