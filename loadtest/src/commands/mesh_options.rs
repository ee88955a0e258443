//! The options that describe a mesh, shared by `run` and `up`.

use bloc_figures::service_time::ServiceTime;
use bloc_mesh::envoy::Guard;
use bloc_mesh::policy::Policy;
use bloc_mesh::quantity::{NotAllowed, duration, number};
use bloc_mesh::{MeshSpec, read_capacity};
use bloc_policy::config::CapacitySpec;
use clap::Args;
use std::time::Duration;

/// The options of a mesh.
#[derive(Debug, Args)]
pub struct MeshOptions {
    /// What balances the load
    #[arg(long, value_enum, default_value = "bloc")]
    policy: Policy,
    /// Frontends, each with its own sidecar; 1 to 200
    #[arg(long, default_value = "40", value_parser = |text: &str| number::<usize>(text, 1, 200))]
    frontends: usize,
    /// Backends, each with its own sidecar; 1 to 100
    #[arg(long, default_value = "10", value_parser = |text: &str| number::<usize>(text, 1, 100))]
    backends: usize,
    /// fixed:50ms, uniform:40ms-650ms, normal:250ms/125ms (mean/deviation), exponential:10ms,
    /// lognormal:50ms/1.5 (mean/sigma), mix:10ms/400ms/0.05 (short/long/share of the long) or
    /// pareto:10ms/1.5 (mean/shape; the longest is 1000 times the shortest)
    #[arg(long, default_value = "fixed:50ms")]
    service_time: ServiceTime,
    /// Requests that a backend serves at once; 1 to 1000
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 1_000))]
    concurrency: usize,
    /// Speed factors, given to the backends in turn; 0.01 to 100 each
    #[arg(long, value_delimiter = ',', value_parser = speed)]
    speeds: Vec<f64>,
    /// Filters: requests in flight that a backend's sidecar admits: static:10, slo:500ms (as many
    /// as it finishes within that), average:30s, or none; default static:10 for bloc, none for mu
    #[arg(long, value_parser = capacity)]
    capacity: Option<Capacity>,
    /// Filters: a backend's sidecar holds the requests beyond --concurrency; default for mu
    #[arg(long, overrides_with = "no_hold")]
    hold: bool,
    /// Filters: a backend's sidecar holds nothing; default for bloc and bid
    #[arg(long)]
    no_hold: bool,
    /// mu: above this expected response time a frontend answers 503 at once; 1ms to 1h
    #[arg(long, value_parser = duration_option)]
    slo: Option<Duration>,
    /// least_request: two choices, Envoy's default, even with one frontend
    #[arg(long)]
    two_choices: bool,
    /// Stock Envoy: circuit breakers, outlier detection and retries, set by an operator: requests
    /// in flight of a sender, and how long an attempt may take, such as 10:1500ms
    #[arg(long, value_name = "REQUESTS:ATTEMPT")]
    guard: Option<Guard>,
    /// bloc: how long a sender avoids a server without a chip; 1ms to 1h
    #[arg(long, default_value = "200ms", value_parser = duration_option)]
    reset_interval: Duration,
    /// bloc: retries after a rejection; 0 to 10
    #[arg(long, default_value = "3", value_parser = |text: &str| number::<u32>(text, 0, 10))]
    retries: u32,
    /// bloc: no control plane, only the static configuration
    #[arg(long)]
    no_control_plane: bool,
    /// Worker threads of each Envoy; 1 to 16
    #[arg(long, default_value = "1", value_parser = |text: &str| number::<usize>(text, 1, 16))]
    workers: usize,
    /// Seed of the service times and arrivals
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Clone, Debug)]
struct Capacity(Option<CapacitySpec>);

/// As in the paper's experiment of section 5.6.2.
const BLOC_CAPACITY: CapacitySpec = CapacitySpec::Static { limit: 10 };

impl MeshOptions {
    /// The mesh with these options.
    pub fn spec(&self) -> MeshSpec {
        MeshSpec {
            backends: self.backends,
            concurrency: self.concurrency,
            speeds: self.speeds.clone(),
            capacity: match &self.capacity {
                Some(Capacity(capacity)) => capacity.clone(),
                None => (self.policy == Policy::Bloc).then_some(BLOC_CAPACITY),
            },
            hold: self.hold || self.policy.holds() && !self.no_hold,
            slo: self.slo,
            two_choices: self.two_choices,
            reset_interval: self.reset_interval,
            retries: self.retries,
            control_plane: !self.no_control_plane,
            workers: self.workers,
            guard: self.guard,
            seed: self.seed,
            ..MeshSpec::fleet(self.policy, self.frontends, self.service_time)
        }
    }
}

/// A speed factor.
pub fn speed(text: &str) -> Result<f64, NotAllowed> {
    number(text, 0.01, 100.0)
}

fn capacity(text: &str) -> Result<Capacity, NotAllowed> {
    read_capacity(text).map(Capacity)
}

fn duration_option(text: &str) -> Result<Duration, NotAllowed> {
    duration(text, Duration::from_millis(1), Duration::from_secs(3600))
}
