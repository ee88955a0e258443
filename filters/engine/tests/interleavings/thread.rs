//! One thread of a proxy, and what a test does with it.

use crate::host::{FakeHost, FakeStream, Process, Seen};
use bloc_engine::filter::Filter;
use bloc_engine::root::{Engine, NewFilter, Root};
use std::rc::Rc;
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);

pub struct Thread {
    pub process: Rc<Process>,
    pub host: FakeHost,
    pub engine: Rc<Engine<FakeHost>>,
}

impl Thread {
    pub fn of(process: &Rc<Process>) -> Self {
        let host = FakeHost(Rc::clone(process));
        Self { process: Rc::clone(process), engine: Engine::new(host.clone()), host }
    }

    pub fn new() -> Self {
        Self::of(&Process::new(1))
    }

    pub fn plug(&self, context: u32, root_id: &str, configuration: &str) -> Root<FakeHost> {
        self.engine.plug(context, root_id, configuration.into()).expect("a valid configuration")
    }

    pub fn tick(&self, carrier: &mut Root<FakeHost>) {
        self.process.advance(SECOND);
        carrier.tick();
    }

    /// Its pending messages.
    pub fn messages(&self) -> Vec<Vec<u8>> {
        let vm = self.engine.vm().number;
        std::iter::from_fn(|| self.process.message(vm)).collect()
    }

    /// Delivers them.
    pub fn observe(&self, carrier: &Root<FakeHost>) {
        carrier.messages(self.messages());
    }

    pub fn metric(&self, name: &str) -> Option<i64> {
        self.process.metric(&format!("bloc.inbound.s.{name}"))
    }
}

/// A request whose headers have come.
pub fn arrived(root: &Root<FakeHost>) -> (FakeStream, Box<dyn Filter>) {
    came(root, Seen::default())
}

/// Likewise, for this request.
pub fn came(root: &Root<FakeHost>, seen: Seen) -> (FakeStream, Box<dyn Filter>) {
    let stream = FakeStream(Rc::new(seen));
    let mut filter: Box<dyn Filter> = match root.filter(stream.clone()) {
        NewFilter::Inbound(filter) => Box::new(filter),
        NewFilter::Outbound(filter) => Box::new(filter),
        NewFilter::Attempt(filter) => Box::new(filter),
        NewFilter::Passing(filter) => Box::new(filter),
    };
    // A body has a length or a type.
    let ends = ["content-length", "content-type"].iter().all(|name| !stream.0.request.borrow().contains_key(*name));
    let _ = filter.request_headers(ends);
    (stream, filter)
}
