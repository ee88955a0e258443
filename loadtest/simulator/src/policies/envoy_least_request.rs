//! Envoy's own least request: two servers at random, the one with fewer pending requests of this sender, at a tie the one drawn first.
//!
//! Envoy draws with replacement, so one time in as many as there are servers it compares a server with itself and goes there unseen; `least_request` of `bloc_policy` compares two
//! distinct ones. Cost: two draws.

use super::{Choice, Moment, Policy, SenderModel};
use crate::requests::Plan;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use std::time::Duration;

/// Envoy's least request.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvoyLeastRequest;

impl Policy for EnvoyLeastRequest {
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
        let first = *moment.rng.choice(&self.members)?;
        let second = *moment.rng.choice(&self.members)?;
        let fewer = self.pending[second as usize] < self.pending[first as usize];
        let server = if fewer { second } else { first };
        self.pending[server as usize] += 1;
        Some(Choice { server, bid: None })
    }

    fn answer(&mut self, server: u32, _answer: &Answer, _bid: Option<Duration>, _began: Timestamp, _now: Timestamp) {
        self.pending[server as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::View;

    #[test]
    fn one_time_in_as_many_as_there_are_servers_it_does_not_look() {
        let (mut rng, view) = (fastrand::Rng::with_seed(2), View::default());
        let mut chosen = 0;
        for _ in 0..10_000 {
            // The first of four has a request pending: it is chosen only when it is drawn twice, one time in 16.
            let mut sender = Sender { members: vec![0, 1, 2, 3], pending: vec![1, 0, 0, 0] };
            let mut moment = Moment { now: Timestamp::ZERO, rng: &mut rng, view: &view };
            chosen += u32::from(sender.choose(&mut Plan::default(), 0, &mut moment).unwrap().server == 0);
        }
        // Four standard deviations are 97.
        assert!((528..=722).contains(&chosen), "{chosen} of 10000, expected 625");
    }
}
