//! wrk, with one thread, on its own core.

use bloc_policy::wire::bid::ANY;
use bloc_policy::wire::headers::BID;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The header by which a request seems to come from a caller's sidecar. Without it `bloc.inbound`
/// writes no report.
pub const AS_A_SIDECAR: [(&str, &str); 1] = [(BID, ANY)];
const SCRIPT: &str = include_str!("../../../wrk/cost.lua");
/// The mean pause of a connection when the load is below saturation. It is much longer than the
/// answers, so the rate hardly depends on them, and ten times the shortest pause that wrk can time.
const THINK: Duration = Duration::from_millis(10);

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// wrk did not start, or `taskset` before it.
    #[error("wrk: {0}; where it is missing: sudo apt-get update && sudo apt-get install -y wrk")]
    Start(#[from] std::io::Error),
    /// wrk's output is not as expected.
    #[error("wrk: {status}: {said}")]
    Answer {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its output.
        said: String,
    },
    /// Some requests were not answered with success, so the others mean nothing.
    #[error("{failed} of {requests} requests failed")]
    Failed {
        /// All requests.
        requests: u64,
        /// Requests with an error, or with a status of 400 or above.
        failed: u64,
    },
}

/// The results of wrk.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Seen {
    /// Answered requests.
    pub requests: u64,
    failed: u64,
    duration_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Seen {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 * 1e6 / self.duration_us
    }

    /// The median response time in milliseconds.
    pub fn p50_ms(&self) -> f64 {
        self.p50_us / 1e3
    }

    /// The 99th percentile in milliseconds.
    pub fn p99_ms(&self) -> f64 {
        self.p99_us / 1e3
    }
}

/// wrk, set up for this measurement.
#[derive(Clone, Debug)]
pub struct Wrk {
    script: PathBuf,
    cores: String,
}

impl Wrk {
    /// wrk on these cores; its script is written to `directory`.
    ///
    /// # Errors
    /// The script cannot be written.
    pub fn new(directory: &Path, cores: &str) -> std::io::Result<Self> {
        let script = directory.join("cost.lua");
        std::fs::write(&script, SCRIPT)?;
        Ok(Self { script, cores: cores.to_owned() })
    }

    /// Sends as many requests as `connections` can, one at a time each.
    ///
    /// # Errors
    /// wrk does not run, or a request fails.
    pub async fn saturate(&self, to: SocketAddr, connections: usize, time: Duration) -> Result<Seen, LoadError> {
        self.run(to, connections, time, None).await
    }

    /// Sends about `rate` requests per second, from connections that pause for 10 ms on average.
    ///
    /// # Errors
    /// wrk does not run, or a request fails.
    pub async fn paced(&self, to: SocketAddr, rate: f64, time: Duration) -> Result<Seen, LoadError> {
        // `as` saturates; a rate is some tens of thousands.
        let connections = (rate * THINK.as_secs_f64()).round() as usize;
        self.run(to, connections.max(1), time, Some(THINK)).await
    }

    async fn run(
        &self,
        to: SocketAddr,
        connections: usize,
        time: Duration,
        think: Option<Duration>,
    ) -> Result<Seen, LoadError> {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cores, "wrk", "--threads", "1", "--timeout", "20s"]);
        command.args(["--connections", &connections.to_string(), "--duration", &format!("{}s", time.as_secs().max(1))]);
        command.args(AS_A_SIDECAR.iter().flat_map(|(name, value)| ["--header".into(), format!("{name}: {value}")]));
        command.arg("--script").arg(&self.script).arg(format!("http://{to}/"));
        if let Some(think) = think {
            command.env("THINK_MS", think.as_millis().to_string());
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let seen = said.lines().last().and_then(|line| serde_json::from_str::<Seen>(line).ok());
        match seen.filter(|seen| output.status.success() && seen.requests > 0) {
            Some(Seen { requests, failed, .. }) if failed > 0 => Err(LoadError::Failed { requests, failed }),
            Some(seen) => Ok(seen),
            None => {
                let said = said + &String::from_utf8_lossy(&output.stderr);
                Err(LoadError::Answer { status: output.status, said: said.trim().to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A server that answers every request with this status.
    async fn server(status: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    while stream.read(&mut request).await.is_ok_and(|size| size > 0) {
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn wrk_counts_and_paces_requests_and_reports_failures() {
        let directory = tempfile::tempdir().unwrap();
        let wrk = Wrk::new(directory.path(), "0").unwrap();
        let second = Duration::from_secs(1);
        let good = server("200 OK").await;
        let seen = wrk.saturate(good, 2, second).await.unwrap();
        assert!(seen.requests > 0 && seen.rate() > 0.0 && seen.p99_ms() >= seen.p50_ms(), "{seen:?}");
        // One connection that pauses for 10 ms on average; a busy machine makes it fewer.
        let paced = wrk.paced(good, 100.0, second).await.unwrap();
        assert!((1..=250).contains(&paced.requests), "{paced:?}");
        let refused = wrk.saturate(server("503 Service Unavailable").await, 2, second).await;
        assert!(matches!(refused, Err(LoadError::Failed { requests, failed }) if failed == requests), "{refused:?}");
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(wrk.saturate(nobody, 2, second).await, Err(LoadError::Answer { .. })));
    }
}
