//! The description of a mesh, and the parameters that the filters get from it.

use crate::envoy::{Balancing, Guard, ROUTE_RETRIES, SERVICE};
use crate::policy::{Choice, Policy};
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::{CapacitySpec, ServiceSpec};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// The description of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSpec {
    /// What balances the load.
    pub policy: Policy,
    /// How many frontends.
    pub frontends: usize,
    /// How many backends.
    pub backends: usize,
    /// Backends that run as well, and join when told to.
    pub spare: usize,
    /// How long a backend takes for a request.
    pub service_time: ServiceTime,
    /// How many requests a backend serves at once.
    pub concurrency: usize,
    /// Speed factors, given to the backends in turn; empty: all 1. Those of spare backends come
    /// last.
    pub speeds: Vec<f64>,
    /// Requests in flight that a backend's sidecar admits; `None`: no limit.
    pub capacity: Option<CapacitySpec>,
    /// Whether the sidecar of a backend holds requests above `concurrency`, and so measures how
    /// fast the backend is.
    pub hold: bool,
    /// With `mu`: above this response time a frontend refuses a request at once.
    pub slo: Option<Duration>,
    /// Whether `least_request` is Envoy's default of two choices even in a single frontend.
    pub two_choices: bool,
    /// How long a sender avoids a server without a chip.
    pub reset_interval: Duration,
    /// Retries after a rejection.
    pub retries: u32,
    /// Whether the sidecars also get their parameters from a control plane.
    pub control_plane: bool,
    /// Worker threads of each Envoy.
    pub workers: usize,
    /// How long a connection is idle before Envoys close it; `None`: an hour.
    pub idle_timeout: Option<Duration>,
    /// The longest time a backend's sidecar holds a request; `None`: the filters' default.
    pub max_queue_wait: Option<Duration>,
    /// How long replaced listeners drain, in a mesh whose listeners and plugin configurations
    /// change ([`Mesh::change`](super::Mesh::change)). The control plane would override these, so
    /// it knows no service until [`Mesh::reconfigure`](super::Mesh::reconfigure). None of the
    /// Envoys can be restarted. `None`: listeners stay as they are.
    pub drain: Option<Duration>,
    /// What an operator has set on the senders' cluster and route; `None`: nothing, and the circuit
    /// breakers never open.
    pub guard: Option<Guard>,
    /// The seed of the service times, with a stream for each backend ([`crate::seeds`]).
    pub seed: u64,
}

impl MeshSpec {
    /// The fleet of most comparisons: 10 backends that serve one request at a time, no limit,
    /// nothing held, a reset interval of 200 ms, a control plane.
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

    /// Whether the mesh has a control plane.
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
