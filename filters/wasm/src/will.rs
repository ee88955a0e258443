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
//! The panic may come while anything else is borrowed, so what is needed for this is kept here, apart. Not covered: a trap without a panic, such as a stack that is used up,
//! of which this code has no cause that is known (no recursion that input decides, no unbounded memory).

use crate::aside;
use crate::host;
use crate::line;
use crate::metrics::Gauge;
use proxy_wasm::types::MetricType;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

#[derive(Default)]
struct Will {
    counts: Vec<(Gauge, Rc<Cell<i64>>)>,
    halls: Vec<(String, u64)>,
    held: BTreeSet<u32>,
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

/// What `own` says then, this VM has added to `gauge`.
pub fn take_back(gauge: Gauge, own: Rc<Cell<i64>>) {
    WILL.with(|will| will.borrow_mut().counts.push((gauge, own)));
}

/// The VM with this number, which is this one, takes part in the hall of `service`.
pub fn resign(service: &str, vm: u64) {
    WILL.with(|will| will.borrow_mut().halls.push((service.to_owned(), vm)));
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
    for (gauge, own) in will.counts {
        gauge.add(-own.get());
    }
    aside::record(host::now());
    if let Some(crashes) = host::define_metric(MetricType::Counter, "bloc.crashes") {
        host::increment_metric(crashes, 1);
    }
    for (service, vm) in will.halls {
        line::resign(&service, vm);
    }
    for context in will.held {
        host::in_context(context, || host::respond(SERVICE_UNAVAILABLE, UNAVAILABLE, "bloc_crashed", &[]));
    }
}
