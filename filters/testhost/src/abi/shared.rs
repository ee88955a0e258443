//! Shared data, shared queues, metrics.

use super::call::{Answer, Call};
use super::memory::Slice;
use crate::metrics::Kind;
use crate::status::{Refusal, Status};
use std::rc::Rc;

/// The number of kinds in a metric's id; not all are used.
const KINDS: u32 = 4;

/// Whether an id would be that of a counter or a gauge; Envoy checks that first.
fn has_value(id: u32) -> Result<(), Refusal> {
    let kind = Kind::read(id % KINDS).filter(|kind| *kind != Kind::Histogram);
    kind.map(drop).ok_or_else(|| Refusal::bad(format!("metric {id} is neither counter nor gauge")))
}

fn unknown(what: &str, id: u32) -> Refusal {
    Refusal::Fault(Status::NotFound, format!("there is no {what} {id}"))
}

impl Call<'_, '_> {
    fn vm_id(&mut self) -> Rc<str> {
        Rc::clone(&self.guest().vm_id)
    }

    pub(super) fn get_shared(&mut self, key: Slice, to: Slice, cas_to: u32) -> Answer {
        let (key, vm_id) = (self.read(key)?, self.vm_id());
        let found = self.guest().common.with(|common| common.data.get(&vm_id, &key).cloned());
        let (value, cas) = found.ok_or(Refusal::Answer(Status::NotFound))?;
        self.give(&value, to)?;
        self.write(cas_to, &cas.to_le_bytes())
    }

    pub(super) fn set_shared(&mut self, key: Slice, value: Slice, cas: u32) -> Answer {
        let (key, value, vm_id) = (self.read(key)?, self.read(value)?, self.vm_id());
        self.guest().common.with(|common| common.data.set(&vm_id, &key, &value, cas)).map_err(Refusal::Answer)
    }

    pub(super) fn register_queue(&mut self, name: Slice, to: u32) -> Answer {
        let (name, vm_id) = (self.read(name)?, self.vm_id());
        let guest = self.guest();
        let mut owner = guest.address;
        owner.root = guest.root();
        let token = guest.common.with(|common| common.queues.register(&vm_id, &name, owner));
        self.write(to, &token.to_le_bytes())
    }

    pub(super) fn resolve_queue(&mut self, vm: Slice, name: Slice, to: u32) -> Answer {
        let (vm, name, own) = (self.read(vm)?, self.read(name)?, self.vm_id());
        let vm = if vm.is_empty() { own.to_string() } else { String::from_utf8_lossy(&vm).into_owned() };
        let token = self.guest().common.with(|common| common.queues.resolve(&vm, &name));
        self.write(to, &token.ok_or(Refusal::Answer(Status::NotFound))?.to_le_bytes())
    }

    pub(super) fn enqueue(&mut self, queue: u32, value: Slice) -> Answer {
        let value = self.read(value)?;
        let known = self.guest().common.with(|common| common.queues.enqueue(queue, &value));
        if known { Ok(()) } else { Err(unknown("queue", queue)) }
    }

    pub(super) fn dequeue(&mut self, queue: u32, to: Slice) -> Answer {
        let message = self.guest().common.with(|common| common.queues.dequeue(queue));
        let message = message.ok_or_else(|| unknown("queue", queue))?;
        self.give(&message.ok_or(Refusal::Answer(Status::Empty))?, to)
    }

    pub(super) fn define_metric(&mut self, kind: u32, name: Slice, to: u32) -> Answer {
        let kind = Kind::read(kind).ok_or_else(|| Refusal::bad(format!("there is no metric of kind {kind}")))?;
        let name = self.read(name)?;
        let guest = self.guest();
        guest.common.with(|common| common.metrics.define(&name, kind));
        // As in Envoy: each definition has its own id, numbered by kind; the id's last two bits are
        // the kind.
        let same = guest.metrics.values().filter(|(_, known)| *known == kind).count() as u32;
        let id = (same + 1) * KINDS + kind as u32;
        guest.metrics.insert(id, (name, kind));
        self.write(to, &id.to_le_bytes())
    }

    fn metric(&mut self, id: u32) -> Result<(Vec<u8>, Kind), Refusal> {
        self.guest().metrics.get(&id).cloned().ok_or_else(|| unknown("metric", id))
    }

    pub(super) fn increment_metric(&mut self, id: u32, offset: i64) -> Answer {
        has_value(id)?;
        let metric = self.metric(id)?;
        self.guest().common.with(|common| common.metrics.increment(&metric, offset))
    }

    pub(super) fn record_metric(&mut self, id: u32, value: u64) -> Answer {
        let metric = self.metric(id)?;
        self.guest().common.with(|common| common.metrics.record(&metric, value))
    }

    pub(super) fn get_metric(&mut self, id: u32, to: u32) -> Answer {
        has_value(id)?;
        let metric = self.metric(id)?;
        let value = self.guest().common.with(|common| common.metrics.get(&metric))?;
        self.write(to, &value.to_le_bytes())
    }
}
