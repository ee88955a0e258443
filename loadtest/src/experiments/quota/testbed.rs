//! The containers of a turn: a backend in each, and who sets their quotas.

use super::agent::{AgentProcess, Files, Pod, Processes, Rule};
use super::allocator::{Allocator, FLOOR, State};
use super::burner::Burner;
use super::figures::{self, Turn};
use super::plan::{CONTAINERS, LIMIT, Plan, QUEUE, THREADS, TIMEOUT, WORK};
use super::watch::{self, Seen};
use crate::case::HEAD_START;
use crate::experiments::follow::testbed::control_plane;
use anyhow::{Context, ensure};
use bloc_mesh::cgroups::{Container, Containers};
use bloc_mesh::load::{Client, Sample, Tally, at_arrivals};
use bloc_mesh::process::Process;
use bloc_mesh::seeds;
use bloc_policy::config::ServiceSpec;
use nix::unistd::Pid;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const APP: &str = "burners";
/// A record of leases is new for 10 s.
const START: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Requests that wait at once; all queues together hold less.
const OUTSTANDING: usize = 4_000;

/// The programs.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// `bloc-lab`, whose `backend` command is the application.
    pub lab: &'a Path,
    /// `bloc-node-agent`.
    pub agent: &'a Path,
    /// `bloc-control-plane`.
    pub control_plane: &'a Path,
    /// Parameters of its rule, as in YAML.
    pub rule: &'a str,
}

/// The containers. What is declared first is dropped first: processes before their groups.
#[derive(Debug)]
pub struct Stand {
    agents: Vec<AgentProcess>,
    control_plane: Option<Process>,
    backends: Vec<Process>,
    clients: Vec<Arc<Client>>,
    containers: Vec<Container>,
    /// Those of each node.
    groups: Vec<Containers>,
}

impl Stand {
    /// Starts a backend in each container, without quotas, on one node after the other. The service
    /// times have this seed.
    ///
    /// # Errors
    /// No groups can be made here; a backend does not start.
    pub async fn start(lab: &Path, directory: &Path, seed: u64, nodes: usize) -> anyhow::Result<Self> {
        let groups = (0..nodes).map(|_| Containers::new()).collect::<Result<Vec<_>, _>>()?;
        let (agents, backends, clients, containers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut stand = Self { agents, control_plane: None, backends, clients, containers, groups };
        for (n, pod) in pods().iter().enumerate() {
            let container = stand.groups[n % nodes].container(&pod.uid, &pod.id)?;
            let burner = Burner {
                name: format!("backend-{n}"),
                work: WORK,
                threads: THREADS,
                queue: QUEUE,
                seed: seeds::backend(seed, n),
            };
            let (backend, address) = burner.start(lab, directory).await?;
            container.add(backend.id().with_context(|| format!("backend-{n} has ended"))?)?;
            stand.clients.push(Arc::new(Client::new(address, "/", true, TIMEOUT)));
            stand.backends.push(backend);
            stand.containers.push(container);
        }
        Ok(stand)
    }

    /// The containers.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// The process of the control plane, if there is one.
    pub fn control_plane(&self) -> Option<Pid> {
        let id = self.control_plane.as_ref()?.id()?;
        Some(Pid::from_raw(id.cast_signed()))
    }

    /// The clients of the backends.
    pub fn clients(&self) -> &[Arc<Client>] {
        &self.clients
    }

    /// The processes of the agent, if there is one that a shell starts again.
    pub fn processes(&self) -> Option<Processes> {
        self.agents.first().map(AgentProcess::processes)
    }

    /// Ends the agents, if there are any, and waits until they have released.
    pub async fn end_agents(&mut self) {
        for agent in self.agents.drain(..) {
            agent.stop().await;
        }
    }

    /// Gives each container the quota that it had before an agent. None may run.
    ///
    /// # Errors
    /// The program fails.
    pub async fn restore(&self, agent: &Path, directory: &Path) -> anyhow::Result<()> {
        for (node, groups) in self.groups.iter().enumerate() {
            let mut program = tokio::process::Command::new(agent);
            let state = self.of_node(directory, node).join("state");
            program.arg("restore").arg("--cgroups").arg(groups.cpu()).arg("--state").arg(state);
            if let Some(cpuacct) = groups.cpuacct() {
                program.arg("--cpuacct").arg(cpuacct);
            }
            let output = program.output().await.context("bloc-node-agent restore")?;
            ensure!(output.status.success(), "bloc-node-agent restore: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Where the files of a node's agent are.
    fn of_node(&self, directory: &Path, node: usize) -> PathBuf {
        if self.groups.len() == 1 { directory.to_owned() } else { directory.join(node_name(node)) }
    }

    /// Sets the first quotas, and starts the agents if they do. With `restarts` they are started
    /// again when they end.
    ///
    /// # Errors
    /// A quota cannot be set; an agent or the control plane does not start.
    pub async fn allocate(
        &mut self,
        allocator: Allocator,
        quotas: &[f64],
        programs: Programs<'_>,
        directory: &Path,
        restarts: bool,
    ) -> anyhow::Result<()> {
        for (container, quota) in self.containers.iter().zip(quotas) {
            container.set_quota(Some(*quota))?;
            if let Some(burst) = allocator.burst() {
                container.set_burst(burst)?;
            }
            if allocator.has_agent() {
                // As the kubelet does. Others may raise their containers without it, which favours
                // them.
                container.set_quota_of_pod(*quota)?;
            }
        }
        if !allocator.has_agent() {
            return Ok(());
        }
        let leases = allocator == Allocator::NodesLeases;
        let told = if leases { Some(self.start_control_plane(programs.control_plane, directory).await?) } else { None };
        let limit = if leases { LIMIT } else { LIMIT / self.groups.len() as f64 };
        let more = [programs.rule, if leases { "over: cluster" } else { "" }];
        let more = more.into_iter().filter(|more| !more.is_empty()).collect::<Vec<_>>().join(", ");
        let rule = Rule { limit, floor: FLOOR, more: &more };
        for (node, groups) in self.groups.iter().enumerate() {
            let place = self.of_node(directory, node);
            std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
            let pods: Vec<Pod> = pods().into_iter().skip(node).step_by(self.groups.len()).collect();
            let files = Files::cpu(&pods, rule).telling(told).on(&node_name(node));
            self.agents.push(AgentProcess::start(programs.agent, &place, groups, None, &files, restarts).await?);
        }
        self.await_other_quotas(quotas).await.with_context(|| directory.display().to_string())
    }

    /// Starts a control plane that leases parts of the limit, and returns where it listens.
    async fn start_control_plane(&mut self, program: &Path, directory: &Path) -> anyhow::Result<SocketAddr> {
        let leases = directory.join("leases.json");
        let (process, address) = control_plane(program, directory, ServiceSpec::default(), Some(&leases)).await?;
        self.control_plane = Some(process);
        Ok(address)
    }

    /// Containers are idle when the agent finds them.
    async fn await_other_quotas(&self, quotas: &[f64]) -> anyhow::Result<()> {
        let ends = Instant::now() + START;
        loop {
            let now = self.containers.iter().map(Container::quota).collect::<Result<Vec<_>, _>>()?;
            if now.iter().zip(quotas).all(|(now, first)| *now != Some(*first)) {
                return Ok(());
            }
            ensure!(Instant::now() < ends, "the agent has not changed the quotas within {START:?}");
            sleep(POLL).await;
        }
    }

    /// Sends the requests of a plan; the rest is up to `state`.
    ///
    /// # Errors
    /// A process has ended, a file cannot be read or written.
    pub async fn load(&mut self, plan: Plan, state: State, seed: u64) -> anyhow::Result<(Vec<Sample>, Seen)> {
        let clients = &self.clients;
        let arrivals = plan.arrivals(seed);
        let arrivals = arrivals.into_iter().map(|(at, container)| (at, Arc::clone(&clients[container])));
        let start = Instant::now() + HEAD_START;
        let watch = watch::start(self.containers.clone(), state, start.into_std(), plan);
        let samples = at_arrivals(arrivals, plan.warm_up(), OUTSTANDING, start, Arc::<Tally>::default()).await;
        let seen = watch.finish()?;
        self.backends.iter_mut().try_for_each(Process::check)?;
        Ok((samples, seen))
    }

    /// Ends all of it, the agent first.
    pub async fn end(self) {
        let Self { agents, control_plane, backends, groups, .. } = self;
        for agent in agents {
            agent.end().await;
        }
        if let Some(control_plane) = control_plane {
            control_plane.end().await;
        }
        for backend in backends {
            backend.kill().await;
        }
        drop(groups);
    }
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn pods() -> Vec<Pod> {
    (0..CONTAINERS).map(|n| Pod::new(APP, n)).collect()
}

/// The most that each container uses in 100 ms without any quota, in cores.
///
/// # Errors
/// As [`Stand::start`] and [`Stand::load`].
pub async fn peaks(programs: Programs<'_>, directory: &Path, plan: Plan, seed: u64) -> anyhow::Result<Vec<f64>> {
    let mut stand = Stand::start(programs.lab, directory, seed, 1).await?;
    // It sets nothing.
    let state = State::new(Allocator::Static, &[0.0; CONTAINERS]);
    let (_, seen) = stand.load(plan, state, seed).await?;
    stand.end().await;
    Ok(seen.peaks)
}

/// The turn of an allocator, and what was seen in it.
///
/// # Errors
/// As [`Stand::start`], [`Stand::allocate`] and [`Stand::load`].
pub async fn turn(
    programs: Programs<'_>,
    directory: &Path,
    plan: Plan,
    seed: u64,
    allocator: Allocator,
    peaks: &[f64],
) -> anyhow::Result<(Turn, Seen)> {
    let mut stand = Stand::start(programs.lab, directory, seed, allocator.nodes()).await?;
    let quotas = allocator.quotas(peaks);
    stand.allocate(allocator, &quotas, programs, directory, false).await?;
    let cpu = |stand: &mut Stand| stand.agents.iter_mut().map(AgentProcess::cpu).collect::<anyhow::Result<Vec<_>>>();
    let (before, began) = (cpu(&mut stand)?, Instant::now());
    let (samples, seen) = stand.load(plan, State::new(allocator, &quotas), seed).await?;
    let (after, lasted) = (cpu(&mut stand)?, began.elapsed());
    stand.end().await;
    let mut turn = figures::turn(&samples, &seen);
    if allocator.has_agent() {
        turn.extend(figures::of_agent(&seen, most(&before, &after).div_duration_f64(lasted)));
    }
    Ok((turn, seen))
}

/// The CPU time of the agent that used the most: a bound is about one node.
fn most(before: &[Duration], after: &[Duration]) -> Duration {
    after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_that_of_the_agent_that_used_the_most() {
        let [before, after] = [[10, 20], [15, 23]].map(|both| both.map(Duration::from_millis));
        assert_eq!(most(&before, &after), Duration::from_millis(5));
        assert_eq!(most(&[], &[]), Duration::ZERO);
    }
}
