//! The parts of a turn: backends with their sidecars, a neighbour, a control plane, and the node
//! agent.

use super::super::agent::{AgentProcess, Files, Pod, QosRule};
use super::super::burner::Burner;
use super::super::plan::{CONTAINERS, Plan, THREADS, TIMEOUT};
use super::plan::{NEIGHBOUR, QUEUE, REQUESTS, TARGET, THRESHOLD, WORK, arrivals, shares};
use super::watch::{self, Seen, Weights, weights};
use crate::case::HEAD_START;
use crate::experiments::cost::accounting::pin;
use crate::experiments::follow::testbed::{Sidecar, control_plane};
use anyhow::Context;
use bloc_mesh::cgroups::{Container, Containers, GroupError};
use bloc_mesh::envoy::Envoy;
use bloc_mesh::load::{Client, Sample, Tally, at_arrivals};
use bloc_mesh::process::{Process, Program};
use bloc_mesh::{Tools, seeds};
use bloc_policy::config::ServiceSpec;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const APP: &str = "burners";
/// Requests that wait at once; their clients give up before.
const OUTSTANDING: usize = 4_000;
/// Always wants CPU.
const BUSY: &str = "while :; do :; done";

/// The programs.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// Envoy, the module, `bloc-lab` for the backends, and the control plane.
    pub tools: &'a Tools,
    /// `bloc-node-agent`.
    pub agent: &'a Path,
    /// Per cent of the requests that the agent moves in a second.
    pub step: u32,
}

/// The running parts. What is declared first is dropped first: processes before their groups.
#[derive(Debug)]
pub struct Stand<'a> {
    agent: Option<AgentProcess>,
    sidecars: Vec<Envoy>,
    clients: Vec<Arc<Client>>,
    control_plane: Process,
    told: SocketAddr,
    backends: Vec<Process>,
    containers: Vec<Container>,
    neighbour: Container,
    own: Weights,
    groups: Containers,
    programs: Programs<'a>,
    directory: PathBuf,
}

impl<'a> Stand<'a> {
    /// Starts all but the agent. All have the shares that their requests give.
    ///
    /// # Errors
    /// No groups can be made here; a program is missing or does not start.
    pub async fn start(programs: Programs<'a>, directory: &Path, seed: u64) -> anyhow::Result<Self> {
        let tools = programs.tools;
        let groups = Containers::new()?;
        groups.prefer()?;
        let core = last_core().context("no core that this process may use")?;
        let spec = ServiceSpec { hold: Some(false), ..ServiceSpec::default() };
        let (control_plane, told) = control_plane(&tools.control_plane, directory, spec, None).await?;
        let place = async |process: &Process, pod: &Pod, requests| {
            let container = groups.container(&pod.uid, &pod.id)?;
            container.set_shares(shares(requests))?;
            let id = process.id().with_context(|| format!("{} has ended", pod.uid))?;
            container.add(id)?;
            pin(id, &core).await?;
            anyhow::Ok(container)
        };
        let (mut sidecars, mut clients, mut backends, mut containers) = (vec![], vec![], vec![], vec![]);
        for (n, pod) in pods().iter().enumerate() {
            let burner = Burner {
                name: format!("backend-{n}"),
                work: WORK,
                threads: THREADS,
                queue: QUEUE,
                seed: seeds::backend(seed, n),
            };
            let (backend, app) = burner.start(&tools.lab, directory).await?;
            containers.push(place(&backend, pod, REQUESTS).await?);
            backends.push(backend);
            let name = &format!("sidecar-{n}");
            let sidecar = Sidecar { name, pod: &pod.uid, app, control_plane: told, workers: 1 };
            let sidecar = sidecar.start(tools, directory).await?;
            clients.push(Arc::new(Client::new(sidecar.listener("inbound")?, "/", true, TIMEOUT)));
            sidecars.push(sidecar);
        }
        let (pod, executable) = (neighbour(), "/bin/sh".into());
        let program = Program { name: pod.uid.clone(), executable, arguments: vec!["-c".into(), BUSY.into()] };
        backends.push(Process::start(program, directory).await?);
        let neighbour = place(&backends[CONTAINERS], &pod, NEIGHBOUR).await?;
        let (own, directory) = (weights(&containers)?, directory.to_owned());
        Ok(Self {
            agent: None,
            sidecars,
            clients,
            control_plane,
            told,
            backends,
            containers,
            neighbour,
            own,
            groups,
            programs,
            directory,
        })
    }

    /// Starts the agent.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_agent(&mut self) -> anyhow::Result<()> {
        let more = format!("threshold: {THRESHOLD}, step: {}", self.programs.step);
        let rule = QosRule { target: TARGET, requests: REQUESTS, more: &more };
        let files = Files::qos(&pods(), &neighbour(), NEIGHBOUR, rule).telling(Some(self.told));
        let (program, directory) = (self.programs.agent, &self.directory);
        self.agent = Some(AgentProcess::start(program, directory, &self.groups, None, &files, false).await?);
        Ok(())
    }

    /// Sends the requests of a plan, and returns those of each backend.
    ///
    /// # Errors
    /// A process has ended, or a file cannot be read.
    pub async fn load(&mut self, plan: Plan, seed: u64) -> anyhow::Result<(Vec<Vec<Sample>>, Seen)> {
        let start = Instant::now() + HEAD_START;
        let (containers, neighbour) = (self.containers.clone(), self.neighbour.clone());
        let watch = watch::start(containers, neighbour, self.own.clone(), start.into_std(), plan);
        let requests = arrivals(plan, seed).into_iter().zip(&self.clients).map(|(arrivals, client)| {
            let arrivals = arrivals.into_iter().map(|at| (at, Arc::clone(client)));
            at_arrivals(arrivals, plan.warm_up(), OUTSTANDING, start, Arc::<Tally>::default())
        });
        let samples = join_all(requests).await;
        let seen = watch.finish()?;
        self.backends.iter_mut().try_for_each(Process::check)?;
        self.control_plane.check()?;
        self.sidecars.iter_mut().try_for_each(|sidecar| sidecar.process().check())?;
        Ok((samples, seen))
    }

    /// The weights of the containers and their pods, as the files say.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn weights(&self) -> Result<Weights, GroupError> {
        weights(&self.containers)
    }

    /// The clients of the sidecars.
    pub fn clients(&self) -> &[Arc<Client>] {
        &self.clients
    }

    /// The CPU time of the agent's processes until now, if there is an agent.
    ///
    /// # Errors
    /// It has ended.
    pub fn agent_cpu(&mut self) -> anyhow::Result<Option<Duration>> {
        self.agent.as_mut().map(AgentProcess::cpu).transpose()
    }

    /// Ends the agent, if there is one, and counts the containers and pods that do not have their
    /// own shares after that.
    ///
    /// # Errors
    /// A file cannot be read.
    pub async fn end_agent(&mut self) -> anyhow::Result<usize> {
        if let Some(agent) = self.agent.take() {
            agent.end().await;
        }
        Ok(others(&self.weights()?, &self.own))
    }

    /// Ends all of it, the agent first.
    pub async fn end(self) {
        let Self { agent, sidecars, control_plane, backends, groups, .. } = self;
        if let Some(agent) = agent {
            agent.end().await;
        }
        for sidecar in sidecars {
            sidecar.end().await;
        }
        control_plane.end().await;
        for backend in backends {
            backend.kill().await;
        }
        drop(groups);
    }
}

/// Weights that differ.
fn others(now: &Weights, own: &Weights) -> usize {
    now.iter().flatten().zip(own.iter().flatten()).filter(|(now, own)| now != own).count()
}

fn pods() -> Vec<Pod> {
    (0..CONTAINERS).map(|n| Pod::new(APP, n)).collect()
}

/// A pod of another application, with a container id of its own.
fn neighbour() -> Pod {
    Pod { app: "neighbour".to_owned(), uid: "neighbour-0".to_owned(), ..Pod::new("neighbour", CONTAINERS) }
}

/// The last core that this process may use.
fn last_core() -> Option<String> {
    last_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn last_of(status: &str) -> Option<String> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
    let last = list.rsplit([',', '-']).next().filter(|core| !core.is_empty())?;
    Some(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_core_of_a_list() {
        let of = |list: &str| last_of(&format!("Cpus_allowed:\t3\nCpus_allowed_list:\t{list}\n"));
        assert_eq!(["0-1", "0,2-5", "3", "0-2,7"].map(|list| of(list).unwrap()), ["1", "5", "3", "7"]);
        assert_eq!((of(""), last_of("")), (None, None));
        assert!(last_core().is_some());
    }

    #[test]
    fn counts_containers_and_pods_with_other_shares() {
        let own = vec![[100.0, 100.0], [50.0, 60.0]];
        assert_eq!(others(&own, &own), 0);
        assert_eq!(others(&vec![[100.0, 101.0], [49.0, 61.0]], &own), 3);
    }

    #[test]
    fn the_neighbour_is_no_pod_of_the_application() {
        let (pods, other) = (pods(), neighbour());
        assert!(pods.len() == CONTAINERS && pods.iter().all(|pod| pod.app != other.app && pod.id != other.id));
    }
}
