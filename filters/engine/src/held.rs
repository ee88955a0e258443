//! The requests that this thread holds, for all services. Crash recovery answers them.

use crate::crash_recovery::{CrashRecovery, Step};
use crate::host::{Reply, Stream};
use hashbrown::HashSet;
use std::cell::RefCell;
use std::rc::Rc;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

/// The requests that this thread holds. A handle: clones are the same.
pub struct HeldStreams<S>(Rc<RefCell<HashSet<S>>>);

impl<S> Clone for HeldStreams<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: Stream> HeldStreams<S> {
    /// None yet. If this code panics, crash recovery answers those that are held.
    pub fn new(recovery: &CrashRecovery) -> Self {
        let held = Self(Rc::default());
        let streams = Rc::clone(&held.0);
        recovery.register(Step::Answer, move || {
            let streams = streams.try_borrow_mut().map(|mut streams| std::mem::take(&mut *streams));
            let (status, grpc_status) = (SERVICE_UNAVAILABLE, UNAVAILABLE);
            for stream in streams.into_iter().flatten() {
                let reply = Reply { status, grpc_status, details: "bloc_crashed", headers: &[] };
                stream.in_own_context(|| stream.reply(reply));
            }
        });
        held
    }

    /// Marks this request as held until the guard is dropped.
    pub fn hold(&self, stream: &S) -> Held<S> {
        self.0.borrow_mut().insert(stream.clone());
        Held { all: self.clone(), stream: stream.clone() }
    }
}

/// A request that is held.
pub struct Held<S: Stream> {
    all: HeldStreams<S>,
    stream: S,
}

impl<S: Stream> Held<S> {
    /// Its stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: Stream> Drop for Held<S> {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.stream);
    }
}
