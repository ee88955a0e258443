//! The containers of a turn: a process in each that takes memory, and who sets their limits.

use super::super::agent::{AgentProcess, Files, MemoryRule, Pod};
use super::super::figures::{self, Turn};
use super::super::plan::{CONTAINERS, Plan};
use super::super::testbed::Programs;
use super::allocator::MemoryAllocator;
use super::hog::Hog;
use super::plan::{LIMIT, Shape, counts_from, length, shapes};
use super::watch::{self, Seen};
use anyhow::{Context, ensure};
use bloc_mesh::cgroups::{Container, ContainerMemory, Containers, Memory};
use bloc_mesh::process::{Process, Program};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const APP: &str = "hogs";
/// How often it is looked whether a process was killed, or the agent has come.
const POLL: Duration = Duration::from_millis(10);
/// What a container keeps at least.
const REQUESTS: u64 = 32 << 20;
/// A process joins its groups before it is what it will be, so that all it takes counts.
const JOIN: &str = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 1; shift; done; shift; exec \"$@\"";

/// A container.
#[derive(Debug)]
struct Place {
    shape: Shape,
    group: Container,
    memory: ContainerMemory,
    hog: Option<Process>,
    /// Times that the kernel has killed its process.
    kills: u64,
}

/// The containers. What is declared first is dropped first: processes before their groups.
#[derive(Debug)]
struct Stand<'a> {
    agent: Option<AgentProcess>,
    places: Vec<Place>,
    memory: Memory,
    groups: Containers,
    programs: Programs<'a>,
    directory: &'a Path,
    plan: Plan,
    start: Instant,
}

impl<'a> Stand<'a> {
    /// Starts a process in each container, with these limits.
    async fn start(
        programs: Programs<'a>,
        directory: &'a Path,
        plan: Plan,
        limits: Option<&[u64]>,
    ) -> anyhow::Result<Self> {
        let groups = Containers::new()?;
        let memory = Memory::of(&groups)?;
        let (agent, places, start) = (None, Vec::new(), Instant::now());
        let mut stand = Self { agent, places, memory, groups, programs, directory, plan, start };
        for (n, (pod, shape)) in pods().iter().zip(shapes(plan)).enumerate() {
            let group = stand.groups.container(&pod.uid, &pod.id)?;
            let memory = stand.memory.container(&pod.uid, &pod.id)?;
            memory.set_limit(limits.and_then(|limits| limits.get(n)).copied())?;
            stand.places.push(Place { shape, group, memory, hog: None, kills: 0 });
            stand.launch(n).await?;
        }
        Ok(stand)
    }

    /// Starts the process of a container.
    async fn launch(&mut self, n: usize) -> anyhow::Result<()> {
        let place = &mut self.places[n];
        let mut arguments: Vec<OsString> = vec!["-c".into(), JOIN.into(), "hog".into()];
        arguments.extend(place.group.join_files().map(PathBuf::into_os_string));
        arguments.extend([place.memory.join_file().into(), "--".into(), self.programs.lab.into(), "hog".into()]);
        let options = Hog::options(&place.shape, self.start.elapsed());
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]));
        let program = Program { name: format!("hog-{n}"), executable: "/bin/sh".into(), arguments };
        place.hog = Some(Process::start(program, self.directory).await?);
        Ok(())
    }

    /// Starts the agent, and waits until it has changed all limits.
    async fn start_agent(&mut self, limits: &[u64]) -> anyhow::Result<()> {
        let ends = counts_from(self.plan);
        let has_base = |place: &Place| Ok::<bool, anyhow::Error>(place.memory.used()? >= place.shape.base);
        while !self.places.iter().map(has_base).collect::<Result<Vec<_>, _>>()?.iter().all(|has| *has) {
            ensure!(self.start.elapsed() < ends, "the processes do not take their memory");
            sleep(POLL).await;
        }
        for (place, limit) in self.places.iter().zip(limits) {
            // As the kubelet does.
            place.memory.set_limit_of_pod(*limit)?;
        }
        let rule = MemoryRule { limit: LIMIT, requests: REQUESTS, more: self.programs.rule };
        let files = Files::memory(&pods(), rule);
        let folder = Some(self.memory.folder().unwrap_or(self.groups.cpu()));
        let agent =
            AgentProcess::start(self.programs.agent, self.directory, &self.groups, folder, &files, false).await?;
        self.agent = Some(agent);
        loop {
            let now = self.places.iter().map(|place| place.memory.limit()).collect::<Result<Vec<_>, _>>()?;
            if now.iter().zip(limits).all(|(now, first)| *now != Some(*first)) {
                return Ok(());
            }
            ensure!(self.start.elapsed() < ends, "{}: the agent has not changed the limits", self.directory.display());
            sleep(POLL).await;
        }
    }

    /// Waits until the plan is over. Starts processes again that the kernel has killed.
    async fn run(&mut self) -> anyhow::Result<Seen> {
        let containers = self.places.iter().map(|place| place.memory.clone()).collect();
        let watch = watch::start(containers, self.start, self.plan);
        while self.start.elapsed() < length(self.plan) {
            sleep(POLL).await;
            for n in 0..self.places.len() {
                let place = &mut self.places[n];
                let Some(Err(ended)) = place.hog.as_mut().map(Process::check) else { continue };
                let kills = place.memory.kills()?;
                ensure!(kills > place.kills, ended);
                place.kills = kills;
                self.launch(n).await?;
            }
        }
        Ok(watch.finish()?)
    }

    fn kills(&self) -> u64 {
        self.places.iter().map(|place| place.kills).sum()
    }

    /// Ends all of it, the agent first.
    async fn end(self) {
        let Self { agent, places, memory, groups, .. } = self;
        if let Some(agent) = agent {
            agent.end().await;
        }
        for hog in places.into_iter().filter_map(|place| place.hog) {
            hog.kill().await;
        }
        drop(memory);
        drop(groups);
    }
}

fn pods() -> Vec<Pod> {
    (0..CONTAINERS).map(|n| Pod::new(APP, n)).collect()
}

/// The most that each container uses without a limit, in bytes.
///
/// # Errors
/// No groups can be made here; a process does not start, or ends; a file cannot be read.
pub async fn peaks(programs: Programs<'_>, directory: &Path, plan: Plan) -> anyhow::Result<Vec<u64>> {
    let mut stand = Stand::start(programs, directory, plan, None).await?;
    let seen = stand.run().await?;
    stand.end().await;
    Ok(seen.peaks)
}

/// The turn of an allocator, and what was seen in it.
///
/// # Errors
/// As [`peaks`]; the agent does not start, or leaves the limits as they are.
pub async fn turn(
    programs: Programs<'_>,
    directory: &Path,
    plan: Plan,
    allocator: MemoryAllocator,
    peaks: &[u64],
) -> anyhow::Result<(Turn, Seen)> {
    let limits = allocator.limits(peaks);
    let mut stand = Stand::start(programs, directory, plan, Some(&limits)).await?;
    if allocator == MemoryAllocator::Agent {
        stand.start_agent(&limits).await?;
    }
    let cpu = |stand: &mut Stand<'_>| stand.agent.as_mut().map(AgentProcess::cpu).transpose();
    let (before, began) = (cpu(&mut stand)?, Instant::now());
    let seen = stand.run().await.with_context(|| allocator.name())?;
    let (after, lasted) = (cpu(&mut stand)?, began.elapsed());
    let mut turn = figures::of_memory(&seen, stand.kills());
    stand.end().await;
    if let Some((before, after)) = before.zip(after) {
        turn.extend(figures::of_memory_agent(&seen, (after - before).as_secs_f64() / lasted.as_secs_f64()));
    }
    Ok((turn, seen))
}
