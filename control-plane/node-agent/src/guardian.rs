//! The guardian: a process that starts the agent, and [releases](crate::originals) what the agent
//! has changed if it dies.
//!
//! The agent, its child, writes a byte to its standard output with each step, and reads its
//! standard input. The guardian also releases before the agent starts, so an agent that does not
//! start or does not know the pods yet leaves nothing throttled.
//!
//! | event | effect |
//! |---|---|
//! | SIGTERM, SIGINT | the guardian writes `stop`; the agent releases or restores, and ends |
//! | the agent dies | the guardian releases, and ends with an error |
//! | the agent is silent for [`SILENCE`], or does not stop within [`STOP`] | the guardian kills it, releases, and ends with an error |
//! | the guardian dies | the agent reads the end of its input, releases, and ends |
//! | both die | quotas stay as they are until the next start |
//!
//! In a container the guardian is the first process: if it dies, the kernel ends the agent too.

use crate::agent::STEP;
use crate::cgroup::Tree;
use crate::state::State;
use anyhow::{Context, Result, bail};
use bloc_daemon::process;
use nix::fcntl::{Flock, FlockArg};
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

/// After this silence the agent counts as hung.
pub const SILENCE: Duration = Duration::from_secs(5);
/// How long the agent may take to start, on a node without spare CPU.
pub const START: Duration = Duration::from_secs(30);
/// Attempts to lock, one each 100 ms: the last agent may be ending.
const LOCK_TRIES: u32 = 50;
pub const STOP: Duration = Duration::from_secs(10);
pub const STOP_WORD: &[u8] = b"stop\n";

/// Allows one process for each state directory to change groups.
pub fn lock(directory: &Path, name: &str) -> Result<Flock<File>> {
    std::fs::create_dir_all(directory).with_context(|| format!("{}: cannot be created", directory.display()))?;
    let path = directory.join(name);
    let file = File::create(&path).with_context(|| format!("{}: cannot be created", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, error)) => bail!("{}: another agent uses this state directory: {error}", path.display()),
    }
}

/// Like [`lock`], but waits for a process that is ending.
pub async fn wait_for_lock(directory: &Path, name: &str) -> Result<Flock<File>> {
    for _ in 1..LOCK_TRIES {
        if let Ok(lock) = lock(directory, name) {
            return Ok(lock);
        }
        tokio::time::sleep(STEP).await;
    }
    lock(directory, name)
}

/// Runs the agent with these arguments. An error means that it did not stop as told; its groups are
/// then released.
pub async fn guard(arguments: &[OsString], tree: &Tree, state: &Path) -> Result<()> {
    // This comes first: until then, a container's first process ignores signals.
    let stopped = process::stopped()?;
    let _lock = wait_for_lock(state, "guardian.lock").await?;
    // An agent that lost its guardian may be ending.
    let agents = wait_for_lock(state, "agent.lock").await?;
    if let Err(error) = release(tree, state) {
        tracing::error!(%error, "cannot release what a crash has left");
    }
    drop(agents);
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let mut agent = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A terminal's Ctrl-C is for the guardian.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("the agent cannot be started")?;
    let mut output = agent.stdout.take().context("the agent has no output")?;
    let mut input = agent.stdin.take().context("the agent has no input")?;
    let ended = tokio::select! {
        () = stopped => Ok(()),
        why = silence(&mut output) => Err(why),
    };
    let problem = match ended {
        Err(why) => why.to_owned(),
        Ok(()) => {
            // If the agent is gone, its status says so.
            let _ = input.write_all(STOP_WORD).await;
            match timeout(STOP, agent.wait()).await {
                Ok(Ok(status)) if status.success() => return Ok(()),
                Ok(Ok(status)) => format!("the agent has ended: {status}"),
                Ok(Err(error)) => format!("the agent has ended: {error}"),
                Err(_) => "the agent does not stop".to_owned(),
            }
        }
    };
    // An agent that waits for a disk does not end; its groups are released anyway.
    match timeout(SILENCE, agent.kill()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the agent cannot be killed"),
        Err(_) => tracing::warn!("the agent does not end"),
    }
    release(tree, state).with_context(|| problem.clone())?;
    bail!("{problem}; its groups are released")
}

async fn silence(output: &mut ChildStdout) -> &'static str {
    let (mut beat, mut patience) = ([0; 16], START);
    loop {
        match timeout(patience, output.read(&mut beat)).await {
            Ok(Ok(0) | Err(_)) => return "the agent has died",
            Ok(Ok(_)) => patience = SILENCE,
            Err(_) => return "the agent hangs",
        }
    }
}

fn release(tree: &Tree, state: &Path) -> Result<()> {
    if !tree.is_there() {
        bail!("{}: the directory is gone", tree.path().display());
    }
    let mut state = State::open(state)?;
    if state.is_empty() {
        return Ok(());
    }
    let errors = state.release(tree);
    state.save()?;
    match errors.first() {
        None => Ok(()),
        Some(error) => bail!("{} groups cannot be released, such as {error}", errors.len()),
    }
}
