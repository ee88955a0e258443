//! A plugin of one thread: its root context, and the streams in it.

use crate::context::Key;
use crate::cost::Cost;
use crate::stream::Stream;
use crate::vm::{Refused, Vm};

/// A root context: one plugin of one thread.
#[derive(Clone)]
pub struct Root {
    vm: Vm,
    plugin: usize,
}

impl Vm {
    /// Creates and configures a root context: a plugin of this thread that nothing else holds,
    /// until [`Root::remove`]. For plugins that come and go with listeners use [`Vm::listen`].
    ///
    /// # Errors
    /// The guest refused the configuration, or trapped.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn root(&self, root_id: &str, configuration: impl AsRef<[u8]>) -> Result<Root, Refused> {
        let (root_id, configuration) = (root_id.into(), configuration.as_ref().into());
        let plugin = self.add_plugin(Key { name: std::rc::Rc::clone(&root_id), root_id, configuration })?;
        Ok(Root { vm: self.clone(), plugin })
    }
}

impl Root {
    /// The VM.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// What the callbacks of this plugin and its streams have cost since the last reading.
    pub fn take_cost(&self) -> Cost {
        let context = self.context();
        self.vm.guest(|guest| {
            let tally = guest.tallies.iter_mut().find(|(root, _)| *root == context);
            tally.map(|(_, tally)| tally.take(&guest.functions)).unwrap_or_default()
        })
    }

    /// Begins an HTTP stream. Its context is created with its request headers, as in Envoy.
    pub fn stream(&self) -> Stream {
        self.vm.reload();
        Stream::new(self.vm.clone(), self.context(), false, None)
    }

    /// Begins an attempt: a stream of an upstream filter.
    pub fn attempt(&self) -> Stream {
        self.vm.reload();
        Stream::new(self.vm.clone(), self.context(), true, None)
    }

    /// Removes the plugin, as Envoy does some time after its configuration has changed.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn remove(self) {
        self.vm.shut_down(self.plugin);
    }

    fn context(&self) -> u32 {
        self.vm.context_of(self.plugin)
    }
}
