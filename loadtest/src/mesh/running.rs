//! Starting a mesh in waves, each wave in parallel, and ending it.

use super::counters::{Admins, Counters};
use super::tools::{Tools, ToolsMissing};
use crate::backend::ServiceTime;
use crate::envoy::{self, CONTROL_PLANE_CLUSTER, Envoy, EnvoyError, Outbound, Plugin, SERVICE};
use crate::http::{self, HttpError};
use crate::policy::Policy;
use crate::process::{Process, ProcessError, Program};
use bloc_policy::config::{CapacitySpec, ControlPlaneSpec, PluginSpec, ServiceSpec, ServicesSpec};
use futures_util::future::{join_all, try_join_all};
use indicatif::ProgressBar;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

const START_LIMIT: Duration = Duration::from_secs(20);
/// Envoys that start at once, per core: a start is nearly all computing (compiling the module), so that more would only make each
/// other late.
const STARTS_PER_CORE: usize = 4;

/// What a mesh is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshSpec {
    /// What balances the load.
    pub policy: Policy,
    /// How many frontends.
    pub frontends: usize,
    /// How many backends.
    pub backends: usize,
    /// How long a backend takes for a request.
    pub service_time: ServiceTime,
    /// How many requests a backend serves at once.
    pub concurrency: usize,
    /// Speed factors, handed out to the backends in turn; empty: all 1.
    pub speeds: Vec<f64>,
    /// Requests in flight that a backend's sidecar admits; `None`: no limit.
    pub capacity: Option<u32>,
    /// How long a server without a chip is left alone.
    pub reset_interval: Duration,
    /// Retries after a rejection.
    pub retries: u32,
    /// Whether the sidecars get their parameters from a control plane too.
    pub control_plane: bool,
    /// Worker threads of each Envoy.
    pub workers: usize,
    /// Determines the service times.
    pub seed: u64,
}

/// Why there is no mesh.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// A program is missing.
    #[error(transparent)]
    Tools(#[from] ToolsMissing),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// A sidecar does not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// A mesh that stands; dropping it kills all of it.
#[derive(Debug)]
pub struct Mesh {
    gateway: Envoy,
    frontends: Vec<Envoy>,
    sidecars: Vec<Envoy>,
    backends: Vec<Process>,
    control_plane: Option<Process>,
    url: SocketAddr,
}

impl Mesh {
    /// Starts everything; files and logs go to `directory`, each step to `progress`.
    ///
    /// # Errors
    /// Something is missing or does not get ready; then nothing is left running.
    pub async fn start(
        spec: &MeshSpec,
        tools: &Tools,
        directory: &Path,
        progress: &ProgressBar,
    ) -> Result<Self, MeshError> {
        tools.need(spec.policy.routing().is_some(), spec.has_control_plane())?;
        std::fs::create_dir_all(directory).map_err(|source| file_error(directory, source))?;
        let directory = &directory.canonicalize().map_err(|source| file_error(directory, source))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let builder = Builder { spec, tools, directory, progress, starts: Semaphore::new(STARTS_PER_CORE * cores) };
        progress.set_length((spec.frontends + 2 * spec.backends + 1 + usize::from(spec.has_control_plane())) as u64);
        progress.set_position(0);

        let (backends, control_plane) = tokio::try_join!(builder.backends(), builder.control_plane())?;
        let (backends, apps): (Vec<_>, Vec<_>) = backends.into_iter().unzip();
        let (control_plane, control_plane_address) = control_plane.unzip();
        let sidecars = builder.sidecars(&apps, control_plane_address).await?;
        let endpoints = listeners(&sidecars, "inbound")?;
        if control_plane.is_some() {
            builder.write_services(&spec.services(Some(&endpoints)))?;
        }
        let frontends = builder.frontends(&endpoints, control_plane_address).await?;
        let gateway = builder.envoy("gateway".into(), envoy::gateway(&listeners(&frontends, "outbound")?)).await?;
        let url = gateway.listener("gateway")?;
        Ok(Self { gateway, frontends, sidecars, backends, control_plane, url })
    }

    /// Where clients send their requests.
    pub fn gateway(&self) -> SocketAddr {
        self.url
    }

    /// The admin interfaces of the sidecars.
    pub fn admins(&self) -> Admins {
        let of = |envoys: &[Envoy]| envoys.iter().map(Envoy::admin).collect();
        Admins { frontends: of(&self.frontends), backends: of(&self.sidecars) }
    }

    /// The counters of all sidecars.
    ///
    /// # Errors
    /// One does not answer.
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

    /// The process ids of everything that runs.
    pub fn process_ids(&mut self) -> Vec<u32> {
        let envoys = self.frontends.iter_mut().chain(&mut self.sidecars).chain([&mut self.gateway]);
        let others = self.backends.iter_mut().chain(&mut self.control_plane);
        envoys.map(Envoy::process).chain(others).filter_map(|process| process.id()).collect()
    }

    /// Ends everything, clients' side first.
    pub async fn end(self) {
        let envoys = [self.gateway].into_iter().chain(self.frontends).chain(self.sidecars);
        join_all(envoys.map(Envoy::end)).await;
        join_all(self.backends.into_iter().chain(self.control_plane).map(Process::end)).await;
    }
}

impl MeshSpec {
    fn has_control_plane(&self) -> bool {
        self.control_plane && self.policy.routing().is_some()
    }

    fn services(&self, endpoints: Option<&[SocketAddr]>) -> BTreeMap<String, ServiceSpec> {
        let spec = ServiceSpec {
            routing: self.policy.routing(),
            retries: Some(self.retries),
            reset_interval: Some(humantime::format_duration(self.reset_interval).to_string()),
            capacity: self.capacity.map(|limit| CapacitySpec::Static { limit }),
            endpoints: endpoints.map(|addresses| addresses.iter().map(ToString::to_string).collect()),
            ..ServiceSpec::default()
        };
        BTreeMap::from([(SERVICE.to_owned(), spec)])
    }
}

/// What every step of a start needs.
struct Builder<'a> {
    spec: &'a MeshSpec,
    tools: &'a Tools,
    directory: &'a Path,
    progress: &'a ProgressBar,
    starts: Semaphore,
}

impl Builder<'_> {
    async fn backends(&self) -> Result<Vec<(Process, SocketAddr)>, MeshError> {
        try_join_all((0..self.spec.backends).map(|n| self.backend(n))).await
    }

    async fn backend(&self, n: usize) -> Result<(Process, SocketAddr), MeshError> {
        let spec = self.spec;
        let speed = if spec.speeds.is_empty() { 1.0 } else { spec.speeds[n % spec.speeds.len()] };
        let name = format!("backend-{n}");
        let options = [
            ("--name", name.clone()),
            ("--listen", "127.0.0.1:0".to_owned()),
            ("--service-time", spec.service_time.to_string()),
            ("--concurrency", spec.concurrency.to_string()),
            ("--speed", speed.to_string()),
            ("--seed", spec.seed.wrapping_add(n as u64).to_string()),
        ];
        let options = options.into_iter().flat_map(|(option, value)| [option.into(), value.into()]);
        let arguments = std::iter::once("backend".into()).chain(options).collect();
        let mut process =
            Process::start(Program { name, executable: self.tools.lab.clone(), arguments }, self.directory).await?;
        let line = process.first_line(START_LIMIT).await?;
        let address = line.strip_prefix("listening ").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| process.late("line `listening ADDRESS`", START_LIMIT))?;
        self.progress.inc(1);
        Ok((process, address))
    }

    async fn control_plane(&self) -> Result<Option<(Process, SocketAddr)>, MeshError> {
        if !self.spec.has_control_plane() {
            return Ok(None);
        }
        // The endpoints are the sidecars, which need the control plane's address first; it learns them from the file later.
        self.write_services(&self.spec.services(None))?;
        let (source, address) = (self.services_file(), self.directory.join("control-plane.address"));
        let _ = std::fs::remove_file(&address);
        let options = ["--source", &format!("file:{}", source.display()), "--listen", "127.0.0.1:0", "--address-file"];
        let mut arguments: Vec<std::ffi::OsString> = options.iter().map(Into::into).collect();
        arguments.push(address.clone().into());
        let program = Program { name: "control-plane".into(), executable: self.tools.control_plane.clone(), arguments };
        let mut process = Process::start(program, self.directory).await?;
        let at: SocketAddr = process.written(&address, START_LIMIT, |text| text.parse().ok()).await?;
        match http::get(at, "/readyz", START_LIMIT).await? {
            (status, _) if status.is_success() => {}
            _ => return Err(process.late("success from /readyz", START_LIMIT).into()),
        }
        self.progress.inc(1);
        Ok(Some((process, at)))
    }

    async fn sidecars(&self, apps: &[SocketAddr], control_plane: Option<SocketAddr>) -> Result<Vec<Envoy>, MeshError> {
        let plugin = self.plugin(Some(SERVICE), None, control_plane);
        let start = |(n, app): (usize, &SocketAddr)| {
            self.envoy(format!("sidecar-{n}"), envoy::sidecar_inbound(*app, plugin.as_ref()))
        };
        try_join_all(apps.iter().enumerate().map(start)).await
    }

    async fn frontends(
        &self,
        endpoints: &[SocketAddr],
        control_plane: Option<SocketAddr>,
    ) -> Result<Vec<Envoy>, MeshError> {
        let plugin = self.plugin(None, Some(endpoints), control_plane);
        let balancing = self.spec.policy.balancing(self.spec.frontends);
        let outbound = Outbound { cluster: SERVICE, endpoints, balancing, plugin: plugin.as_ref() };
        let bootstrap = envoy::sidecar_outbound(&outbound);
        try_join_all((0..self.spec.frontends).map(|n| self.envoy(format!("frontend-{n}"), bootstrap.clone()))).await
    }

    async fn envoy(&self, name: String, bootstrap: Value) -> Result<Envoy, MeshError> {
        // The semaphore is never closed; were it, nothing would be lost but the order.
        let _start = self.starts.acquire().await;
        let envoy = Envoy::start(&self.tools.envoy, self.directory, &name, &bootstrap, self.spec.workers).await?;
        self.progress.inc(1);
        Ok(envoy)
    }

    fn plugin(
        &self,
        service: Option<&str>,
        endpoints: Option<&[SocketAddr]>,
        control_plane: Option<SocketAddr>,
    ) -> Option<Plugin> {
        self.spec.policy.routing()?;
        let cluster = CONTROL_PLANE_CLUSTER.to_owned();
        let configuration = PluginSpec {
            service: service.map(Into::into),
            services: self.spec.services(endpoints),
            control_plane: control_plane.map(|_| ControlPlaneSpec { cluster, wait: None }),
        };
        let configuration = serde_json::json!(configuration).to_string();
        Some(Plugin { module: self.tools.module.clone(), configuration, control_plane })
    }

    fn services_file(&self) -> PathBuf {
        self.directory.join("services.yaml")
    }

    /// Writes the services file in one step; JSON is YAML.
    fn write_services(&self, services: &BTreeMap<String, ServiceSpec>) -> Result<(), MeshError> {
        let (file, draft) = (self.services_file(), self.directory.join("services.yaml.new"));
        let text = format!("{:#}\n", serde_json::json!(ServicesSpec { services: services.clone() }));
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(&draft, &file))
            .map_err(|source| file_error(&file, source))
    }
}

fn listeners(envoys: &[Envoy], name: &str) -> Result<Vec<SocketAddr>, MeshError> {
    Ok(envoys.iter().map(|envoy| envoy.listener(name)).collect::<Result<_, _>>()?)
}

fn file_error(path: &Path, source: std::io::Error) -> MeshError {
    MeshError::File { path: path.display().to_string(), source }
}
