//! A listener as one thread has it: it holds a plugin, which others may hold as well.
//!
//! As in Envoy (`getOrCreateThreadLocalPlugin` of the Proxy-Wasm host) there is one root context
//! for each plugin in a VM, and a plugin is told apart by its root id, its name and its
//! configuration. Listeners that agree in these share the root context. It lives as long as anybody
//! holds it: a listener until its drain has ended, and each stream. A listener that is updated and
//! rolled back within the drain finds the root context of before, which is not configured again.

use crate::context::Key;
use crate::stream::Stream;
use crate::vm::{Handle, Refused, Vm};
use std::rc::Rc;

/// A listener as one thread has it. Dropping it removes it without a drain;
/// [`Process::drain`](crate::Process::drain) with one.
pub struct Listener {
    handle: Rc<Handle>,
    reused: bool,
}

impl Vm {
    /// A listener gets its plugin: that of another listener if they agree, a new one otherwise,
    /// which is tried in a VM of its own first, as on Envoy's main thread. `name`: that of the
    /// filter.
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

    /// Whether it found a root context that was there already.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Begins an HTTP stream. Its context is made when its request headers come, as in Envoy.
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
