//! A child process as a guard.
//!
//! A [`Process`] ends when it is dropped, and also when this program is killed and cannot clean up,
//! because util-linux's `setpriv --pdeathsig KILL` starts it. The kernel sends that signal when the
//! *thread* that started the child ends. So one thread starts them all, which lasts as long as the
//! program. Output goes to a log file, and every error includes the end of that file.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

/// The time of a process between SIGTERM and SIGKILL. Envoy needs some 0.1 s, more when forty of
/// them end at once.
const GRACE: Duration = Duration::from_secs(3);
/// How often to look for a file that a child writes.
const FILE_POLL: Duration = Duration::from_millis(20);
/// How many lines of the log an error shows.
const TAIL_LINES: usize = 15;

/// What can go wrong with a child process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("{name}: cannot start {program}: {source}")]
    Start {
        /// The process.
        name: String,
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// It ended although it should still run.
    #[error("{name} ended with {status}; its log {log} ends with:\n{tail}")]
    Ended {
        /// The process.
        name: String,
        /// How it ended.
        status: String,
        /// Its log file.
        log: String,
        /// The last lines of the log.
        tail: String,
    },
    /// It was not ready in time.
    #[error("{name}: no {awaited} within {limit:?}; its log {log} ends with:\n{tail}")]
    Late {
        /// The process.
        name: String,
        /// The awaited event.
        awaited: String,
        /// How long it was awaited.
        limit: Duration,
        /// Its log file.
        log: String,
        /// The last lines of the log.
        tail: String,
    },
}

/// A program to start.
#[derive(Debug)]
pub struct Program {
    /// Its name in errors and of its log file; unique within its run directory.
    pub name: String,
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A running child; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `program`. Its standard error goes to `<directory>/<name>.log`.
    ///
    /// # Errors
    /// The log cannot be written, or the program (or `setpriv`) cannot be started.
    pub async fn start(program: Program, directory: &Path) -> Result<Self, ProcessError> {
        let Program { name, executable, arguments } = program;
        let shown = executable.display().to_string();
        let failed = |source| ProcessError::Start { name: name.clone(), program: shown.clone(), source };
        if !executable.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, "there is no such file")));
        }
        let log = directory.join(format!("{name}.log"));
        let stderr = File::create(&log).map_err(failed)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&executable).args(&arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        // Its own process group: Ctrl-C reaches only this program, which ends the children in
        // order.
        command.process_group(0).kill_on_drop(true);
        let mut child = spawn(command).await.map_err(failed)?;
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Self { name, log, child, stdout })
    }

    /// Its name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The first line that it prints on standard output.
    ///
    /// # Errors
    /// It ends, or stays silent for `limit`.
    pub async fn first_line(&mut self, limit: Duration) -> Result<String, ProcessError> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            let _ = timeout(limit, stdout.read_line(&mut line)).await;
        }
        if line.ends_with('\n') {
            return Ok(line.trim_end().to_owned());
        }
        // End of file comes shortly before the exit status.
        let _ = timeout(Duration::from_millis(200), self.child.wait()).await;
        self.check()?;
        Err(self.late("line on standard output", limit))
    }

    /// The text of a file that the child writes, once it ends with a complete word. Envoy and the
    /// control plane write their address this way.
    ///
    /// # Errors
    /// It ends, or the file does not hold `accept`able text within `limit`.
    pub async fn written<T>(
        &mut self,
        file: &Path,
        limit: Duration,
        accept: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ProcessError> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(value) = std::fs::read_to_string(file).ok().and_then(|text| accept(text.trim())) {
                return Ok(value);
            }
            self.check()?;
            sleep(FILE_POLL).await;
        }
        Err(self.late(&format!("usable {}", file.display()), limit))
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] with the end of its log.
    pub fn check(&mut self) -> Result<(), ProcessError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status.to_string())),
            Err(error) => Err(self.ended(error.to_string())),
        }
    }

    /// The error for an event that did not happen in time.
    pub fn late(&self, awaited: &str, limit: Duration) -> ProcessError {
        ProcessError::Late {
            name: self.name.clone(),
            awaited: awaited.to_owned(),
            limit,
            log: self.log.display().to_string(),
            tail: self.tail(),
        }
    }

    /// Sends SIGTERM, waits up to a limit, sends SIGKILL. Returns how it ended, if the system
    /// reports it.
    pub async fn end(mut self) -> Option<ExitStatus> {
        self.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(GRACE, self.child.wait()).await {
            return status.ok();
        }
        self.kill().await
    }

    /// SIGKILL at once, as a crash would.
    pub async fn kill(mut self) -> Option<ExitStatus> {
        let _ = self.child.start_kill();
        timeout(GRACE, self.child.wait()).await.ok()?.ok()
    }

    /// SIGKILL at once, after which another process can take its place. Returns when the system has
    /// removed it with all its sockets.
    pub async fn crash(&mut self) {
        let _ = self.child.start_kill();
        let _ = timeout(GRACE, self.child.wait()).await;
    }

    /// Sends a signal if it still runs.
    pub fn signal(&self, signal: Signal) {
        // The id exists only until the child has been waited for, so it cannot belong to another
        // process.
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    fn ended(&self, status: String) -> ProcessError {
        ProcessError::Ended { name: self.name.clone(), status, log: self.log.display().to_string(), tail: self.tail() }
    }

    fn tail(&self) -> String {
        let text =
            std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let shown: Vec<String> =
            lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| format!("  {line}")).collect();
        if shown.is_empty() { "  (nothing)".to_owned() } else { shown.join("\n") }
    }
}

impl Drop for Process {
    /// Kills the child and waits briefly for its end, so that nothing is left when the program
    /// returns.
    fn drop(&mut self) {
        if self.child.start_kill().is_err() {
            return;
        }
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // `drop` cannot await an event. A killed process ends within a few of these.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs the command on the thread that lasts as long as the program.
async fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (jobs, inbox) = mpsc::channel::<Job>();
        std::thread::spawn(move || inbox.into_iter().for_each(|job| job()));
        jobs
    });
    let (answer, started) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let job: Job = Box::new(move || {
        let _guard = runtime.enter();
        let _ = answer.send(command.spawn());
    });
    let gone = |_| io::Error::other("the thread that starts processes is gone");
    starter.send(job).map_err(|e| gone(e.to_string()))?;
    started.await.map_err(|e| gone(e.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Program {
        Program { name: name.into(), executable: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] }
    }

    fn runs(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[tokio::test]
    async fn a_dropped_process_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = Process::start(shell("sleeper", "echo up; exec sleep 60"), directory.path()).await.unwrap();
        assert_eq!(process.first_line(Duration::from_secs(5)).await.unwrap(), "up");
        let id = process.id().unwrap();
        assert!(runs(id));
        drop(process);
        assert!(!runs(id));
    }

    #[tokio::test]
    async fn kills_a_process_that_ignores_sigterm() {
        let directory = tempfile::tempdir().unwrap();
        let mut process =
            Process::start(shell("deaf", "trap '' TERM; echo up; while :; do sleep 1; done"), directory.path())
                .await
                .unwrap();
        process.first_line(Duration::from_secs(5)).await.unwrap();
        let id = process.id().unwrap();
        process.end().await;
        assert!(!runs(id));
    }

    #[tokio::test]
    async fn an_early_end_shows_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let mut process =
            Process::start(shell("broken", "echo why it failed >&2; exit 3"), directory.path()).await.unwrap();
        let error = process.first_line(Duration::from_secs(5)).await.unwrap_err().to_string();
        assert!(error.contains("broken ended with exit status: 3") && error.contains("why it failed"), "{error}");
    }
}
