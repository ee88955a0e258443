//! The names of the policies.

use serde::{Deserialize, Serialize};

/// The policies, by their names on the command line and in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum PolicyKind {
    /// Uniformly at random.
    Random,
    /// One after the other.
    RoundRobin,
    /// Of two at random, the one with fewer of the sender's own pending requests.
    LeastRequest,
    /// The same, but the two may be the same server: Envoy's default.
    EnvoyLeastRequest,
    /// Of all servers the one with the fewest of the sender's own pending requests: the paper's
    /// Least Connection.
    LeastRequestFull,
    /// Chips, backoff, probing, admission.
    Bloc,
    /// The smallest expected response time according to the servers' reports.
    Mu,
    /// Attempts bid the longest wait that they accept.
    Bid,
    /// Asynchronous probes, pool of 16, hot and cold.
    Prequal,
    /// Omniscient: the fewest requests in the server or on their way to it.
    Jsq,
    /// Omniscient: the smallest (requests + 1) / service rate.
    ShortestWait,
    /// Omniscient: the smallest expected response time, which is at least an execution time.
    ShortestResponse,
    /// Omniscient: the smallest wait in the queue plus half of an execution time.
    WaitPlusHalf,
    /// Fresh looks at some servers at random: the one with the fewest requests in it or on their
    /// way to it.
    BestOf,
    /// Late binding: a place at the first of several servers that has one.
    Reserve,
    /// Late binding in one queue that sees all servers: the limit.
    Central,
}

impl PolicyKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastRequest => "least_request",
            Self::EnvoyLeastRequest => "envoy_least_request",
            Self::LeastRequestFull => "least_request_full",
            Self::Bloc => "bloc",
            Self::Mu => "mu",
            Self::Bid => "bid",
            Self::Prequal => "prequal",
            Self::Jsq => "jsq",
            Self::ShortestWait => "shortest_wait",
            Self::ShortestResponse => "shortest_response",
            Self::WaitPlusHalf => "wait_plus_half",
            Self::BestOf => "best_of",
            Self::Reserve => "reserve",
            Self::Central => "central",
        }
    }
}
