//! What the kernel records of a process: CPU time, memory, and the cores on which it may run.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

/// CPU time of all current threads of the process, to the nanosecond. (Envoy's threads last as long
/// as it does; `/proc/ID/stat` counts in steps of 10 ms.)
///
/// # Errors
/// There is no such process, or the kernel does not record this.
pub fn cpu_time(process: u32) -> io::Result<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end between the two calls.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        sum += on_cpu(&text).ok_or_else(|| unreadable("schedstat"))?;
    }
    Ok(sum)
}

/// The first field of `schedstat`: nanoseconds on a core.
fn on_cpu(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The physical memory of the process, in bytes.
///
/// # Errors
/// There is no such process.
pub fn resident(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| unreadable("status"))
}

fn unreadable(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot read {file}"))
}

/// The cores of the parts of a measurement, as `taskset` writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The Envoy that is measured.
    pub measured: String,
    /// The Envoy that answers.
    pub upstream: String,
    /// wrk.
    pub load: String,
}

impl Cores {
    /// The measured Envoy has its own core if there are two; wrk too, if there are three.
    pub fn of(cores: usize) -> Self {
        let (upstream, load) = match cores {
            0 | 1 => (0, 0),
            2 => (1, 1),
            _ => (1, 2),
        };
        Self { measured: "0".into(), upstream: upstream.to_string(), load: load.to_string() }
    }
}

/// Pins all threads of the process to these cores. Threads that they start inherit this.
///
/// # Errors
/// There is no `taskset` (util-linux), no such process, or no such core.
pub async fn pin(process: u32, cores: &str) -> io::Result<()> {
    let output = Command::new("taskset").args(["-acp", cores, &process.to_string()]).output().await?;
    if output.status.success() && Path::new(&format!("/proc/{process}")).exists() {
        return Ok(());
    }
    Err(io::Error::other(format!("taskset -acp {cores}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn measures_the_cpu_time_of_a_busy_process() {
        let began = cpu_time(std::process::id()).unwrap();
        let start = Instant::now();
        while cpu_time(std::process::id()).unwrap() < began + Duration::from_millis(20) {
            assert!(start.elapsed() < Duration::from_secs(20), "no CPU time is seen");
        }
        assert_eq!(on_cpu("359296500 596125611 115\n"), Some(Duration::from_nanos(359_296_500)));
        assert!(cpu_time(u32::MAX).is_err());
    }

    #[test]
    fn counts_touched_memory_as_resident() {
        let before = resident(std::process::id()).unwrap();
        let block = vec![1u8; 64 << 20];
        let after = resident(std::process::id()).unwrap();
        assert!(after >= before + (48 << 20), "{before} {after}");
        assert_eq!(block.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 64 << 20);
    }

    #[tokio::test]
    async fn pins_a_process_to_a_core() {
        let mut child = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
        let id = child.id().unwrap();
        pin(id, "0").await.unwrap();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        assert!(pin(id, "9999").await.is_err());
        child.kill().await.unwrap();
        assert_eq!(Cores::of(2), Cores { measured: "0".into(), upstream: "1".into(), load: "1".into() });
    }
}
