//! What a mesh is to be, and what that means for the filters.

use crate::backend::ServiceTime;
use crate::envoy::{Balancing, Guard, ROUTE_RETRIES, SERVICE};
use crate::policy::{Choice, Policy};
use bloc_policy::config::{CapacitySpec, ServiceSpec};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// What a mesh is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSpec {
    /// What balances the load.
    pub policy: Policy,
    /// How many frontends.
    pub frontends: usize,
    /// How many backends.
    pub backends: usize,
    /// Backends that run beside these and join when told to.
    pub spare: usize,
    /// How long a backend takes for a request.
    pub service_time: ServiceTime,
    /// How many requests a backend serves at once.
    pub concurrency: usize,
    /// Speed factors, handed out to the backends in turn; empty: all 1. Those of the spare ones
    /// come after the others'.
    pub speeds: Vec<f64>,
    /// Requests in flight that a backend's sidecar admits; `None`: no limit.
    pub capacity: Option<CapacitySpec>,
    /// Whether the sidecar of a backend holds what exceeds `concurrency`, and so measures how fast
    /// the backend is.
    pub hold: bool,
    /// With `mu`: the response time beyond which a frontend refuses at once.
    pub slo: Option<Duration>,
    /// Whether `least_request` is Envoy's default of two choices even in a single frontend.
    pub two_choices: bool,
    /// How long a server without a chip is left alone.
    pub reset_interval: Duration,
    /// Retries after a rejection.
    pub retries: u32,
    /// Whether the sidecars get their parameters from a control plane too.
    pub control_plane: bool,
    /// Worker threads of each Envoy.
    pub workers: usize,
    /// After how long Envoys close connections that nobody uses; `None`: an hour.
    pub idle_timeout: Option<Duration>,
    /// How long a backend's sidecar holds a request at most; `None`: the filters' default.
    pub max_queue_wait: Option<Duration>,
    /// How long listeners drain that were replaced, in a mesh whose listeners and plugin
    /// configurations change ([`Mesh::change`](super::Mesh::change)); there the control plane,
    /// which would overrule these, knows no service until
    /// [`Mesh::reconfigure`](super::Mesh::reconfigure), and no Envoy of it can be restarted.
    /// `None`: listeners stay as they are.
    pub drain: Option<Duration>,
    /// What an operator has set on the senders' cluster and route; `None`: nothing, and circuit
    /// breakers are out of the way.
    pub guard: Option<Guard>,
    /// Determines the service times, a stream for each backend ([`crate::seeds`]).
    pub seed: u64,
}

impl MeshSpec {
    /// The fleet that most comparisons are made with: 10 backends that serve one request at a time,
    /// nothing limited, nothing held, a reset interval of 200 ms, a control plane.
    pub fn fleet(policy: Policy, frontends: usize, service_time: ServiceTime) -> Self {
        Self {
            policy,
            frontends,
            backends: 10,
            spare: 0,
            service_time,
            concurrency: 1,
            speeds: vec![],
            capacity: None,
            hold: false,
            slo: None,
            two_choices: false,
            reset_interval: Duration::from_millis(200),
            retries: 3,
            control_plane: true,
            workers: 1,
            idle_timeout: None,
            max_queue_wait: None,
            drain: None,
            guard: None,
            seed: 1,
        }
    }

    /// The speed factor of backend `n`.
    pub fn speed(&self, n: usize) -> f64 {
        self.speeds.get(n % self.speeds.len().max(1)).copied().unwrap_or(1.0)
    }

    /// Requests per second that backends 0 to `backends - 1` finish when they are all busy.
    pub fn total_rate(&self, backends: usize) -> f64 {
        let one = self.concurrency as f64 / self.service_time.mean().as_secs_f64();
        (0..backends).map(|n| one * self.speed(n)).sum()
    }

    pub(super) fn balancing(&self) -> Balancing {
        self.policy.balancing(self.frontends, self.two_choices)
    }

    /// How each frontend chooses a server.
    pub fn choice(&self) -> Choice {
        self.policy.choice(self.frontends, self.two_choices)
    }

    /// Whether a control plane runs in it.
    pub fn has_control_plane(&self) -> bool {
        self.control_plane && self.policy.routing().is_some()
    }

    /// The parameters of the service for the filters.
    pub fn services(&self, endpoints: Option<&[SocketAddr]>) -> BTreeMap<String, ServiceSpec> {
        let spec = ServiceSpec {
            routing: self.policy.routing(),
            retries: Some(self.retries.into()),
            route_retries: Some(ROUTE_RETRIES.into()),
            reset_interval: Some(humantime::format_duration(self.reset_interval).to_string()),
            capacity: self.capacity.clone(),
            concurrency: (self.hold || self.policy.measures())
                .then(|| i64::try_from(self.concurrency).unwrap_or(i64::MAX)),
            hold: self.policy.measures().then_some(self.hold),
            max_queue_wait: self.max_queue_wait.map(|wait| humantime::format_duration(wait).to_string()),
            slo: self.slo.map(|slo| humantime::format_duration(slo).to_string()),
            endpoints: endpoints.map(|addresses| addresses.iter().map(ToString::to_string).collect()),
            ..ServiceSpec::default()
        };
        BTreeMap::from([(SERVICE.to_owned(), spec)])
    }
}
