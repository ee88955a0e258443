//! Starting a mesh in waves, each wave in parallel, and ending it.

use super::counters::{Admins, Counters};
use super::error::{MeshError, file_error};
use super::registry::{self, Registry};
use super::spec::MeshSpec;
use super::tools::Tools;
use crate::envoy::{self, CONTROL_PLANE_CLUSTER, Envoy, Outbound, Plugin, SERVICE};
use crate::http;
use crate::policy::Policy;
use crate::process::{Process, Program};
use bloc_policy::config::{ControlPlaneSpec, PluginSpec};
use futures_util::future::{join_all, try_join_all};
use indicatif::ProgressBar;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

const START_LIMIT: Duration = Duration::from_secs(20);
/// Envoys that start at once, per core: a start is nearly all computing (compiling the module), so that more would only make each
/// other late.
const STARTS_PER_CORE: usize = 4;

/// A mesh that stands; dropping it kills all of it.
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
    /// Something is missing or does not get ready; then nothing is left running.
    pub async fn start(
        spec: &MeshSpec,
        tools: &Tools,
        directory: &Path,
        progress: &ProgressBar,
    ) -> Result<Self, MeshError> {
        tools.need(spec.policy, spec.has_control_plane())?;
        std::fs::create_dir_all(directory).map_err(|source| file_error(directory, source))?;
        let directory = &directory.canonicalize().map_err(|source| file_error(directory, source))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Semaphore::new(STARTS_PER_CORE * cores);
        let builder = Builder { spec, tools, directory, progress, starts };
        let pods = spec.backends + spec.spare;
        progress.set_length((spec.frontends + 2 * pods + 1 + usize::from(spec.has_control_plane())) as u64);
        progress.set_position(0);

        let (backends, control_plane) = tokio::try_join!(builder.backends(), builder.control_plane())?;
        let (backends, apps): (Vec<_>, Vec<_>) = backends.into_iter().unzip();
        let (control_plane, control_plane_address) = control_plane.unzip();
        let sidecars = builder.sidecars(&apps, control_plane_address).await?;
        let registry = Registry::new(spec, directory, listeners(&sidecars, "inbound")?)?;
        registry.announce(spec.backends)?;
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

    /// Where the sidecars of the backends listen, the spare ones' last.
    pub fn endpoints(&self) -> &[SocketAddr] {
        self.registry.endpoints()
    }

    /// The spare backends join: Envoy hears of them through EDS, the filters through the control plane, if there is one.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn join_spare(&self) -> Result<(), MeshError> {
        self.registry.announce(self.apps.len())
    }

    /// From now on each backend is `factor` times as fast as at first.
    ///
    /// # Errors
    /// One does not answer, or refuses.
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

    /// The gauge `name` of `bloc.inbound` in each backend's sidecar; zero where there is none.
    ///
    /// # Errors
    /// One does not answer.
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

    /// Ends everything, clients' side first.
    pub async fn end(self) {
        let envoys = [self.gateway].into_iter().chain(self.frontends).chain(self.sidecars);
        join_all(envoys.map(Envoy::end)).await;
        join_all(self.backends.into_iter().chain(self.control_plane).map(Process::end)).await;
    }
}

/// What every step of a start needs.
pub(super) struct Builder<'a> {
    pub(super) spec: &'a MeshSpec,
    pub(super) tools: &'a Tools,
    pub(super) directory: &'a Path,
    pub(super) progress: &'a ProgressBar,
    pub(super) starts: Semaphore,
}

/// Any free port.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Builder<'_> {
    async fn backends(&self) -> Result<Vec<(Process, SocketAddr)>, MeshError> {
        let all = self.spec.backends + self.spec.spare;
        try_join_all((0..all).map(|n| self.backend(n, ANY))).await
    }

    pub(super) async fn backend(&self, n: usize, listen: SocketAddr) -> Result<(Process, SocketAddr), MeshError> {
        let spec = self.spec;
        let speed = spec.speed(n);
        let name = format!("backend-{n}");
        let options = [
            ("--name", name.clone()),
            ("--listen", listen.to_string()),
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
        registry::write_services(self.directory, &self.spec.services(None))?;
        self.control_plane_at(ANY).await.map(Some)
    }

    pub(super) async fn control_plane_at(&self, listen: SocketAddr) -> Result<(Process, SocketAddr), MeshError> {
        let (source, address) = (registry::services_file(self.directory), self.directory.join("control-plane.address"));
        let _ = std::fs::remove_file(&address);
        let (source, listen) = (format!("file:{}", source.display()), listen.to_string());
        let options = ["--source", &source, "--listen", &listen, "--address-file"];
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
        Ok((process, at))
    }

    async fn sidecars(&self, apps: &[SocketAddr], control_plane: Option<SocketAddr>) -> Result<Vec<Envoy>, MeshError> {
        let plugin = self.plugin(Some(SERVICE), None, control_plane);
        let start = |(n, app): (usize, &SocketAddr)| {
            let mut bootstrap = envoy::sidecar_inbound(*app, plugin.as_ref());
            envoy::add_filters(&mut bootstrap, &self.noop(), &[]);
            self.envoy(format!("sidecar-{n}"), bootstrap)
        };
        try_join_all(apps.iter().enumerate().map(start)).await
    }

    async fn frontends(&self, registry: &Registry, control_plane: Option<SocketAddr>) -> Result<Vec<Envoy>, MeshError> {
        let endpoints = &registry.endpoints()[..self.spec.backends];
        let plugin = self.plugin(None, Some(endpoints), control_plane);
        let balancing = self.spec.balancing();
        let outbound = Outbound { cluster: SERVICE, endpoints, balancing, plugin: plugin.as_ref() };
        let mut bootstrap = envoy::sidecar_outbound(&outbound);
        envoy::add_filters(&mut bootstrap, &self.noop(), &self.noop());
        registry.attach(&mut bootstrap);
        try_join_all((0..self.spec.frontends).map(|n| self.envoy(format!("frontend-{n}"), bootstrap.clone()))).await
    }

    async fn envoy(&self, name: String, mut bootstrap: Value) -> Result<Envoy, MeshError> {
        if let Some(timeout) = self.spec.idle_timeout {
            envoy::close_idle(&mut bootstrap, timeout);
        }
        // The semaphore is never closed; were it, nothing would be lost but the order.
        let _start = self.starts.acquire().await;
        let envoy = Envoy::start(&self.tools.envoy, self.directory, &name, &bootstrap, self.spec.workers).await?;
        self.progress.inc(1);
        Ok(envoy)
    }

    /// A filter that does nothing, where the policy has such.
    fn noop(&self) -> Vec<Value> {
        let wanted = self.spec.policy == Policy::NoopFilters;
        wanted.then(|| envoy::wasm_filter("noop", &self.tools.reference, None)).into_iter().collect()
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
}

fn listeners(envoys: &[Envoy], name: &str) -> Result<Vec<SocketAddr>, MeshError> {
    Ok(envoys.iter().map(|envoy| envoy.listener(name)).collect::<Result<_, _>>()?)
}
