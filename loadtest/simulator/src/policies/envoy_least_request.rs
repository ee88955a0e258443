//! Envoy's own least request: of two servers at random, the one with fewer pending requests of this
//! sender; at a tie the one drawn first.
//!
//! Envoy draws with replacement: with n servers, one choice in n compares a server with itself and
//! takes it at any load. `least_request` of `bloc_policy` compares two distinct ones. Cost: two
//! draws.

use super::pending::{ByPending, Pending};
use super::{Policy, SenderModel};

/// Envoy's least request.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvoyLeastRequest;

impl Policy for EnvoyLeastRequest {
    fn sender(&self) -> Box<dyn SenderModel> {
        ByPending::boxed(pick)
    }
}

fn pick(known: &Pending, rng: &mut fastrand::Rng) -> Option<u32> {
    let first = *rng.choice(&known.members)?;
    let second = *rng.choice(&known.members)?;
    let fewer = known.of[second as usize] < known.of[first as usize];
    Some(if fewer { second } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_only_busy_server_of_four_once_in_16_requests() {
        let mut rng = fastrand::Rng::with_seed(2);
        // The first of four has a pending request, so it is chosen only when it is drawn twice, one
        // time in 16.
        let known = Pending { members: vec![0, 1, 2, 3], of: vec![1, 0, 0, 0] };
        let chosen = (0..10_000).filter(|_| pick(&known, &mut rng) == Some(0)).count();
        // Four standard deviations are 97.
        assert!((528..=722).contains(&chosen), "{chosen} of 10000, expected 625");
    }
}
