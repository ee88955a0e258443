//! What the agent does with the CPU that the control plane tells of: [`Supply`] shares it among the
//! threads, each of which tells the services that it stands in front of.
//!
//! [`Supply`]: bloc_policy::proxy::cpu::Supply

use super::SyncClient;
use crate::host::Host;
use bloc_policy::proxy::cpu::ServerCpu;
use bloc_policy::sync::polls::Question;

impl<H: Host> SyncClient<H> {
    /// The answer to this question says this of the CPU.
    pub(super) fn observe_of_cpu(&mut self, question: &Question, said: ServerCpu) {
        if self.supply.observe(&self.vm.host, question.cpu, said, self.vm.host.now()) {
            self.tell();
        }
        self.look_at_cpu();
    }

    /// Takes over what the threads share, and forgets it when it is old.
    pub(super) fn look_at_cpu(&mut self) {
        if self.supply.look(&self.vm.host, self.vm.host.now()) {
            self.vm.provide(self.supply.get());
        }
    }
}
