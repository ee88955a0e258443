//! A host call under way. It is counted and timed; what Envoy would refuse becomes a fault.

use crate::guest::Guest;
use crate::status::{Refusal, Status};
use std::time::Instant;
use wasmtime::Caller;

/// A host call under way.
pub(super) struct Call<'a, 'b>(pub(super) &'a mut Caller<'b, Guest>);

/// The result of a host call, apart from what it writes.
pub(super) type Answer = Result<(), Refusal>;

/// Runs a host call: counts it, and records a fault for the test.
pub(super) fn run(
    caller: &mut Caller<'_, Guest>,
    index: usize,
    work: impl FnOnce(&mut Call<'_, '_>) -> Answer,
) -> wasmtime::Result<Status> {
    let guest = caller.data_mut();
    guest.tally().host_call(index);
    let began = guest.timed.then(Instant::now);
    let answer = work(&mut Call(caller));
    if let Some(began) = began {
        caller.data_mut().tally().host_time += began.elapsed();
    }
    match answer {
        Ok(()) => Ok(Status::Ok),
        Err(Refusal::Answer(status)) => Ok(status),
        Err(Refusal::Trap(error)) => Err(error),
        Err(Refusal::Fault(status, why)) => {
            let guest = caller.data();
            let name = guest.functions.get(index).copied().unwrap_or_default();
            guest.common.fault(guest.callback, name, status, why);
            Ok(status)
        }
    }
}
