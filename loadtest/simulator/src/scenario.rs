//! One case: the policy, numbers, speeds, delays and the load.

use crate::back_off::BackOff;
use crate::events::INDEX_LIMIT;
use crate::incident::Incident;
use crate::load::Load;
use crate::policies::PolicyKind;
use crate::policies::reserve::settings::Reserving;
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::{ConfigError, ServiceSpec};
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A case. The public fields accept any value; [`run`](crate::run) checks them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The policy.
    pub policy: PolicyKind,
    /// Senders, 1 to 100,000.
    pub senders: u32,
    /// Servers, 1 to 100,000.
    pub servers: u32,
    /// Speeds of the servers, in turn, each above 0 and at most 1000; empty: all 1.
    pub speeds: Vec<f64>,
    /// Requests that a server works on at once, 1 to 10,000.
    pub concurrency: u32,
    /// The service time of a request.
    #[serde(serialize_with = "text")]
    pub service_time: ServiceTime,
    /// The load.
    #[serde(serialize_with = "text")]
    pub load: Load,
    /// Open load: the arrival times of the requests, in rising order; none: they are drawn.
    /// Arrivals after the measured time are left out, and incidents do not change them.
    #[serde(skip)]
    pub arrivals: Option<Arc<[Duration]>>,
    /// How the gateway spreads the requests over the senders.
    pub spread: Spread,
    /// From a client to its sender and back, both together: the time of a request outside the
    /// balanced part.
    #[serde(serialize_with = "time")]
    pub edge: Duration,
    /// From sender to server or back.
    #[serde(serialize_with = "time")]
    pub one_way: Duration,
    /// From sending an attempt to the arrival of its rejection; at least `one_way`.
    #[serde(serialize_with = "time")]
    pub bounce: Duration,
    /// From a server's sidecar to its application and back: what an answer takes beyond the service
    /// time. A rejection does not pay it.
    #[serde(serialize_with = "time")]
    pub application: Duration,
    /// From an answer to the hand-over of the next request that the sidecar holds; the place is
    /// empty meanwhile.
    #[serde(serialize_with = "time")]
    pub hand_over: Duration,
    /// How long a sender waits before a retry, in addition to the bounce.
    pub back_off: BackOff,
    /// After this time an attempt to an unreachable server fails.
    #[serde(serialize_with = "time")]
    pub connect_timeout: Duration,
    /// The time that a request has left when it reaches a server, which may reject it for that;
    /// none: no deadline.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_time")]
    pub deadline: Option<Duration>,
    /// Whether a failed attempt is retried, like a rejected one. The filters leave that to the
    /// user's retry policy.
    pub retry_failures: bool,
    /// The load runs for this long before anything counts.
    #[serde(serialize_with = "time")]
    pub warm_up: Duration,
    /// The measured time: requests that arrive within it count.
    #[serde(serialize_with = "time")]
    pub duration: Duration,
    /// The response time to meet; none: the outcome does not count the answers that met it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_time")]
    pub goal: Option<Duration>,
    /// Idle streams that each server has from the start; 0 to 100,000. Each comes from a random
    /// sender, and counts until the service's `streamIdle` has passed. In stock Envoy it counts for
    /// ever, as it did in the filters before they knew idle streams.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_streams: u32,
    /// The incidents.
    #[serde(serialize_with = "texts")]
    pub incidents: Vec<Incident>,
    /// The service's parameters, as the filters get them; the simulator fills in routing and
    /// endpoints.
    pub service: ServiceSpec,
    /// The settings of the policies `reserve` and `best_of`.
    #[serde(skip_serializing_if = "is_default")]
    pub reserve: Reserving,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// How the gateway spreads requests over the senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Spread {
    /// Uniformly at random.
    #[default]
    Random,
    /// The one with fewer requests under way of two at random: Envoy's default at a gateway.
    LeastRequest,
    /// One after the other.
    RoundRobin,
    /// Closed load: each client has its own, in turn. Open load: at random.
    Own,
}

/// Why a case cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A value outside its range.
    #[error("{path}: {value} is not allowed; allowed: {allowed}")]
    OutOfRange {
        /// Which value.
        path: &'static str,
        /// The value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The service's parameters are not allowed.
    #[error("service.{0}")]
    Service(#[from] ConfigError),
    /// The policy crate does not have this routing.
    #[error("policy: `bloc-policy` has no routing `{0}`")]
    NoSuchRouting(&'static str),
    /// All servers join later.
    #[error("incidents: no server is there at the start")]
    NobodyThere,
}

impl Default for Scenario {
    /// The first case of issue 4: 40 senders, 10 servers that work on one request at a time, 250
    /// ms, 95%; BLOC with the paper's capacity of 10.
    fn default() -> Self {
        Self {
            policy: PolicyKind::Bloc,
            senders: 40,
            servers: 10,
            speeds: Vec::new(),
            concurrency: 1,
            service_time: ServiceTime::Fixed(Duration::from_millis(250)),
            load: Load::Share(0.95),
            arrivals: None,
            spread: Spread::Random,
            edge: Duration::ZERO,
            one_way: Duration::from_micros(500),
            bounce: Duration::from_micros(1500),
            application: Duration::ZERO,
            hand_over: Duration::ZERO,
            back_off: BackOff::default(),
            connect_timeout: Duration::from_secs(1),
            deadline: None,
            retry_failures: false,
            warm_up: Duration::from_secs(60),
            duration: Duration::from_secs(600),
            goal: None,
            idle_streams: 0,
            incidents: Vec::new(),
            service: ServiceSpec {
                capacity: Some(bloc_policy::config::CapacitySpec::Static { limit: 10 }),
                ..ServiceSpec::default()
            },
            reserve: Reserving::default(),
            seed: 1,
        }
    }
}

impl Scenario {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is not allowed.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        range("senders", self.senders, 1, 100_000, "1 to 100000")?;
        range("servers", self.servers, 1, 100_000, "1 to 100000")?;
        range("concurrency", self.concurrency, 1, 10_000, "1 to 10000")?;
        for &speed in &self.speeds {
            range("speeds", speed, f64::MIN_POSITIVE, 1000.0, "above 0, at most 1000")?;
        }
        let hour = Duration::from_secs(3600);
        shown_range("edge", self.edge, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("one_way", self.one_way, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("application", self.application, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("hand_over", self.hand_over, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("bounce", self.bounce, self.one_way, hour, "the one-way delay to 1h")?;
        shown_range("connect_timeout", self.connect_timeout, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("warm_up", self.warm_up, Duration::ZERO, 1000 * hour, "0s to 1000h")?;
        shown_range("duration", self.duration, Duration::from_millis(1), 1000 * hour, "1ms to 1000h")?;
        range("idle_streams", self.idle_streams, 0, 100_000, "0 to 100000")?;
        range("reserve.servers", self.reserve.servers, 1, 10, "1 to 10")?;
        range("reserve.rounds", self.reserve.rounds, 1, 5, "1 to 5")?;
        shown_range("reserve.keep", self.reserve.keep, Duration::ZERO, hour, "0s to 1h")?;
        shown_range("reserve.patience", self.reserve.patience, Duration::from_millis(1), hour, "1ms to 1h")?;
        range("reserve.lost", self.reserve.lost, 0.0, 1.0, "0 to 1")?;
        range("reserve.callers_die", self.reserve.callers_die, 0.0, 1.0, "0 to 1")?;
        for incident in &self.incidents {
            range("incidents", incident.last_server(), 0, self.servers - 1, "servers that exist, numbered from 0")?;
        }
        if let Load::Closed { clients, .. } = self.load {
            range("load", clients, 1, INDEX_LIMIT - 1, "fewer clients")?;
        }
        if self.members().next().is_none() {
            return Err(ScenarioError::NobodyThere);
        }
        self.service.validate()?;
        Ok(())
    }

    /// The servers that are present at the start.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        (0..self.servers).filter(|&server| !self.incidents.iter().any(|incident| incident.joins_later(server)))
    }

    /// The speed of a server.
    pub fn speed(&self, server: u32) -> f64 {
        self.speeds.get(server as usize % self.speeds.len().max(1)).copied().unwrap_or(1.0)
    }

    /// The most that a server can do, in requests per second.
    pub fn service_rate(&self, server: u32) -> f64 {
        self.speed(server) * f64::from(self.concurrency) / self.service_time.mean().as_secs_f64()
    }
}

fn range<T: PartialOrd + Display>(
    path: &'static str,
    value: T,
    least: T,
    most: T,
    allowed: &'static str,
) -> Result<(), ScenarioError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(ScenarioError::OutOfRange { path, value: value.to_string(), allowed })
}

fn shown_range(
    path: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
    allowed: &'static str,
) -> Result<(), ScenarioError> {
    let shown = humantime::format_duration(value).to_string();
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ScenarioError::OutOfRange { path, value: shown, allowed })
}

fn is_default(value: &Reserving) -> bool {
    *value == Reserving::default()
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn texts<S: Serializer>(values: &[Incident], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

fn time<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*value))
}

fn some_time<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(value.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Scenario)) -> String {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        scenario.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        assert!(Scenario::default().validate().is_ok());
        assert_eq!(refusal(|s| s.senders = 0), "senders: 0 is not allowed; allowed: 1 to 100000");
        assert_eq!(
            refusal(|s| s.speeds = vec![1.0, f64::NAN]),
            "speeds: NaN is not allowed; allowed: above 0, at most 1000"
        );
        assert_eq!(
            refusal(|s| s.bounce = Duration::from_micros(1)),
            "bounce: 1us is not allowed; allowed: the one-way delay to 1h"
        );
        assert_eq!(refusal(|s| s.service.retries = Some(11)), "service.retries: 11 is not allowed; allowed: 0 to 10");
        assert_eq!(refusal(|s| s.reserve.servers = 0), "reserve.servers: 0 is not allowed; allowed: 1 to 10");
        assert_eq!(refusal(|s| s.reserve.lost = 1.5), "reserve.lost: 1.5 is not allowed; allowed: 0 to 1");
        assert!(refusal(|s| s.incidents = vec!["lying:10".parse().unwrap()]).starts_with("incidents: 10 is not"));
        assert!(refusal(|s| s.incidents = vec!["join:0-9@1s".parse().unwrap()]).contains("no server is there"));
    }

    #[test]
    fn assigns_the_speeds_to_the_servers_in_turn() {
        let scenario = Scenario { speeds: vec![1.0, 2.0], ..Scenario::default() };
        assert_eq!((scenario.speed(2), scenario.speed(3)), (1.0, 2.0));
        assert_eq!(scenario.service_rate(1), 8.0);
    }
}
