//! A mesh: started in waves, controlled, and ended.

use super::builder::{Builder, START_LIMIT, listeners};
use super::counters::{Admins, Counters};
use super::error::{MeshError, file_error};
use super::registry::Registry;
use super::spec::MeshSpec;
use super::tools::Tools;
use crate::envoy::{self, Envoy, SERVICE};
use crate::http;
use crate::process::Process;
use futures_util::future::{join_all, try_join_all};
use indicatif::ProgressBar;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A running mesh; dropping it kills all of it.
#[derive(Debug)]
pub struct Mesh {
    pub(super) gateway: Envoy,
    pub(super) frontends: Vec<Envoy>,
    pub(super) sidecars: Vec<Envoy>,
    pub(super) backends: Vec<Process>,
    pub(super) control_plane: Option<Process>,
    pub(super) control_plane_address: Option<SocketAddr>,
    url: SocketAddr,
    pub(super) apps: Vec<SocketAddr>,
    pub(super) registry: Registry,
    pub(super) tools: Tools,
    pub(super) directory: PathBuf,
}

impl Mesh {
    /// Starts everything; files and logs go to `directory`, each step to `progress`.
    ///
    /// # Errors
    /// Something is missing or does not get ready. Then nothing is left running.
    pub async fn start(
        spec: &MeshSpec,
        tools: &Tools,
        directory: &Path,
        progress: &ProgressBar,
    ) -> Result<Self, MeshError> {
        tools.need(spec.policy, spec.has_control_plane())?;
        std::fs::create_dir_all(directory).map_err(|source| file_error(directory, source))?;
        let directory = &directory.canonicalize().map_err(|source| file_error(directory, source))?;
        let builder = Builder::new(spec, tools, directory, progress);
        let pods = spec.backends + spec.spare;
        progress.set_length((spec.frontends + 2 * pods + 1 + usize::from(spec.has_control_plane())) as u64);
        progress.set_position(0);

        let (backends, control_plane) = tokio::try_join!(builder.backends(), builder.control_plane())?;
        let (backends, apps): (Vec<_>, Vec<_>) = backends.into_iter().unzip();
        let (control_plane, control_plane_address) = control_plane.unzip();
        let sidecars = builder.sidecars(&apps, control_plane_address).await?;
        let registry = Registry::new(spec, directory, listeners(&sidecars, "inbound")?)?;
        if spec.drain.is_none() {
            registry.announce(spec.backends)?;
        }
        let frontends = builder.frontends(&registry, control_plane_address).await?;
        let gateway = builder.envoy("gateway".into(), envoy::gateway(&listeners(&frontends, "outbound")?)).await?;
        let url = gateway.listener("gateway")?;
        Ok(Self {
            gateway,
            frontends,
            sidecars,
            backends,
            control_plane,
            control_plane_address,
            url,
            apps,
            registry,
            tools: tools.clone(),
            directory: directory.clone(),
        })
    }

    /// Where clients send their requests.
    pub fn gateway(&self) -> SocketAddr {
        self.url
    }

    /// Where the sidecars of the backends listen; spare backends come last.
    pub fn endpoints(&self) -> &[SocketAddr] {
        self.registry.endpoints()
    }

    /// Adds the spare backends to the service. Envoy learns of them through EDS, the filters
    /// through the control plane, if there is one.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn join_spare(&self) -> Result<(), MeshError> {
        self.registry.announce(self.apps.len())
    }

    /// From now on each backend is `factor` times as fast as at the start.
    ///
    /// # Errors
    /// A backend does not answer, or refuses.
    pub async fn change_speed(&self, factor: f64) -> Result<(), MeshError> {
        for (n, app) in self.apps.iter().enumerate() {
            let path = format!("/admin/speed/{}", self.registry.spec().speed(n) * factor);
            let (status, _) = http::post(*app, &path, START_LIMIT).await?;
            if !status.is_success() {
                return Err(MeshError::Speed { backend: n, status });
            }
        }
        Ok(())
    }

    /// The gauge `name` of `bloc.inbound` in each backend's sidecar; zero where it does not exist.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn gauges(&self, name: &str) -> Result<Vec<u64>, MeshError> {
        let name = format!("wasmcustom.bloc.inbound.{SERVICE}.{name}");
        let read = self.sidecars.iter().map(|sidecar| sidecar.stats(&name));
        let all = try_join_all(read).await?;
        Ok(all.into_iter().map(|stats| stats.get(&name).copied().unwrap_or_default()).collect())
    }

    /// The admin interfaces of the sidecars.
    pub fn admins(&self) -> Admins {
        let of = |envoys: &[Envoy]| envoys.iter().map(Envoy::admin).collect();
        Admins { frontends: of(&self.frontends), backends: of(&self.sidecars) }
    }

    /// The counters of all sidecars.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn counters(&self) -> Result<Counters, MeshError> {
        Ok(self.admins().read().await?)
    }

    /// Checks that everything still runs.
    ///
    /// # Errors
    /// The first process that ended, with its log.
    pub fn check(&mut self) -> Result<(), MeshError> {
        let envoys = self.frontends.iter_mut().chain(&mut self.sidecars).chain([&mut self.gateway]);
        let others = self.backends.iter_mut().chain(&mut self.control_plane);
        envoys.map(Envoy::process).chain(others).try_for_each(Process::check).map_err(Into::into)
    }

    /// The process ids of all Envoys.
    pub fn envoy_ids(&mut self) -> Vec<u32> {
        let envoys = self.frontends.iter_mut().chain(&mut self.sidecars).chain([&mut self.gateway]);
        envoys.map(Envoy::process).filter_map(|process| process.id()).collect()
    }

    /// The process ids of everything that runs.
    pub fn process_ids(&mut self) -> Vec<u32> {
        let envoys = self.frontends.iter_mut().chain(&mut self.sidecars).chain([&mut self.gateway]);
        let others = self.backends.iter_mut().chain(&mut self.control_plane);
        envoys.map(Envoy::process).chain(others).filter_map(|process| process.id()).collect()
    }

    /// Ends everything, beginning with the clients' side.
    pub async fn end(self) {
        let envoys = [self.gateway].into_iter().chain(self.frontends).chain(self.sidecars);
        join_all(envoys.map(Envoy::end)).await;
        join_all(self.backends.into_iter().chain(self.control_plane).map(Process::end)).await;
    }
}
