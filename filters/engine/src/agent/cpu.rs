//! What the agent does with the CPU that the control plane and the node agent tell of: a [`Supply`]
//! of each shares it among the threads, each of which tells the services that it stands in front
//! of.
//!
//! [`Supply`]: bloc_policy::cpu::Supply

use super::Agent;
use crate::host::Host;
use bloc_policy::cpu::ServerCpu;
use bloc_policy::features::Feature;
use bloc_policy::polls::Question;

impl<H: Host> Agent<H> {
    /// The answer to this question says this of the CPU; none: nothing. A control plane without the
    /// feature does not know.
    pub(super) fn hear_of_cpu(&mut self, question: &Question, said: Option<ServerCpu>) {
        let said = if self.features.has(Feature::Cpu) { said } else { Some(ServerCpu::default()) };
        let Some(said) = said else { return };
        let before = self.cpu();
        let heard = self.supply.hear(&self.vm.host, question.cpu, said, self.vm.host.now());
        self.look_at_cpu();
        // While the node agent's word counts, most of this one changes nothing.
        if heard && self.cpu() != before {
            self.tell();
        }
    }

    /// Takes over what the threads share, and forgets it when it is old.
    pub(super) fn look_at_cpu(&mut self) {
        let now = self.vm.host.now();
        if self.supply.look(&self.vm.host, now) | self.node_agent.look(&self.vm.host, now) {
            self.vm.provide(self.cpu());
        }
    }

    /// What is in force.
    pub(super) fn cpu(&self) -> ServerCpu {
        self.supply.get().or_nearer(self.node_agent.supply.get())
    }
}
