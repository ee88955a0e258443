//! Least request over all servers: the one with the fewest pending requests of this sender, at a tie one of them at random.
//!
//! The paper's Least Connection (section 5.3); with one sender it is join-the-shortest-queue. Cost: a look at every server.

use super::{Choice, Moment, Policy, SenderModel};
use crate::requests::Plan;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use std::time::Duration;

/// Least request, full scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRequestFull;

impl Policy for LeastRequestFull {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(Sender::default())
    }
}

#[derive(Default)]
struct Sender {
    members: Vec<u32>,
    /// By server.
    pending: Vec<u32>,
}

impl SenderModel for Sender {
    fn members(&mut self, servers: &[u32], _now: Timestamp) {
        self.members = servers.to_vec();
        let needed = servers.last().map_or(0, |&last| last as usize + 1);
        self.pending.resize(needed.max(self.pending.len()), 0);
    }

    fn choose(&mut self, _plan: &mut Plan, _attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        let least = self.members.iter().map(|&server| self.pending[server as usize]).min()?;
        let equals = || self.members.iter().filter(|&&server| self.pending[server as usize] == least);
        let server = *equals().nth(moment.rng.usize(..equals().count()))?;
        self.pending[server as usize] += 1;
        Some(Choice { server, bid: None })
    }

    fn answer(&mut self, server: u32, _answer: &Answer, _bid: Option<Duration>, _began: Timestamp, _now: Timestamp) {
        self.pending[server as usize] -= 1;
    }
}
