//! A backend that burns CPU, as a process.

use anyhow::Context;
use bloc_mesh::process::{Process, Program};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const START: Duration = Duration::from_secs(10);

/// What it does.
#[derive(Clone, Debug)]
pub struct Burner {
    /// Its name, also of its log.
    pub name: String,
    /// Mean CPU time of a request; it is exponential.
    pub work: Duration,
    /// Requests that it works on at once.
    pub threads: usize,
    /// Requests that wait.
    pub queue: usize,
    /// Of the CPU times.
    pub seed: u64,
}

impl Burner {
    /// Starts it, and returns where it listens.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(self, lab: &Path, directory: &Path) -> anyhow::Result<(Process, SocketAddr)> {
        let Self { name, work, threads, queue, seed } = self;
        let options = [
            ("--name", name.clone()),
            ("--service-time", format!("exponential:{}ms", work.as_millis())),
            ("--concurrency", threads.to_string()),
            ("--queue", queue.to_string()),
            ("--seed", seed.to_string()),
        ];
        let mut arguments: Vec<OsString> = vec!["backend".into(), "--burn".into()];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.into(), value.into()]));
        let program = Program { name: name.clone(), executable: lab.to_owned(), arguments };
        let mut process = Process::start(program, directory).await?;
        let line = process.first_line(START).await?;
        let address = line.strip_prefix("listening ").and_then(|text| text.parse().ok());
        Ok((process, address.with_context(|| format!("{name} says {line:?}"))?))
    }
}
