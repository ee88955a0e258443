//! What balances the load in a case.

use crate::envoy::Balancing;
use bloc_policy::config::RoutingKind;
use serde::{Deserialize, Serialize};

/// A load balancing policy, by the name that it has on the command line and in `summary.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Policy {
    /// Stock Envoy, uniformly at random.
    Random,
    /// Stock Envoy, one after the other.
    RoundRobin,
    /// Stock Envoy, fewest requests in flight: the better of two at random, or with one frontend (which sees all) the best of all.
    LeastRequest,
    /// The filters of this project.
    Bloc,
}

impl Policy {
    /// The name in `summary.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastRequest => "least_request",
            Self::Bloc => "bloc",
        }
    }

    /// How the filters route; `None`: no filter anywhere, the honest baseline.
    pub fn routing(self) -> Option<RoutingKind> {
        match self {
            Self::Random | Self::RoundRobin | Self::LeastRequest => None,
            Self::Bloc => Some(RoutingKind::Bloc),
        }
    }

    /// What Envoy's own load balancer does in each of `frontends` sidecars.
    pub fn balancing(self, frontends: usize) -> Balancing {
        match self {
            Self::Random => Balancing::Random,
            Self::RoundRobin => Balancing::RoundRobin,
            Self::LeastRequest if frontends == 1 => Balancing::LeastRequestOfAll,
            Self::LeastRequest => Balancing::LeastRequestOfTwo,
            Self::Bloc => Balancing::ChosenByFilter,
        }
    }
}
