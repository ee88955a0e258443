//! One instance of the module: its store and its callbacks.

use crate::abi;
use crate::common::Common;
use crate::cost::Tally;
use crate::exports::Exports;
use crate::guest::Guest;
use crate::module::Module;
use crate::options::VmOptions;
use crate::shared::Address;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use wasmtime::Store;

/// The most fuel for one callback; one that needs more would run for ever.
const MOST_FUEL: u64 = 1_000_000_000;

pub(crate) struct Instance {
    pub(crate) store: Store<Guest>,
    exports: Rc<Exports>,
    metered: bool,
    pub(crate) failed: bool,
}

impl Instance {
    pub(crate) fn new(common: &Common, module: &Module, address: Address, options: &VmOptions) -> Self {
        let (linker, names) = abi::link(&module.inner).expect("the host functions");
        let guest = Guest {
            common: common.clone(),
            address,
            vm_id: options.vm_id.as_str().into(),
            vm_configuration: options.configuration.clone(),
            memory: None,
            allocate: None,
            contexts: HashMap::new(),
            last_context: 0,
            callback: "start",
            current: 0,
            effective: None,
            actions: VecDeque::new(),
            metrics: HashMap::new(),
            call_response: None,
            tallies: vec![(0, Tally::new(names.len()))],
            counting: 0,
            timed: false,
            functions: names,
        };
        let mut store = Store::new(module.inner.engine(), guest);
        if module.is_metered() {
            store.set_fuel(MOST_FUEL).expect("a metered engine");
        }
        let instance = linker.instantiate(&mut store, &module.inner);
        let instance = instance.unwrap_or_else(|error| panic!("the module cannot be loaded: {error:#}"));
        let exports = Exports::find(&mut store, &instance);
        let memory = instance.get_memory(&mut store, "memory");
        let guest = store.data_mut();
        (guest.memory, guest.allocate) = (memory, exports.allocate.clone());
        let initialised = exports.initialise(&mut store);
        initialised.unwrap_or_else(|error| panic!("the module's start function trapped: {error:#}"));
        Self { store, exports: Rc::new(exports), metered: module.is_metered(), failed: false }
    }

    pub(crate) fn enter<T>(
        &mut self,
        name: &'static str,
        context: u32,
        work: impl FnOnce(&Exports, &mut Store<Guest>) -> wasmtime::Result<T>,
    ) -> Option<T> {
        if self.failed {
            return None;
        }
        let guest = self.store.data_mut();
        (guest.callback, guest.current, guest.effective) = (name, context, None);
        guest.count_for(context);
        if self.metered {
            self.store.set_fuel(MOST_FUEL).expect("a metered engine");
        }
        let exports = Rc::clone(&self.exports);
        let result = work(&exports, &mut self.store);
        let left = if self.metered { self.store.get_fuel().unwrap_or(MOST_FUEL) } else { MOST_FUEL };
        assert!(left > 0, "{name} runs for ever");
        let guest = self.store.data_mut();
        guest.tally().callback(name, MOST_FUEL - left);
        guest.effective = None;
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed = true;
                guest.common.log(5, format!("{name} trapped: {error:#}"));
                None
            }
        }
    }
}
