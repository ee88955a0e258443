//! The parts of a turn: a backend in a container, its sidecar, a control plane and a node agent.

use super::case::Way;
use super::plan::{CORES, QUEUE, THREADS, WORK};
use crate::experiments::quota::agent::{AgentProcess, Files, Pod, Rule};
use crate::experiments::quota::burner::Burner;
use anyhow::{Context, ensure};
use bloc_mesh::cgroups::{Container, Containers};
use bloc_mesh::envoy::{CONTROL_PLANE_CLUSTER, Envoy, Plugin, SERVICE, sidecar_inbound};
use bloc_mesh::process::{Process, Program};
use bloc_mesh::{Tools, seeds};
use bloc_policy::config::{CapacitySpec, ControlPlaneSpec, PluginSpec, ServiceSpec, ServicesSpec};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const APP: &str = "checkout";
/// What the container keeps at least, in cores.
const FLOOR: f64 = 0.02;
const START: Duration = Duration::from_secs(10);
/// How often files and gauges are read.
const POLL: Duration = Duration::from_millis(5);
/// A change that takes longer does not come any more.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The programs.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// Envoy, the module, `bloc-lab` for the backend, and the control plane.
    pub tools: &'a Tools,
    /// `bloc-node-agent`.
    pub agent: &'a Path,
}

/// What differs between turns.
#[derive(Clone, Debug)]
pub struct Order {
    /// Where the capacity comes from.
    pub capacity: CapacitySpec,
    /// Whether the sidecar comes to know the CPU of its pod.
    pub way: Way,
    /// The limit at first, and the container's own quota.
    pub cores: f64,
    /// Of the service times.
    pub seed: u64,
    /// Threads of the sidecar.
    pub workers: usize,
}

impl Order {
    /// With the limit of the plan.
    pub fn new(capacity: CapacitySpec, way: Way, seed: u64) -> Self {
        Self { capacity, way, cores: CORES, seed, workers: 1 }
    }
}

/// The running parts. What is declared first is dropped first: processes before their groups.
#[derive(Debug)]
pub struct Stand {
    agent: Option<AgentProcess>,
    sidecar: Envoy,
    address: SocketAddr,
    control_plane: Process,
    told: Option<SocketAddr>,
    backend: Process,
    container: Container,
    directory: PathBuf,
    groups: Containers,
}

impl Stand {
    /// Starts all of it. The agent has the container under its limit after that.
    ///
    /// # Errors
    /// No groups can be made here; a program is missing or does not start.
    pub async fn start(programs: Programs<'_>, directory: &Path, order: &Order) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let Programs { tools, agent } = programs;
        let groups = Containers::new()?;
        // On a busy machine the backend would not use its quota, and the agent would lower that.
        groups.prefer()?;
        let pod = Pod::new(APP, 0);
        let container = groups.container(&pod.uid, &pod.id)?;
        let burner = Burner {
            name: "backend".to_owned(),
            work: WORK,
            threads: THREADS.into(),
            queue: QUEUE,
            seed: seeds::backend(order.seed, 0),
        };
        let (backend, app) = burner.start(&tools.lab, directory).await?;
        container.add(backend.id().context("the backend has ended")?)?;
        let spec = ServiceSpec {
            capacity: Some(order.capacity.clone()),
            concurrency: Some(THREADS.into()),
            hold: Some(false),
            ..ServiceSpec::default()
        };
        let (control_plane, at) = control_plane(&tools.control_plane, directory, spec, None).await?;
        let sidecar = Sidecar { name: "sidecar", pod: &pod.uid, app, control_plane: at, workers: order.workers };
        let sidecar = sidecar.start(tools, directory).await?;
        let address = sidecar.listener("inbound")?;
        container.set_quota_of_pod(order.cores)?;
        container.set_quota(Some(order.cores))?;
        let (told, directory) = ((order.way == Way::Told).then_some(at), directory.to_owned());
        let mut stand =
            Self { agent: None, sidecar, address, control_plane, told, backend, container, directory, groups };
        let files = stand.files(order.cores);
        stand.agent = Some(AgentProcess::start(agent, &stand.directory, &stand.groups, None, &files, false).await?);
        // It takes over a container only if that uses less than the limit: this one is idle yet,
        // and so loses some of its quota.
        stand.quota(|quota| quota < order.cores * 0.9).await.context("the agent changes nothing")?;
        Ok(stand)
    }

    /// Where the sidecar listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn files(&self, limit: f64) -> Files {
        Files::cpu(&[Pod::new(APP, 0)], Rule { limit, floor: FLOOR, more: "" }).telling(self.told)
    }

    /// Changes the application's limit in the agent's configuration.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn limit(&self, cores: f64) -> anyhow::Result<()> {
        self.files(cores).write(&self.directory)
    }

    /// Waits for such a quota, in cores, and returns when it was there.
    ///
    /// # Errors
    /// It does not come, or the file cannot be read.
    pub async fn quota(&self, is_right: impl Fn(f64) -> bool) -> anyhow::Result<Instant> {
        let ends = Instant::now() + PATIENCE;
        loop {
            let quota = self.container.quota()?.unwrap_or(f64::INFINITY);
            let now = Instant::now();
            if is_right(quota) {
                return Ok(now);
            }
            ensure!(now < ends, "the quota is {quota} for {PATIENCE:?}");
            sleep(POLL).await;
        }
    }

    /// The capacity in force; 0: no limit.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub async fn capacity(&self) -> anyhow::Result<u64> {
        let gauge = format!("wasmcustom.bloc.inbound.{SERVICE}.capacity");
        Ok(self.sidecar.stats(&gauge).await?.get(&gauge).copied().unwrap_or(0))
    }

    /// Waits for such a capacity, and returns when it was there.
    ///
    /// # Errors
    /// It does not come, or Envoy does not answer.
    pub async fn capacity_is(&self, is_right: impl Fn(u64) -> bool) -> anyhow::Result<Instant> {
        let ends = Instant::now() + PATIENCE;
        loop {
            let capacity = self.capacity().await?;
            let now = Instant::now();
            if is_right(capacity) {
                return Ok(now);
            }
            ensure!(now < ends, "the capacity is {capacity} for {PATIENCE:?}");
            sleep(POLL).await;
        }
    }

    /// Whether all parts still run.
    ///
    /// # Errors
    /// One has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        for process in [&mut self.backend, &mut self.control_plane, self.sidecar.process()] {
            process.check()?;
        }
        Ok(())
    }

    /// Ends the agent, which gives the container its own quota back.
    pub async fn end_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.end().await;
        }
    }

    /// Stops the agent, but not its guardian.
    ///
    /// # Errors
    /// There is none.
    pub fn hang_agent(&self) -> anyhow::Result<()> {
        self.agent.as_ref().context("no agent runs")?.hang()
    }

    /// Ends all of it, the agent first.
    pub async fn end(mut self) {
        self.end_agent().await;
        let Self { sidecar, control_plane, backend, groups, .. } = self;
        sidecar.end().await;
        control_plane.end().await;
        backend.kill().await;
        drop(groups);
    }
}

/// The sidecar of a pod in the namespace of the agent's files.
#[derive(Clone, Copy, Debug)]
pub struct Sidecar<'a> {
    /// Of its files.
    pub name: &'a str,
    /// Of the pod.
    pub pod: &'a str,
    /// Where the application listens.
    pub app: SocketAddr,
    /// Where the control plane listens.
    pub control_plane: SocketAddr,
    /// Its threads.
    pub workers: usize,
}

impl Sidecar<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(self, tools: &Tools, directory: &Path) -> anyhow::Result<Envoy> {
        let configuration = PluginSpec {
            service: Some(SERVICE.to_owned()),
            control_plane: Some(ControlPlaneSpec { cluster: CONTROL_PLANE_CLUSTER.to_owned(), wait: None }),
            ..PluginSpec::default()
        };
        let configuration = json!(configuration).to_string();
        let plugin = Plugin { module: tools.module.clone(), configuration, control_plane: Some(self.control_plane) };
        let mut bootstrap = sidecar_inbound(self.app, Some(&plugin));
        // As Istio names them.
        bootstrap["node"] = json!({"id": format!("sidecar~127.0.0.1~{}.lab~lab.svc.cluster.local", self.pod)});
        Ok(Envoy::start(&tools.envoy, directory, self.name, &bootstrap, self.workers).await?)
    }
}

/// Starts a control plane that says this about the service, and returns where it listens. With a
/// file it leases parts of CPU limits to nodes.
///
/// # Errors
/// It does not start.
pub async fn control_plane(
    program: &Path,
    directory: &Path,
    spec: ServiceSpec,
    leases: Option<&Path>,
) -> anyhow::Result<(Process, SocketAddr)> {
    let services = ServicesSpec { services: BTreeMap::from([(SERVICE.to_owned(), spec)]) };
    let (source, written) = (directory.join("services.yaml"), directory.join("control-plane.address"));
    fs::write(&source, json!(services).to_string()).context("services.yaml")?;
    let mut arguments = vec!["--source".into(), format!("file:{}", source.display()).into()];
    // The CPU time of a request is computed from reports.
    arguments.extend(["--report-interval", "1s", "--listen", "127.0.0.1:0", "--address-file"].map(OsString::from));
    arguments.push(written.clone().into());
    if let Some(leases) = leases {
        arguments.extend(["--leases".into(), leases.into()]);
    }
    let program = Program { name: "control-plane".to_owned(), executable: program.to_owned(), arguments };
    let mut process = Process::start(program, directory).await?;
    let address = process.written(&written, START, |text| text.parse().ok()).await?;
    Ok((process, address))
}
