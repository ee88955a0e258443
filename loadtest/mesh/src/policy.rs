//! What balances the load in a case.

use crate::envoy::Balancing;
use bloc_policy::config::RoutingKind;
use serde::{Deserialize, Serialize};

/// How a sidecar chooses a server, by its name in `summary.json`: what a baseline really is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Envoy: uniformly at random.
    Random,
    /// Envoy: one after the other.
    RoundRobin,
    /// Envoy's default: of two random servers, the one with fewer requests in flight from this
    /// sidecar.
    TwoChoices,
    /// Envoy: of all servers the one with the fewest requests in flight from this sidecar.
    FullScan,
    /// The filters of this project.
    Filters,
}

/// A load balancing policy, by its name on the command line and in `summary.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Policy {
    /// Stock Envoy, uniformly at random.
    Random,
    /// Stock Envoy, one after the other.
    RoundRobin,
    /// Stock Envoy's least request: two choices, its default, or full scan with one frontend, which
    /// sees all requests.
    LeastRequest,
    /// Stock Envoy's least request, full scan, in each frontend, with any number of them.
    LeastRequestOfAll,
    /// Stock Envoy's least request, with Wasm filters that do nothing in place of ours: least
    /// request with the lowest possible cost of filters.
    NoopFilters,
    /// The filters of this project: chips and retries.
    Bloc,
    /// The filters of this project: the smallest expected response time.
    Mu,
    /// The filters of this project: attempts bid the longest wait that the caller accepts.
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

    /// How the filters of this project route; `None`: no filters, the honest baseline.
    pub fn routing(self) -> Option<RoutingKind> {
        match self {
            Self::Random | Self::RoundRobin | Self::LeastRequest | Self::LeastRequestOfAll | Self::NoopFilters => None,
            Self::Bloc => Some(RoutingKind::Bloc),
            Self::Mu => Some(RoutingKind::Mu),
            Self::Bid => Some(RoutingKind::Bid),
        }
    }

    /// Whether a backend's sidecar must know the backend's concurrency, because the policy routes
    /// by the speed of servers.
    pub fn measures(self) -> bool {
        matches!(self, Self::Mu | Self::Bid)
    }

    /// Whether it also holds requests above that by default. Bids gain from holding only where
    /// execution times are spread widely. An application that gets its next request only when the
    /// last one has left loses some 0.3 ms each time.
    pub fn holds(self) -> bool {
        self == Self::Mu
    }

    /// How each of `frontends` sidecars chooses a server. With `two_choices`, least request is
    /// Envoy's default even in a single one.
    pub fn choice(self, frontends: usize, two_choices: bool) -> Choice {
        match self {
            Self::Random => Choice::Random,
            Self::RoundRobin => Choice::RoundRobin,
            Self::LeastRequest | Self::NoopFilters if frontends > 1 || two_choices => Choice::TwoChoices,
            Self::LeastRequest | Self::NoopFilters | Self::LeastRequestOfAll => Choice::FullScan,
            Self::Bloc | Self::Mu | Self::Bid => Choice::Filters,
        }
    }

    /// The same for Envoy's configuration.
    pub fn balancing(self, frontends: usize, two_choices: bool) -> Balancing {
        match self.choice(frontends, two_choices) {
            Choice::Random => Balancing::Random,
            Choice::RoundRobin => Balancing::RoundRobin,
            Choice::TwoChoices => Balancing::LeastRequestOfTwo,
            Choice::FullScan => Balancing::LeastRequestOfAll,
            Choice::Filters => Balancing::ChosenByFilter,
        }
    }

    /// The name for a reader: the policy, and which least request it is.
    pub fn title(self, choice: Choice) -> &'static str {
        match (self, choice) {
            (Self::Random, _) => "random",
            (Self::RoundRobin, _) => "round robin",
            (Self::LeastRequest | Self::LeastRequestOfAll, Choice::FullScan) => "least request, full scan",
            (Self::LeastRequest | Self::LeastRequestOfAll, _) => "least request, two choices",
            (Self::NoopFilters, Choice::FullScan) => "full scan, no-op filters",
            (Self::NoopFilters, _) => "two choices, no-op filters",
            (Self::Bloc, _) => "BLOC",
            (Self::Mu, _) => "Mu",
            (Self::Bid, _) => "bids",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_frontend_scans_all_servers_unless_told_two_choices() {
        let least = |frontends, two_choices| Policy::LeastRequest.balancing(frontends, two_choices);
        assert_eq!(least(1, false), Balancing::LeastRequestOfAll);
        assert_eq!((least(1, true), least(2, false)), (Balancing::LeastRequestOfTwo, Balancing::LeastRequestOfTwo));
        assert_eq!(Policy::LeastRequestOfAll.balancing(2, true), Balancing::LeastRequestOfAll);
    }

    #[test]
    fn a_title_says_which_least_request_it_is() {
        let title = |policy: Policy, frontends, two| policy.title(policy.choice(frontends, two));
        assert_eq!(title(Policy::LeastRequest, 40, false), "least request, two choices");
        assert_eq!(title(Policy::LeastRequest, 1, true), "least request, two choices");
        assert_eq!(title(Policy::LeastRequest, 1, false), "least request, full scan");
        assert_eq!(title(Policy::LeastRequestOfAll, 40, true), "least request, full scan");
        assert_eq!(title(Policy::NoopFilters, 40, false), "two choices, no-op filters");
        assert_eq!(serde_json::to_string(&Policy::Mu.choice(1, true)).unwrap(), r#""filters""#);
    }

    #[test]
    fn command_line_and_summary_use_the_same_policy_names() {
        use clap::ValueEnum;
        for policy in Policy::value_variants() {
            assert_eq!(policy.to_possible_value().unwrap().get_name(), policy.name());
            assert_eq!(serde_json::to_string(policy).unwrap(), format!("{:?}", policy.name()));
        }
    }
}
