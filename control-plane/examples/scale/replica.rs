//! A control plane in a process of its own, so that its memory and CPU can be measured.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

pub struct Replica {
    pub url: String,
    process: Child,
    _directory: TempDir,
}

impl Replica {
    /// Starts one and waits until it is ready.
    pub async fn start(binary: &Path, api: &str, name: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (kubeconfig, address) = (directory.path().join("kubeconfig"), directory.path().join("address"));
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "c", "cluster": {"server": api}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let process = Command::new(binary)
            .args(["--source", "kubernetes", "--listen", "127.0.0.1:0", "--log", "warn", "--address-file"])
            .arg(&address)
            .env("KUBECONFIG", &kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", binary.display()))?;
        let (client, begin) = (reqwest::Client::builder().no_proxy().build()?, Instant::now());
        loop {
            if let Ok(address) = std::fs::read_to_string(&address) {
                let url = format!("http://{}", address.trim());
                if client.get(format!("{url}/readyz")).send().await.is_ok_and(|answer| answer.status().is_success()) {
                    return Ok(Self { url, process, _directory: directory });
                }
            }
            ensure!(begin.elapsed() < Duration::from_secs(60), "{name} does not get ready");
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn proc(&self, file: &str) -> Result<String> {
        let pid = self.process.id().context("it has ended")?;
        Ok(std::fs::read_to_string(format!("/proc/{pid}/{file}"))?)
    }

    /// Resident memory, in MB.
    pub fn memory_mb(&self) -> Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
    }

    /// CPU time used, in seconds.
    pub fn cpu(&self) -> Result<f64> {
        let stat = self.proc("stat")?;
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).context("no CPU time");
        Ok((ticks(11)? + ticks(12)?) / 100.0)
    }

    /// Terminates it as Kubernetes does.
    pub async fn terminate(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.process.id().context("it has ended")?.cast_signed());
        kill(pid, Signal::SIGTERM)?;
        self.process.wait().await?;
        Ok(())
    }
}
