//! The policy for each name.

use super::{Central, EnvoyLeastRequest, LeastRequestFull, Mesh, Omniscient, Policy, PolicyKind, Prequal, Reserve};
use crate::scenario::{Scenario, ScenarioError};

/// The policy that a scenario names.
///
/// # Errors
/// `bloc_policy` does not have that routing, or refuses the service's parameters.
pub fn named(scenario: &Scenario) -> Result<Box<dyn Policy>, ScenarioError> {
    let kind = scenario.policy;
    Ok(match kind {
        PolicyKind::Random | PolicyKind::RoundRobin | PolicyKind::LeastRequest => {
            Box::new(Mesh::without_admission(kind.name(), scenario)?)
        }
        PolicyKind::Bloc | PolicyKind::Mu | PolicyKind::Bid => Box::new(Mesh::new(kind.name(), scenario)?),
        PolicyKind::EnvoyLeastRequest => Box::new(EnvoyLeastRequest),
        PolicyKind::LeastRequestFull => Box::new(LeastRequestFull),
        PolicyKind::Prequal => Box::new(Prequal),
        PolicyKind::Jsq => Box::new(Omniscient::Queue),
        PolicyKind::ShortestWait => Box::new(Omniscient::Wait),
        PolicyKind::ShortestResponse => Box::new(Omniscient::Response(1.0)),
        PolicyKind::WaitPlusHalf => Box::new(Omniscient::Response(0.5)),
        PolicyKind::BestOf => Box::new(Omniscient::Looks(scenario.reserve.servers)),
        PolicyKind::Reserve => Box::new(Reserve::new(scenario)?),
        PolicyKind::Central => Box::new(Central),
    })
}
