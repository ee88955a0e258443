//! The containers of a turn: a backend in each, and who sets their quotas.

use super::agent::{Agent, Files, Pod, Processes, Rule};
use super::allocator::{Allocator, FLOOR, State};
use super::burner::Burner;
use super::figures::{self, Turn};
use super::plan::{CONTAINERS, LIMIT, Plan, QUEUE, THREADS, TIMEOUT, WORK};
use super::watch::{self, Seen};
use crate::case::HEAD_START;
use anyhow::{Context, ensure};
use bloc_mesh::cgroups::{Container, Containers};
use bloc_mesh::load::{Client, Sample, Tally, at_arrivals};
use bloc_mesh::process::Process;
use bloc_mesh::seeds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const APP: &str = "burners";
const START: Duration = Duration::from_secs(10);
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
    /// Parameters of its rule, as in YAML.
    pub rule: &'a str,
}

/// The containers. What is declared first is dropped first: processes before their groups.
#[derive(Debug)]
pub struct Stand {
    agent: Option<Agent>,
    backends: Vec<Process>,
    clients: Vec<Arc<Client>>,
    containers: Vec<Container>,
    groups: Containers,
}

impl Stand {
    /// Starts a backend in each container, without quotas. The service times have this seed.
    ///
    /// # Errors
    /// No groups can be made here; a backend does not start.
    pub async fn start(lab: &Path, directory: &Path, seed: u64) -> anyhow::Result<Self> {
        let groups = Containers::new()?;
        let (backends, clients, containers) = (Vec::new(), Vec::new(), Vec::new());
        let mut stand = Self { agent: None, backends, clients, containers, groups };
        for (n, pod) in pods().iter().enumerate() {
            let container = stand.groups.container(&pod.uid, &pod.id)?;
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

    /// The processes of the agent, if there is one that a shell starts again.
    pub fn processes(&self) -> Option<Processes> {
        self.agent.as_ref().map(Agent::processes)
    }

    /// Ends the agent, if there is one, and waits until it has released.
    pub async fn end_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    /// Gives each container the quota that it had before an agent. None may run.
    ///
    /// # Errors
    /// The program fails.
    pub async fn restore(&self, agent: &Path, directory: &Path) -> anyhow::Result<()> {
        let mut program = tokio::process::Command::new(agent);
        program.arg("restore").arg("--cgroups").arg(self.groups.cpu()).arg("--state").arg(directory.join("state"));
        if let Some(cpuacct) = self.groups.cpuacct() {
            program.arg("--cpuacct").arg(cpuacct);
        }
        let output = program.output().await.context("bloc-node-agent restore")?;
        ensure!(output.status.success(), "bloc-node-agent restore: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Sets the first quotas, and starts the agent if it is that. With `restarts` it is started
    /// again when it ends.
    ///
    /// # Errors
    /// A quota cannot be set; the agent does not start.
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
            if allocator == Allocator::Agent {
                // As the kubelet does. Others may raise their containers without it, which favours
                // them.
                container.set_quota_of_pod(*quota)?;
            }
        }
        if allocator == Allocator::Agent {
            let rule = Rule { limit: LIMIT, floor: FLOOR, more: programs.rule };
            let files = Files::cpu(&pods(), rule);
            self.agent = Some(Agent::start(programs.agent, directory, &self.groups, None, &files, restarts).await?);
            self.await_other_quotas(quotas).await.with_context(|| directory.display().to_string())?;
        }
        Ok(())
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
        let Self { agent, backends, groups, .. } = self;
        if let Some(agent) = agent {
            agent.end().await;
        }
        for backend in backends {
            backend.kill().await;
        }
        drop(groups);
    }
}

fn pods() -> Vec<Pod> {
    (0..CONTAINERS).map(|n| Pod::new(APP, n)).collect()
}

/// The most that each container uses in 100 ms without any quota, in cores.
///
/// # Errors
/// As [`Stand::start`] and [`Stand::load`].
pub async fn peaks(programs: Programs<'_>, directory: &Path, plan: Plan, seed: u64) -> anyhow::Result<Vec<f64>> {
    let mut stand = Stand::start(programs.lab, directory, seed).await?;
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
    let mut stand = Stand::start(programs.lab, directory, seed).await?;
    let quotas = allocator.quotas(peaks);
    stand.allocate(allocator, &quotas, programs, directory, false).await?;
    let cpu = |stand: &mut Stand| stand.agent.as_mut().map(Agent::cpu).transpose();
    let (before, began) = (cpu(&mut stand)?, Instant::now());
    let (samples, seen) = stand.load(plan, State::new(allocator, &quotas), seed).await?;
    let (after, lasted) = (cpu(&mut stand)?, began.elapsed());
    stand.end().await;
    let mut turn = figures::turn(&samples, &seen);
    if let Some((before, after)) = before.zip(after) {
        turn.extend(figures::of_agent(&seen, (after - before).as_secs_f64() / lasted.as_secs_f64()));
    }
    Ok((turn, seen))
}
