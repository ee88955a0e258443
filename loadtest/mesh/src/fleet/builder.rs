//! Starts the parts of a mesh; parts of the same kind start in parallel.

use super::error::{MeshError, file_error};
use super::registry::{self, Registry};
use super::spec::MeshSpec;
use super::tools::Tools;
use crate::envoy::{self, CONTROL_PLANE_CLUSTER, Envoy, Listeners, Outbound, Plugin, SERVICE};
use crate::http;
use crate::policy::Policy;
use crate::process::{Process, Program};
use crate::seeds;
use bloc_policy::config::{ControlPlaneSpec, PluginSpec};
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a part may take to get ready.
pub(super) const START_LIMIT: Duration = Duration::from_secs(20);
/// Envoys that start at once, per core. A start is nearly all computing (compiling the module), so
/// more of them would only delay each other.
const STARTS_PER_CORE: usize = 4;

/// What every step of a start needs.
pub(super) struct Builder<'a> {
    spec: &'a MeshSpec,
    tools: &'a Tools,
    directory: &'a Path,
    progress: &'a ProgressBar,
    starts: Semaphore,
}

/// Any free port.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a MeshSpec, tools: &'a Tools, directory: &'a Path, progress: &'a ProgressBar) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Semaphore::new(STARTS_PER_CORE * cores);
        Self { spec, tools, directory, progress, starts }
    }

    pub(super) async fn backends(&self) -> Result<Vec<(Process, SocketAddr)>, MeshError> {
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
            ("--seed", seeds::backend(spec.seed, n).to_string()),
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

    pub(super) async fn control_plane(&self) -> Result<Option<(Process, SocketAddr)>, MeshError> {
        if !self.spec.has_control_plane() {
            return Ok(None);
        }
        // The endpoints are the sidecars, which need the control plane's address first. The control
        // plane reads them from the file later.
        let services = if self.spec.drain.is_none() { self.spec.services(None) } else { [].into() };
        registry::write_services(self.directory, &services)?;
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

    pub(super) async fn sidecars(
        &self,
        apps: &[SocketAddr],
        control_plane: Option<SocketAddr>,
    ) -> Result<Vec<Envoy>, MeshError> {
        let plugin = self.plugin(Some(SERVICE), None, control_plane);
        let start = |(n, app): (usize, &SocketAddr)| {
            let mut bootstrap = envoy::sidecar_inbound(*app, plugin.as_ref());
            envoy::add_filters(&mut bootstrap, &self.noop(), &[]);
            self.envoy(format!("sidecar-{n}"), bootstrap)
        };
        try_join_all(apps.iter().enumerate().map(start)).await
    }

    pub(super) async fn frontends(
        &self,
        registry: &Registry,
        control_plane: Option<SocketAddr>,
    ) -> Result<Vec<Envoy>, MeshError> {
        let endpoints = &registry.endpoints()[..self.spec.backends];
        let plugin = self.plugin(None, Some(endpoints), control_plane);
        let balancing = self.spec.balancing();
        let outbound = Outbound { cluster: SERVICE, endpoints, balancing, plugin: plugin.as_ref() };
        let mut bootstrap = envoy::sidecar_outbound(&outbound);
        envoy::add_filters(&mut bootstrap, &self.noop(), &self.noop());
        if let Some(guard) = self.spec.guard {
            guard.attach(&mut bootstrap, SERVICE);
        }
        registry.attach(&mut bootstrap);
        try_join_all((0..self.spec.frontends).map(|n| self.envoy(format!("frontend-{n}"), bootstrap.clone()))).await
    }

    pub(super) async fn envoy(&self, name: String, mut bootstrap: Value) -> Result<Envoy, MeshError> {
        if let Some(timeout) = self.spec.idle_timeout {
            envoy::close_idle(&mut bootstrap, timeout);
        }
        let mut options = Vec::new();
        if let Some(drain) = self.spec.drain {
            let listeners = Listeners::of(self.directory, &name);
            listeners.attach(&mut bootstrap).map_err(|source| file_error(listeners.file(), source))?;
            options.extend(["--drain-time-s".to_owned(), drain.as_secs().to_string()]);
        }
        // The semaphore is never closed. If it were, only the order would be lost.
        let _start = self.starts.acquire().await;
        let (envoy, workers) = (&self.tools.envoy, self.spec.workers);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let envoy = Envoy::start_with(envoy, self.directory, &name, &bootstrap, workers, &options).await?;
        self.progress.inc(1);
        Ok(envoy)
    }

    /// A filter that does nothing, if the policy has one.
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
            ..PluginSpec::default()
        };
        let configuration = serde_json::json!(configuration).to_string();
        Some(Plugin { module: self.tools.module.clone(), configuration, control_plane })
    }
}

/// The addresses of the listeners of this name.
pub(super) fn listeners(envoys: &[Envoy], name: &str) -> Result<Vec<SocketAddr>, MeshError> {
    Ok(envoys.iter().map(|envoy| envoy.listener(name)).collect::<Result<_, _>>()?)
}
