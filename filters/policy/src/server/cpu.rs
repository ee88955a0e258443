//! How the CPU that the application has affects its server.
//!
//! A reduced CPU quota shows in the execution times only once requests have suffered. So the
//! capacity follows the quota at once: per core, or from the SLO by a service rate of at most
//! `cores / CPU time of a request`. Reports, ORCA, bids and deadlines use only what was measured.

use super::Server;
use crate::proxy::cpu::ServerCpu;

impl Server {
    /// Sets the CPU for all configurations. The capacity of each needs its own call.
    pub fn provide(&mut self, cpu: ServerCpu) {
        self.measured.borrow_mut().cpu = cpu.provided();
        self.capacity.provide(cpu.cores);
        self.follow();
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
