//! The last will of a VM: what is put right when this code panics.
//!
//! A panic is a trap, and a trap is the end of the VM: nothing is dropped, and no callback runs any more. Envoy answers the VM's requests with a 503 as soon as it
//! would call the filter for one of them again, and makes a new VM when the next request comes. Some things nobody else could put right, so the panic hook does, which still runs inside:
//!
//! - what this VM has added to the count of requests in flight, which all threads share, is taken back;
//! - held requests, for which nobody would ever call again, are answered with a 503;
//! - the places of this VM in the halls are free for the other threads at once, rather than after [`LIFE`](bloc_policy::hall::LIFE);
//! - the crash is counted, see [`aside`].
//!
//! The panic may come while anything else is borrowed, so what is needed for this is kept here, apart.
//!
//! A trap without a panic (out of memory, a stack that is used up, the host's own end of the VM) leaves
//! no will. Then the others put right the count and the places, see [`bloc_policy::count`] and
//! [`bloc_policy::hall`]; held requests wait for Envoy's own timeouts, and the crash is not counted.

use crate::aside;
use crate::host;
use crate::line;
use crate::metrics::InFlight;
use bloc_policy::count::{self, Own};
use proxy_wasm::types::MetricType;
use std::cell::RefCell;
use std::collections::BTreeSet;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

#[derive(Default)]
struct Will {
    services: Vec<Service>,
    held: BTreeSet<u32>,
}

/// What this VM has of a service.
pub struct Service {
    /// Its name.
    pub name: String,
    /// This VM's number.
    pub vm: u64,
    /// The gauges of requests in flight.
    pub gauges: InFlight,
    /// What of that is this VM's.
    pub own: Own,
}

thread_local! {
    static WILL: RefCell<Will> = RefCell::default();
}

/// From now on a panic executes the will, then does what it did before.
pub fn write() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        execute();
        before(panic);
    }));
}

/// This VM serves a service.
pub fn serves(service: Service) {
    WILL.with(|will| will.borrow_mut().services.push(service));
}

/// The request of this context is held.
pub fn answer(context: u32) {
    WILL.with(|will| will.borrow_mut().held.insert(context));
}

/// The request of this context is not held any more.
pub fn need_not_answer(context: u32) {
    WILL.with(|will| will.borrow_mut().held.remove(&context));
}

/// Once: a panic in here ends the VM at once.
fn execute() {
    let will = WILL.try_with(|will| will.try_borrow_mut().map(|mut will| std::mem::take(&mut *will)));
    let Ok(Ok(will)) = will else { return };
    for service in &will.services {
        service.own.take_back(&service.gauges);
    }
    aside::record(host::now());
    if let Some(crashes) = host::define_metric(MetricType::Counter, "bloc.crashes") {
        host::increment_metric(crashes, 1);
    }
    for service in &will.services {
        count::resign(&host::Data, &service.name, service.vm);
        line::resign(&service.name, service.vm);
    }
    for context in will.held {
        host::in_context(context, || host::respond(SERVICE_UNAVAILABLE, UNAVAILABLE, "bloc_crashed", &[]));
    }
}
