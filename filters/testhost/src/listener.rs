//! A listener on one thread. It holds a plugin, which others may hold as well.
//!
//! As in Envoy (`getOrCreateThreadLocalPlugin` of the Proxy-Wasm host), a VM has one root context
//! for each plugin, identified by its root id, its name and its configuration. Listeners that agree
//! in these share the root context. It lives as long as a listener or a stream holds it; a listener
//! holds it until its drain has ended. A listener that is updated and rolled back within the drain
//! finds its previous root context, which is not configured again.

use crate::context::Key;
use crate::stream::Stream;
use crate::vm::{Handle, Refused, Vm};
use std::rc::Rc;

/// A listener on one thread. Dropping it removes it at once;
/// [`Process::drain`](crate::Process::drain) removes it after a drain.
pub struct Listener {
    handle: Rc<Handle>,
    reused: bool,
}

impl Vm {
    /// Adds a listener. It shares the plugin of another listener if they agree. A new plugin is
    /// first tried in its own VM, as on Envoy's main thread. `name`: that of the filter.
    ///
    /// # Errors
    /// The guest refused the configuration, or trapped: no listener has it.
    ///
    /// # Panics
    /// A callback made a call that Envoy refuses.
    pub fn listen(&self, root_id: &str, name: &str, configuration: impl AsRef<[u8]>) -> Result<Listener, Refused> {
        self.reload();
        let key = Key { root_id: root_id.into(), name: name.into(), configuration: configuration.as_ref().into() };
        self.try_plugin(&key)?;
        if let Some(handle) = self.handle_of(&key) {
            return Ok(Listener { handle, reused: true });
        }
        let handle = Rc::new(Handle { vm: self.clone(), plugin: self.add_plugin(key)? });
        self.hold(handle.plugin, &handle);
        Ok(Listener { handle, reused: false })
    }
}

impl Listener {
    /// The VM.
    pub fn vm(&self) -> &Vm {
        &self.handle.vm
    }

    /// Whether it found an existing root context.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Begins an HTTP stream. Its context is created with its request headers, as in Envoy.
    pub fn stream(&self) -> Stream {
        self.begin(false)
    }

    /// Begins an attempt: a stream of an upstream filter.
    pub fn attempt(&self) -> Stream {
        self.begin(true)
    }

    fn begin(&self, upstream: bool) -> Stream {
        self.vm().reload();
        Stream::new(
            self.vm().clone(),
            self.vm().context_of(self.handle.plugin),
            upstream,
            Some(Rc::clone(&self.handle)),
        )
    }
}
