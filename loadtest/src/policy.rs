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
    /// Stock Envoy, fewest requests in flight of all servers, however many frontends.
    LeastRequestOfAll,
    /// Stock Envoy's least request, with Wasm filters that do nothing in the places of ours: what is left of it when filters cost as little as they can.
    NoopFilters,
    /// The filters of this project: chips and retries.
    Bloc,
    /// The filters of this project: the smallest expected response time.
    Mu,
    /// The filters of this project: attempts bid how long they are willing to wait.
    Bid,
}

impl Policy {
    /// The name in `summary.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastRequest => "least_request",
            Self::LeastRequestOfAll => "least_request_of_all",
            Self::NoopFilters => "noop_filters",
            Self::Bloc => "bloc",
            Self::Mu => "mu",
            Self::Bid => "bid",
        }
    }

    /// How the filters of this project route; `None`: there are none, the honest baseline.
    pub fn routing(self) -> Option<RoutingKind> {
        match self {
            Self::Random | Self::RoundRobin | Self::LeastRequest | Self::LeastRequestOfAll | Self::NoopFilters => None,
            Self::Bloc => Some(RoutingKind::Bloc),
            Self::Mu => Some(RoutingKind::Mu),
            Self::Bid => Some(RoutingKind::Bid),
        }
    }

    /// Whether a backend's sidecar has to know what the backend works on at once: these route by how fast servers are.
    pub fn measures(self) -> bool {
        matches!(self, Self::Mu | Self::Bid)
    }

    /// Whether it also holds what exceeds that, unless it is told otherwise. Bids gain nothing by it, and an application that is handed its next request only
    /// when the last one has left loses some 2 ms each.
    pub fn holds(self) -> bool {
        self == Self::Mu
    }

    /// What Envoy's own load balancer does in each of `frontends` sidecars; `two_choices`: least request is Envoy's default even in a
    /// single one.
    pub fn balancing(self, frontends: usize, two_choices: bool) -> Balancing {
        match self {
            Self::Random => Balancing::Random,
            Self::RoundRobin => Balancing::RoundRobin,
            Self::LeastRequest | Self::NoopFilters if frontends > 1 || two_choices => Balancing::LeastRequestOfTwo,
            Self::LeastRequest | Self::NoopFilters | Self::LeastRequestOfAll => Balancing::LeastRequestOfAll,
            Self::Bloc | Self::Mu | Self::Bid => Balancing::ChosenByFilter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_frontend_compares_all_unless_told_to_be_stock_envoy() {
        let least = |frontends, two_choices| Policy::LeastRequest.balancing(frontends, two_choices);
        assert_eq!(least(1, false), Balancing::LeastRequestOfAll);
        assert_eq!((least(1, true), least(2, false)), (Balancing::LeastRequestOfTwo, Balancing::LeastRequestOfTwo));
        assert_eq!(Policy::LeastRequestOfAll.balancing(2, true), Balancing::LeastRequestOfAll);
    }

    #[test]
    fn names_are_those_of_the_command_line_and_of_the_summary() {
        use clap::ValueEnum;
        for policy in Policy::value_variants() {
            assert_eq!(policy.to_possible_value().unwrap().get_name(), policy.name());
            assert_eq!(serde_json::to_string(policy).unwrap(), format!("{:?}", policy.name()));
        }
    }
}
