//! Idle streams: opened at the start, they never end.

use super::Simulation;
use crate::events::Event;
use crate::scenario::ScenarioError;

impl Simulation<'_> {
    /// Opens each server's streams, each from a random sender.
    pub(super) fn open_streams(&mut self) -> Result<(), ScenarioError> {
        if self.scenario.idle_streams == 0 {
            return Ok(());
        }
        for server in 0..self.scenario.servers {
            for _ in 0..self.scenario.idle_streams {
                let sender = self.generators.streams.u32(..self.scenario.senders);
                self.senders[sender as usize].stream(server, true);
                self.servers[server as usize].model.stream(true);
                self.streams.push((sender, server));
            }
        }
        self.after(self.scenario.service.validate()?.stream_idle(), Event::StreamsIdle);
        Ok(())
    }

    /// The streams have been idle for so long that the filters no longer count them.
    pub(super) fn streams_fall_idle(&mut self) {
        for (sender, server) in std::mem::take(&mut self.streams) {
            self.senders[sender as usize].stream(server, false);
            self.servers[server as usize].model.stream(false);
            // Its place is free.
            self.serve(server as usize);
        }
    }
}
