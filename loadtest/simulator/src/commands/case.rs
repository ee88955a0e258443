//! The options that define a case.

use anyhow::{Context, bail};
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::{CapacitySpec, ServiceSpec};
use bloc_sim::Scenario;
use bloc_sim::back_off::BackOff;
use bloc_sim::incident::Incident;
use bloc_sim::load::Load;
use bloc_sim::policies::PolicyKind;
use bloc_sim::scenario::Spread;
use std::time::Duration;

/// The case; without an option the command's default applies.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CaseOptions {
    /// Senders.
    #[arg(long)]
    pub senders: Option<u32>,
    /// Servers.
    #[arg(long)]
    pub servers: Option<u32>,
    /// Speeds of the servers, in turn: 1,2 makes every second one twice as fast.
    #[arg(long, value_delimiter = ',')]
    pub speeds: Vec<f64>,
    /// Requests that a server works on at once.
    #[arg(long)]
    pub concurrency: Option<u32>,
    /// fixed:250ms, uniform:40ms-650ms, normal:250ms/125ms, exponential:10ms, lognormal:50ms/1.5
    /// (mean, sigma), mix:10ms/400ms/0.05 (short, long, share of the long) or pareto:10ms/1.5.
    #[arg(long)]
    pub service_time: Option<ServiceTime>,
    /// closed:CLIENTS, closed:CLIENTS/THINK, poisson:RPS or share:SHARE (of the servers' capacity).
    #[arg(long)]
    pub load: Option<Load>,
    /// How the gateway spreads requests over the senders.
    #[arg(long)]
    pub spread: Option<Spread>,
    /// From a client to its sender and back, both together.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub edge: Option<Duration>,
    /// From sender to server or back.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub one_way: Option<Duration>,
    /// From sending an attempt to the arrival of its rejection.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub bounce: Option<Duration>,
    /// From a server's sidecar to its application and back: what an answer takes beyond its service
    /// time. A rejection does not pay it.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub application: Option<Duration>,
    /// From an answer to the hand-over of the next request that the sidecar holds.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub hand_over: Option<Duration>,
    /// Envoy's back-off before a retry, such as 1ms-10ms; default: none.
    #[arg(long)]
    pub back_off: Option<BackOff>,
    /// After this time an attempt to an unreachable server fails.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub connect_timeout: Option<Duration>,
    /// The time that a request has left when it reaches a server, which may reject it for that.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub deadline: Option<Duration>,
    /// Retry failed attempts too.
    #[arg(long)]
    pub retry_failures: bool,
    /// The load runs for this long before anything counts.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub warm_up: Option<Duration>,
    /// The measured time.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub duration: Option<Duration>,
    /// down:3@10s-20s, join:3@10s, leave:3@10s, slow:3@10s-20s=0.5, partition@10s-20s,
    /// failing:3@10s-20s=0.5, rejecting:3@10s-20s, lying:3, silent:3; may be repeated.
    #[arg(long = "incident")]
    pub incidents: Vec<Incident>,
    /// Idle streams that each server has.
    #[arg(long)]
    pub idle_streams: Option<u32>,
    /// Requests that a server admits at once, or `none`.
    #[arg(long)]
    pub capacity: Option<String>,
    /// Retries after a rejection.
    #[arg(long)]
    pub retries: Option<i64>,
    /// How long a sender avoids a server without a chip.
    #[arg(long)]
    pub reset_interval: Option<String>,
    /// The service's parameters as the filters read them (JSON, for example {"headroom":0.9}); the
    /// options above override them.
    #[arg(long)]
    pub service: Option<String>,
    /// The seed of all random numbers.
    #[arg(long)]
    pub seed: Option<u64>,
}

impl CaseOptions {
    /// `base`, changed by the options.
    pub fn scenario(&self, base: Scenario, policy: Option<PolicyKind>) -> anyhow::Result<Scenario> {
        let mut incidents = base.incidents;
        incidents.extend(self.incidents.iter().cloned());
        let one_way = self.one_way.unwrap_or(base.one_way);
        Ok(Scenario {
            policy: policy.unwrap_or(base.policy),
            senders: self.senders.unwrap_or(base.senders),
            servers: self.servers.unwrap_or(base.servers),
            speeds: if self.speeds.is_empty() { base.speeds } else { self.speeds.clone() },
            concurrency: self.concurrency.unwrap_or(base.concurrency),
            service_time: self.service_time.unwrap_or(base.service_time),
            load: self.load.unwrap_or(base.load),
            arrivals: base.arrivals,
            spread: self.spread.unwrap_or(base.spread),
            edge: self.edge.unwrap_or(base.edge),
            one_way,
            bounce: self.bounce.unwrap_or(base.bounce),
            application: self.application.unwrap_or(base.application),
            hand_over: self.hand_over.unwrap_or(base.hand_over),
            back_off: self.back_off.unwrap_or(base.back_off),
            connect_timeout: self.connect_timeout.unwrap_or(base.connect_timeout),
            deadline: self.deadline.or(base.deadline),
            retry_failures: self.retry_failures || base.retry_failures,
            warm_up: self.warm_up.unwrap_or(base.warm_up),
            duration: self.duration.unwrap_or(base.duration),
            goal: base.goal,
            idle_streams: self.idle_streams.unwrap_or(base.idle_streams),
            incidents,
            service: self.service(base.service)?,
            reserve: base.reserve,
            seed: self.seed.unwrap_or(base.seed),
        })
    }

    fn service(&self, base: ServiceSpec) -> anyhow::Result<ServiceSpec> {
        let given: ServiceSpec = match &self.service {
            Some(text) => serde_json::from_str(text).context("--service")?,
            None => ServiceSpec::default(),
        };
        if given.routing.is_some() || given.endpoints.is_some() {
            bail!("--service: routing and endpoints are filled in");
        }
        let capacity = match self.capacity.as_deref() {
            None => given.capacity.clone().or(base.capacity),
            Some("none") => None,
            Some(limit) => {
                Some(CapacitySpec::Static { limit: limit.parse().context("--capacity: a number, or `none`")? })
            }
        };
        Ok(ServiceSpec {
            retries: self.retries.or(given.retries).or(base.retries),
            reset_interval: self
                .reset_interval
                .clone()
                .or_else(|| given.reset_interval.clone())
                .or(base.reset_interval),
            capacity,
            ..given
        })
    }
}
