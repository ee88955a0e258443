//! Breaks parts of a running mesh and mends them. Each part comes back at its old address.

use super::builder::Builder;
use super::error::MeshError;
use super::running::Mesh;
use super::tools::Tools;
use crate::backend::Behaviour;
use crate::envoy::Envoy;
use crate::http;
use crate::process::{Process, Program};
use crate::throttle::Throttle;
use bloc_policy::config::{CapacitySpec, ServiceSpec};
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// An Envoy of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The gateway.
    Gateway,
    /// A frontend's sidecar.
    Frontend(usize),
    /// A backend's sidecar.
    Sidecar(usize),
}

impl Role {
    /// The name of its only listener.
    fn listener(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Frontend(_) => "outbound",
            Self::Sidecar(_) => "inbound",
        }
    }
}

/// The process ids of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The gateway and the frontends' sidecars.
    pub outer: Vec<u32>,
    /// The backends' sidecars.
    pub sidecars: Vec<u32>,
    /// The control plane, if there is one.
    pub control_plane: Vec<u32>,
}

/// An Envoy with a limited share of a processor, until this is dropped.
#[derive(Debug)]
pub struct Throttled {
    // Declared first, so dropped first: a throttled process ends slowly.
    _throttle: Throttle,
    _busy: Vec<Process>,
}

async fn sum(envoys: &[Envoy], name: &str) -> Result<u64, MeshError> {
    let filter = format!("^{}$", name.replace('.', r"\."));
    let all = try_join_all(envoys.iter().map(|envoy| envoy.stats(&filter))).await?;
    Ok(all.iter().filter_map(|stats| stats.get(name)).sum())
}

impl Mesh {
    /// Kills a backend's application.
    pub async fn crash_backend(&mut self, n: usize) {
        self.backends[n].crash().await;
    }

    /// Starts a killed application again.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_backend(&mut self, n: usize) -> Result<(), MeshError> {
        let (bar, at) = (ProgressBar::hidden(), self.apps[n]);
        self.backends[n] = self.builder(&self.tools, &bar).backend(n, at).await?.0;
        Ok(())
    }

    /// Stops a backend's application with SIGSTOP, or continues it.
    pub fn freeze_backend(&self, n: usize, frozen: bool) {
        self.backends[n].signal(if frozen { Signal::SIGSTOP } else { Signal::SIGCONT });
    }

    /// From now on backend `n` is `factor` times as fast as at the start.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn change_speed_of(&self, n: usize, factor: f64) -> Result<(), MeshError> {
        self.tell(n, &format!("/admin/speed/{}", self.registry.spec().speed(n) * factor)).await
    }

    /// Sets what backend `n` does with its requests from now on.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub async fn change_behaviour_of(&self, n: usize, behaviour: Behaviour) -> Result<(), MeshError> {
        self.tell(n, &format!("/admin/behaviour/{}", behaviour.name())).await
    }

    async fn tell(&self, n: usize, path: &str) -> Result<(), MeshError> {
        let (status, _) = http::post(self.apps[n], path, LIMIT).await?;
        if status.is_success() { Ok(()) } else { Err(MeshError::Speed { backend: n, status }) }
    }

    /// Kills an Envoy.
    pub async fn crash(&mut self, role: Role) {
        self.envoy_mut(role).process().crash().await;
    }

    /// Stops an Envoy with SIGSTOP, or continues it.
    pub fn freeze(&mut self, role: Role, frozen: bool) {
        let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        self.envoy_mut(role).process().signal(signal);
    }

    /// Limits an Envoy and `neighbours` busy processes together to `share` of one processor.
    ///
    /// # Errors
    /// The Envoy cannot be throttled on this machine.
    pub async fn throttle(&mut self, role: Role, share: f64, neighbours: usize) -> Result<Throttled, MeshError> {
        let mut busy = Vec::with_capacity(neighbours);
        for n in 0..neighbours {
            let arguments = vec!["-c".into(), "while :; do :; done".into()];
            let program = Program { name: format!("busy-{n}"), executable: "/bin/sh".into(), arguments };
            busy.push(Process::start(program, &self.directory).await?);
        }
        let all: Vec<u32> = busy.iter().chain([&*self.envoy_mut(role).process()]).filter_map(Process::id).collect();
        Ok(Throttled { _throttle: Throttle::new(&all, share)?, _busy: busy })
    }

    /// Starts these Envoys again, all at once.
    ///
    /// # Errors
    /// One does not start.
    pub async fn restart(&mut self, roles: &[Role]) -> Result<(), MeshError> {
        let envoy = self.tools.envoy.clone();
        self.restart_as(roles, &envoy).await
    }

    /// Starts these Envoys again, all at once, with `executable` for Envoy.
    ///
    /// # Errors
    /// One does not start.
    pub async fn restart_as(&mut self, roles: &[Role], executable: &Path) -> Result<(), MeshError> {
        let workers = self.registry.spec().workers;
        let start = |role: &Role| {
            let envoy = self.envoy(*role);
            let (name, listener) = (envoy.name().to_owned(), envoy.listener(role.listener()));
            let directory = &self.directory;
            async move { Envoy::start_again(executable, directory, &name, listener?, workers).await }
        };
        let started = try_join_all(roles.iter().map(start)).await?;
        for (role, envoy) in roles.iter().zip(started) {
            *self.envoy_mut(*role) = envoy;
        }
        Ok(())
    }

    /// Kills the control plane.
    pub async fn crash_control_plane(&mut self) {
        if let Some(process) = &mut self.control_plane {
            process.crash().await;
        }
    }

    /// Starts a killed control plane again.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart_control_plane(&mut self) -> Result<(), MeshError> {
        let Some(at) = self.control_plane_address else { return Ok(()) };
        let bar = ProgressBar::hidden();
        self.control_plane = Some(self.builder(&self.tools, &bar).control_plane_at(at).await?.0);
        Ok(())
    }

    /// Where the control plane listens, if there is one.
    pub fn control_plane_address(&self) -> Option<SocketAddr> {
        self.control_plane_address
    }

    /// The counter or gauge `name`, summed over the frontends.
    ///
    /// # Errors
    /// A frontend does not answer.
    pub async fn frontends_sum(&self, name: &str) -> Result<u64, MeshError> {
        sum(&self.frontends, name).await
    }

    /// The counter or gauge `name`, summed over the backends' sidecars.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn sidecars_sum(&self, name: &str) -> Result<u64, MeshError> {
        sum(&self.sidecars, name).await
    }

    /// How many requests each backend's sidecar has answered with 2xx since it started.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn answered_by_sidecars(&self) -> Result<Vec<u64>, MeshError> {
        let name = "http.inbound.downstream_rq_2xx";
        let count = |sidecar| sum(std::slice::from_ref(sidecar), name);
        try_join_all(self.sidecars.iter().map(count)).await
    }

    /// Requests per second that all backends finish when they are busy.
    pub fn total_rate(&self) -> f64 {
        let spec = self.registry.spec();
        spec.total_rate(spec.backends)
    }

    /// The address of an Envoy's only listener.
    ///
    /// # Errors
    /// The Envoy has no such listener.
    pub fn entrance(&self, role: Role) -> Result<SocketAddr, MeshError> {
        Ok(self.envoy(role).listener(role.listener())?)
    }

    /// Sends a request to each frontend, past the gateway. Any answer will do.
    ///
    /// # Errors
    /// A frontend does not answer.
    pub async fn ask_frontends(&self) -> Result<(), MeshError> {
        let ask = |frontend: &Envoy| {
            let listener = frontend.listener(Role::Frontend(0).listener());
            async move { Ok::<_, MeshError>(http::get(listener?, "/", LIMIT).await?) }
        };
        try_join_all(self.frontends.iter().map(ask)).await.map(drop)
    }

    /// A counter or gauge of the gateway; zero where it does not exist.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub async fn gateway_counter(&self, name: &str) -> Result<u64, MeshError> {
        sum(std::slice::from_ref(&self.gateway), name).await
    }

    /// The linear memory of the largest guest among the frontends, and among the backends'
    /// sidecars, in pages of 64 KiB.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn guest_pages(&self) -> Result<[u64; 2], MeshError> {
        let name = "wasmcustom.bloc.guest.vm.memory_pages";
        let most = async |envoys: &[Envoy]| {
            let all = try_join_all(envoys.iter().map(|envoy| envoy.stats(name))).await?;
            Ok::<_, MeshError>(all.iter().filter_map(|stats| stats.get(name).copied()).max().unwrap_or(0))
        };
        Ok([most(&self.frontends).await?, most(&self.sidecars).await?])
    }

    /// Makes the first `servers` backends, spare ones included, the service, each with this
    /// capacity. Envoy learns of them through EDS, the filters through the control plane.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reconfigure(&self, servers: usize, capacity: CapacitySpec) -> Result<(), MeshError> {
        self.registry.announce_with(servers, Some(capacity))
    }

    /// The process ids of the mesh.
    pub fn parts(&mut self) -> Parts {
        let ids = |envoys: &mut [Envoy]| envoys.iter_mut().filter_map(|envoy| envoy.process().id()).collect::<Vec<_>>();
        let outer = [ids(&mut self.frontends), ids(std::slice::from_mut(&mut self.gateway))].concat();
        let control_plane = self.control_plane.iter().filter_map(crate::process::Process::id).collect();
        Parts { outer, sidecars: ids(&mut self.sidecars), control_plane }
    }

    /// How many frontends there are.
    pub fn frontend_count(&self) -> usize {
        self.frontends.len()
    }

    /// What the control plane serves for the service when it has these endpoints.
    pub fn services(&self, endpoints: &[SocketAddr]) -> BTreeMap<String, ServiceSpec> {
        self.registry.spec().services(Some(endpoints))
    }

    pub(super) fn envoy(&self, role: Role) -> &Envoy {
        match role {
            Role::Gateway => &self.gateway,
            Role::Frontend(n) => &self.frontends[n],
            Role::Sidecar(n) => &self.sidecars[n],
        }
    }

    pub(super) fn envoy_mut(&mut self, role: Role) -> &mut Envoy {
        match role {
            Role::Gateway => &mut self.gateway,
            Role::Frontend(n) => &mut self.frontends[n],
            Role::Sidecar(n) => &mut self.sidecars[n],
        }
    }

    fn builder<'a>(&'a self, tools: &'a Tools, progress: &'a ProgressBar) -> Builder<'a> {
        Builder::new(self.registry.spec(), tools, &self.directory, progress)
    }
}
