//! What the agent costs on a full node: ten applications of seven containers, most of them idle.

use super::agent::{AgentProcess, Files, Pod, Rule};
use super::figures::{Figure, Turn};
use super::testbed::Programs;
use anyhow::Context;
use bloc_mesh::cgroups::Containers;
use bloc_mesh::process::{Process, Program};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const APPS: usize = 10;
const EACH: usize = 7;
/// Of an application, in cores; and the least that a container keeps.
const LIMIT: f64 = 2.0;
const FLOOR: f64 = 0.02;
/// In this time the agent comes to know them.
const SETTLES: Duration = Duration::from_secs(3);
/// One of each application works now and then, so that there is something to decide.
const BUSY: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.5; done";

/// The containers. What is declared first is dropped first.
struct Node {
    agent: Option<AgentProcess>,
    processes: Vec<Process>,
    groups: Containers,
}

/// The CPU of the agent, during such a time.
///
/// # Errors
/// No groups can be made here; a process does not start, or ends.
pub async fn cost(programs: Programs<'_>, directory: &Path, window: Duration) -> anyhow::Result<Turn> {
    let mut node = Node { agent: None, processes: Vec::new(), groups: Containers::new()? };
    let pods: Vec<Pod> = (0..APPS).flat_map(|app| (0..EACH).map(move |n| Pod::new(&format!("app-{app}"), n))).collect();
    for (number, pod) in pods.iter().enumerate() {
        let container = node.groups.container(&pod.uid, &pod.id)?;
        let quota = LIMIT / EACH as f64;
        container.set_quota_of_pod(quota)?;
        container.set_quota(Some(quota))?;
        let (executable, arguments) = match number % EACH {
            0 => ("/bin/sh", vec!["-c".into(), BUSY.into()]),
            _ => ("/bin/sleep", vec!["infinity".into()]),
        };
        let program = Program { name: pod.uid.clone(), executable: executable.into(), arguments };
        let process = Process::start(program, directory).await?;
        container.add(process.id().with_context(|| format!("{} has ended", pod.uid))?)?;
        node.processes.push(process);
    }
    let rule = Rule { limit: LIMIT, floor: FLOOR, more: programs.rule };
    let files = Files::cpu(&pods, rule);
    let agent =
        node.agent.insert(AgentProcess::start(programs.agent, directory, &node.groups, None, &files, false).await?);
    sleep(SETTLES).await;
    let (before, began) = (agent.cpu()?, Instant::now());
    sleep(window).await;
    let cpu = (agent.cpu()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    node.end().await;
    Ok(Turn::from([(Figure::AgentCpu, cpu)]))
}

impl Node {
    async fn end(self) {
        let Self { agent, processes, groups } = self;
        if let Some(agent) = agent {
            agent.end().await;
        }
        // Dropping kills them.
        drop(processes);
        drop(groups);
    }
}
