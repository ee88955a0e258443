//! Limits the CPU of some processes: a cgroup with a quota, like a container's CPU limit.
//!
//! Supports cgroup v1 (`cpu.cfs_quota_us`) and v2 (`cpu.max`). Making a cgroup needs root. It is
//! removed with [`Throttle`], after the processes have moved back to their old cgroup.

use crate::cgroups::{Place, Version};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel's period: a process that has used its quota is stopped until the next period.
const PERIOD: Duration = Duration::from_millis(100);

/// Processes with limited CPU. Dropping this removes the limit.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    home: PathBuf,
}

/// Why no process can be throttled here.
#[derive(Debug, thiserror::Error)]
#[error("no cgroup with a CPU quota can be made in {}: {source}; it needs root", folder.display())]
pub struct CannotThrottle {
    /// The folder in which it was tried.
    folder: PathBuf,
    /// Why not.
    source: io::Error,
}

impl Throttle {
    /// From now on the processes with these ids get `share` of one processor together, 0.01 to 1.
    ///
    /// # Errors
    /// This machine has no cgroups with quotas, or we may not make them.
    pub fn new(processes: &[u32], share: f64) -> Result<Self, CannotThrottle> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let Place { folder, version } = Place::of("cpu");
        let failed = |source| CannotThrottle { folder: folder.clone(), source };
        let name = format!("bloc-lab-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let group = folder.join(name);
        let (period, quota) = (PERIOD.as_micros(), PERIOD.mul_f64(share).as_micros());
        fs::create_dir(&group).map_err(failed)?;
        let throttle = Self { group, home: folder.clone() };
        let set = |file: &str, text: String| fs::write(throttle.group.join(file), text).map_err(failed);
        if version == Version::Two {
            set("cpu.max", format!("{quota} {period}"))?;
        } else {
            set("cpu.cfs_period_us", period.to_string())?;
            set("cpu.cfs_quota_us", quota.to_string())?;
        }
        for process in processes {
            set("cgroup.procs", process.to_string())?;
        }
        Ok(throttle)
    }

    /// Whether a process can be throttled here.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check() -> Result<(), CannotThrottle> {
        // Tries it on this process, with next to no effect: the quota is a whole processor.
        Self::new(&[std::process::id()], 1.0).map(drop)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        for process in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), process);
        }
        // A process that has just ended may still be leaving.
        for _ in 0..100 {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Process, Program};

    /// The CPU time of a process that only loops.
    #[tokio::test]
    async fn a_throttled_process_gets_only_its_share_until_released() {
        let directory = tempfile::tempdir().unwrap();
        let program = Program {
            name: "busy".into(),
            executable: "/bin/sh".into(),
            arguments: vec!["-c".into(), "while :; do :; done".into()],
        };
        let process = Process::start(program, directory.path()).await.unwrap();
        let id = process.id().unwrap();
        let used = || {
            let stat = fs::read_to_string(format!("/proc/{id}/schedstat")).unwrap();
            stat.split(' ').next().unwrap().parse::<u64>().unwrap()
        };
        let throttle = Throttle::new(&[id], 0.05).unwrap();
        let group = throttle.group.clone();
        let before = used();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let share = (used() - before) as f64 / 2e9;
        // A busy machine makes the share smaller. Only the kernel's time slices make it larger.
        assert!(share < 0.2, "{share}");
        drop(throttle);
        assert!(!group.exists());
        let before = used();
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if used() - before > 500_000_000 {
                return;
            }
        }
        panic!("it is still throttled");
    }
}
