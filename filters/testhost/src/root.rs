//! A plugin of one thread: its root context, and the streams that begin there.

use crate::cost::Cost;
use crate::stream::Stream;
use crate::vm::Vm;

/// A root context: one plugin of one thread.
#[derive(Clone)]
pub struct Root {
    pub(crate) vm: Vm,
    pub(crate) plugin: usize,
}

impl Root {
    /// The VM.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// What the callbacks of this plugin and its streams have cost since the last look.
    pub fn take_cost(&self) -> Cost {
        let context = self.context();
        self.vm.guest(|guest| {
            let tally = guest.tallies.iter_mut().find(|(root, _)| *root == context);
            tally.map(|(_, tally)| tally.take(&guest.functions)).unwrap_or_default()
        })
    }

    /// Begins an HTTP stream. Its context is made when its request headers come, as in Envoy.
    pub fn stream(&self) -> Stream {
        self.vm.reload();
        Stream::new(self.vm.clone(), self.context(), false)
    }

    /// Begins an attempt: a stream of an upstream filter.
    pub fn attempt(&self) -> Stream {
        self.vm.reload();
        Stream::new(self.vm.clone(), self.context(), true)
    }

    /// Takes the plugin away, as Envoy does some time after an update of its configuration.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn remove(self) {
        let context = self.context();
        self.vm.call("proxy_on_done", context, |exports, store| exports.done(store, context));
        self.vm.call("proxy_on_delete", context, |exports, store| exports.delete(store, context));
        self.vm.guest(|guest| guest.contexts.remove(&context));
        self.vm.forget(context);
    }

    fn context(&self) -> u32 {
        self.vm.context_of(self.plugin)
    }
}
