//! Cases that the tests share.

use bloc_sim::Scenario;
use bloc_sim::policies::PolicyKind;
use std::time::Duration;

/// 40 senders, 10 servers, 250 ms, 95%.
pub fn case(policy: PolicyKind, seconds: u64) -> Scenario {
    Scenario {
        policy,
        warm_up: Duration::from_secs(100),
        duration: Duration::from_secs(seconds),
        seed: 5,
        ..Scenario::default()
    }
}

/// All policies that can be simulated.
#[allow(dead_code, reason = "not every test file asks all of them")]
pub const POLICIES: [PolicyKind; 16] = [
    PolicyKind::Random,
    PolicyKind::RoundRobin,
    PolicyKind::LeastRequest,
    PolicyKind::EnvoyLeastRequest,
    PolicyKind::LeastRequestFull,
    PolicyKind::Bloc,
    PolicyKind::Mu,
    PolicyKind::Bid,
    PolicyKind::Prequal,
    PolicyKind::Jsq,
    PolicyKind::ShortestWait,
    PolicyKind::ShortestResponse,
    PolicyKind::WaitPlusHalf,
    PolicyKind::BestOf,
    PolicyKind::Reserve,
    PolicyKind::Central,
];
