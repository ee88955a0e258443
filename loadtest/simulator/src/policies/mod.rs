//! Who decides: the policies, each behind three small traits.
//!
//! A [`Policy`] makes the [`SenderModel`] of each sender and the [`ServerModel`] of each server; the engine calls them and decides nothing itself. To add a
//! policy, write a file with these two (or take [`Plain`] servers), and name it in [`PolicyKind`] and [`named`]; for an experiment, hand it to
//! [`run_with`](crate::run_with) instead.
//!
//! | name | sender | servers |
//! |---|---|---|
//! | `random`, `round_robin`, `least_request` | `bloc_policy::sender`, that routing | plain |
//! | `envoy_least_request` | the same as Envoy does it by itself ([`EnvoyLeastRequest`]) | plain |
//! | `least_request_full` | fewest own pending requests among all ([`LeastRequestFull`]) | plain |
//! | `bloc` | `bloc_policy::sender` | `bloc_policy`: admission, capacity, chips |
//! | `mu`, `bid` | the same, once `bloc_policy` knows a routing of that name | the same |
//! | `prequal` | probing, hot and cold ([`Prequal`]) | plain, answering probes |
//! | `jsq`, `shortest_wait` | sees all servers at the moment of decision ([`Omniscient`]) | plain |
//!
//! Plain servers admit everything and say nothing, as without our filters.

mod envoy_least_request;
mod least_request_full;
mod mesh;
mod omniscient;
mod pending;
mod prequal;
mod published;
mod server;

pub use envoy_least_request::EnvoyLeastRequest;
pub use least_request_full::LeastRequestFull;
pub use mesh::Mesh;
pub use omniscient::Omniscient;
pub use prequal::Prequal;
pub use published::{Aimd, Estimator, Gradient2, Limited, Vegas};
pub use server::{Inbound, Lying, Plain};

use crate::fleet::View;
use crate::requests::Plan;
use crate::scenario::{Scenario, ScenarioError};
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::load_report::LoadReport;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The policies by the names that they have on the command line and in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum PolicyKind {
    /// Uniformly at random.
    Random,
    /// One after the other.
    RoundRobin,
    /// Two at random, the one with fewer of the sender's own pending requests.
    LeastRequest,
    /// The same, and the two may be one: what Envoy does by default.
    EnvoyLeastRequest,
    /// Of all servers the one with the fewest of the sender's own pending requests: the paper's Least Connection.
    LeastRequestFull,
    /// Chips, backoff, probing, admission.
    Bloc,
    /// The smallest expected response time by what the servers report.
    Mu,
    /// Attempts bid the longest wait that they accept.
    Bid,
    /// Asynchronous probes, pool of 16, hot and cold.
    Prequal,
    /// Omniscient: the fewest requests in the server or on their way to it.
    Jsq,
    /// Omniscient: the smallest (requests + 1) / service rate.
    ShortestWait,
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
        }
    }
}

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
    })
}

/// A policy: what it puts beside each application.
pub trait Policy {
    /// What decides in a sender; it hears of the servers by [`SenderModel::members`] before anything else.
    fn sender(&self) -> Box<dyn SenderModel>;

    /// What stands in front of a server.
    fn server(&self) -> Box<dyn ServerModel> {
        Box::new(Plain)
    }

    /// Whether its senders probe, so that the servers must remember their latencies.
    fn probes(&self) -> bool {
        false
    }
}

/// The circumstances of a decision.
pub struct Moment<'a> {
    /// When.
    pub now: Timestamp,
    /// Randomness.
    pub rng: &'a mut fastrand::Rng,
    /// What only an omniscient balancer may look at.
    pub view: &'a View,
}

/// Where an attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The server.
    pub server: u32,
    /// The longest wait that the attempt accepts; none: any.
    pub bid: Option<Duration>,
}

/// What a server answers to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Requests in the server.
    pub in_flight: u32,
    /// How long a request would take that came now.
    pub latency: Duration,
}

/// The decisions of one sender. Servers are numbered from 0.
pub trait SenderModel {
    /// These are the servers, in rising order, from now on.
    fn members(&mut self, servers: &[u32], now: Timestamp);

    /// The server for attempt number `attempt` (0: the first one) of a request, which begins at once; none: nobody is known. `plan` belongs to the request
    /// and is empty at its first attempt.
    fn choose(&mut self, plan: &mut Plan, attempt: u32, moment: &mut Moment<'_>) -> Option<Choice>;

    /// An attempt that `server` had, and that began at `began` with this `bid`, is over.
    fn answer(&mut self, server: u32, answer: &Answer, bid: Option<Duration>, began: Timestamp, now: Timestamp);

    /// How often a request may be sent again; none: as often as the service's parameters say.
    fn retries(&self) -> Option<u32> {
        None
    }

    /// Puts the servers that are to be probed now, after a request's first choice, into `into`, which is empty.
    fn probe(&mut self, _into: &mut Vec<u32>, _moment: &mut Moment<'_>) {}

    /// A probe has come back.
    fn probed(&mut self, _server: u32, _probe: Probe, _now: Timestamp) {}
}

/// What a server says to an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It may come in.
    Admitted,
    /// It may not.
    Rejected(LoadReport),
    /// It would take longer than its bid.
    Bounced(LoadReport),
}

/// The decisions of one server. `request` names a request while it is in the server.
pub trait ServerModel {
    /// An attempt has come, which accepts a wait of `bid` at most.
    fn arrive(&mut self, request: u32, bid: Option<Duration>, now: Timestamp, rng: &mut fastrand::Rng) -> Verdict;

    /// The application begins to work on an admitted request.
    fn begin(&mut self, _request: u32, _now: Timestamp) {}

    /// The application has finished a request, which leaves: the report that its answer carries, if any.
    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport>;

    /// Whether it lies, to probes too.
    fn lies(&self) -> bool {
        false
    }
}
