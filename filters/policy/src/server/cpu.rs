//! What a server makes of the CPU that its application has.
//!
//! A quota that a node agent takes away shows in the execution times only when requests have felt
//! it, and until then the sidecar admits too many. So the capacity follows the quota at once: per
//! core, or from the SLO by a service rate of at most `cores / CPU time of a request`. The measured
//! rate still counts if it is lower: not all of a request's time is CPU. Only the capacity is
//! bounded. The reported service rate, ORCA, bids and deadlines go by what was measured.

use super::Server;
use crate::proxy::cpu::ServerCpu;

impl Server {
    /// The application has this CPU from now on. All configurations share that, but the capacity of
    /// each moves with a call of its own.
    pub fn provide(&mut self, cpu: ServerCpu) {
        self.measured.borrow_mut().cpu = cpu.provided();
        self.capacity.provide(cpu.cores);
        self.follow();
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
