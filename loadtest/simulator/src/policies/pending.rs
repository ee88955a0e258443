//! A sender that knows only its own pending requests; the policy picks a server by them.

use super::{Choice, Moment, SenderModel};
use crate::requests::Plan;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;

/// What such a sender knows.
#[derive(Default)]
pub(super) struct Pending {
    /// The present servers.
    pub members: Vec<u32>,
    /// Pending requests by server, including servers that have left.
    pub of: Vec<u32>,
}

/// Picks a server; none if there is no server.
pub(super) type Pick = fn(&Pending, &mut fastrand::Rng) -> Option<u32>;

/// The sender.
pub(super) struct ByPending {
    known: Pending,
    pick: Pick,
}

impl ByPending {
    pub(super) fn boxed(pick: Pick) -> Box<dyn SenderModel> {
        Box::new(Self { known: Pending::default(), pick })
    }
}

impl SenderModel for ByPending {
    fn members(&mut self, servers: &[u32], _now: Timestamp) {
        self.known.members = servers.to_vec();
        let needed = servers.last().map_or(0, |&last| last as usize + 1);
        self.known.of.resize(needed.max(self.known.of.len()), 0);
    }

    fn choose(&mut self, _plan: &mut Plan, _attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        let server = (self.pick)(&self.known, moment.rng)?;
        self.known.of[server as usize] += 1;
        Some(Choice::plain(server))
    }

    fn answer(&mut self, Choice { server, .. }: Choice, _answer: &Answer, _began: Timestamp, _now: Timestamp) {
        self.known.of[server as usize] -= 1;
    }

    fn stream(&mut self, server: u32, counts: bool) {
        // Envoy counts the stream as long as it is open.
        self.known.of[server as usize] += u32::from(counts);
    }
}
