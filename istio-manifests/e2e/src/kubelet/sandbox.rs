//! The namespaces of a pod, and its virtual cable to the node's bridge.

use crate::api::PATIENCE;
use crate::cluster::NODE;
use crate::inside::{program, script};
use crate::node::BRIDGE;
use crate::programs::start;
use anyhow::{Context, Result, ensure};
use bloc_mesh::process::Process;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The namespaces of a pod; when they are dropped, all their programs end.
#[derive(Debug)]
pub struct Sandbox {
    process: u32,
    _pause: Process,
}

impl Sandbox {
    /// Makes namespaces with this address.
    ///
    /// # Errors
    /// They cannot be made.
    pub async fn start(name: &str, logs: &Path, address: Ipv4Addr) -> Result<Self> {
        let unshare = program("unshare")?.display().to_string();
        let pause =
            [&unshare, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sleep", "infinity"];
        let pause = start(&format!("{name}-pause"), logs, pause).await?;
        let process = pause.id().context("the pause program has ended")?;
        // The process is first setpriv, then a shell, then unshare, which enters the namespaces.
        // `pid_for_children` appears with its first child.
        let own = std::fs::read_link("/proc/self/ns/pid")?;
        let theirs = || std::fs::read_link(format!("/proc/{process}/ns/pid_for_children"));
        let deadline = Instant::now() + PATIENCE;
        while theirs().map_or(true, |theirs| theirs == own) {
            ensure!(Instant::now() < deadline, "{name}: no namespaces");
            sleep(Duration::from_millis(5)).await;
        }
        let sandbox = Self { process, _pause: pause };
        let last = address.octets()[3];
        let cable = format!("pod{}-{last}", address.octets()[2]);
        script(&format!(
            "ip link add {cable} type veth peer name eth0 netns {process}
             ip link set {cable} master {BRIDGE}
             ip link set {cable} up"
        ))?;
        sandbox.script(&format!(
            "ip link set lo up
             ip addr add {address}/16 dev eth0
             ip link set eth0 up
             ip route add default via {NODE}"
        ))?;
        Ok(sandbox)
    }

    /// The prefix that runs a command in these namespaces.
    pub fn enter(&self) -> Vec<String> {
        let process = self.process;
        ["nsenter", "--mount", "--net", "--target"]
            .map(str::to_owned)
            .into_iter()
            .chain([process.to_string(), format!("--pid=/proc/{process}/ns/pid_for_children"), "--".to_owned()])
            .collect()
    }

    /// Starts a program inside; output in `<logs>/<name>.log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn run(&self, name: &str, logs: &Path, command: &[String]) -> Result<Process> {
        start(name, logs, self.enter().into_iter().chain(command.iter().cloned())).await
    }

    /// Runs a shell script inside.
    ///
    /// # Errors
    /// A step failed; the message has its output.
    pub fn script(&self, text: &str) -> Result<()> {
        script(&format!("{} /bin/sh -euc '{}'", self.enter().join(" "), text.replace('\'', r"'\''")))
    }
}
