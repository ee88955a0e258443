//! Groups named as the kubelet names those of containers, each with a CPU quota.
//!
//! ```text
//! bloc-quota-<process>-<n>/burstable/pod<uid>/<id>
//! ```
//!
//! In v1 each group exists twice, in the hierarchies of `cpu` and `cpuacct`. All are removed with
//! [`Containers`]; their processes have to have ended before. Groups that a killed program has left
//! are removed by the next one.

use super::text::{CpuCounters, PERIOD, counted, microseconds, quota_of_first, quota_of_second};
use super::{Place, Version};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PREFIX: &str = "bloc-quota-";
pub(super) const CLASS: &str = "burstable";

/// Why no groups can be made here.
#[derive(Debug, thiserror::Error)]
#[error("no cgroups with CPU quotas can be made: {0}; it needs root, and cgroups v1 or v2 that can be written")]
pub struct NoContainers(GroupError);

impl From<GroupError> for NoContainers {
    fn from(error: GroupError) -> Self {
        Self(error)
    }
}

/// A file of a group cannot be read or written, or is not understood.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct GroupError {
    path: PathBuf,
    error: io::Error,
}

/// The groups of some containers. Dropping this removes them.
#[derive(Debug)]
pub struct Containers {
    cpu: PathBuf,
    cpuacct: PathBuf,
    version: Version,
}

/// The group of one container.
#[derive(Clone, Debug)]
pub struct Container {
    pub(super) cpu: PathBuf,
    cpuacct: PathBuf,
    pub(super) version: Version,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> GroupError {
    |error| GroupError { path: path.to_owned(), error }
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), GroupError> {
    fs::write(path, text).map_err(at(path))
}

fn read(path: &Path) -> Result<String, GroupError> {
    fs::read_to_string(path).map_err(at(path))
}

/// Reads a file whose text has to mean something.
pub(super) fn understood<T>(path: &Path, meaning: impl FnOnce(&str) -> Option<T>) -> Result<T, GroupError> {
    let text = read(path)?;
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is not understood"));
    meaning(&text).ok_or_else(|| at(path)(unknown()))
}

pub(super) fn make(path: &Path) -> Result<(), GroupError> {
    match fs::create_dir(path) {
        // Both hierarchies may be one.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(path)(error)),
        _ => Ok(()),
    }
}

impl Containers {
    /// None yet.
    ///
    /// # Errors
    /// This machine has no cgroups with quotas, or we may not make them.
    pub fn new() -> Result<Self, NoContainers> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (cpu, cpuacct) = (Place::of("cpu"), Place::of("cpuacct"));
        for place in [&cpu.folder, &cpuacct.folder] {
            remove_those_of_ended_programs(place);
        }
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let made = Self { cpu: cpu.folder.join(&name), cpuacct: cpuacct.folder.join(&name), version: cpu.version };
        made.give_quotas_below(&cpu.folder)?;
        for folder in [made.cpu.clone(), made.cpuacct.clone()] {
            make(&folder)?;
            made.give_quotas_below(&folder)?;
            make(&folder.join(CLASS))?;
            made.give_quotas_below(&folder.join(CLASS))?;
        }
        // In v1 each group has these files; in v2 only if the controller is there.
        let container = made.container("0", "0")?;
        container.quota()?;
        made.remove("0", "0");
        Ok(made)
    }

    /// A new one in a pod of its own. It has no quota.
    ///
    /// # Errors
    /// The group cannot be made.
    pub fn container(&self, pod: &str, id: &str) -> Result<Container, GroupError> {
        let [cpu, cpuacct] = self.pods(pod);
        for folder in [&cpu, &cpuacct] {
            make(folder)?;
            self.give_quotas_below(folder)?;
            make(&folder.join(id))?;
        }
        Ok(Container { cpu: cpu.join(id), cpuacct: cpuacct.join(id), version: self.version })
    }

    /// The folder of all in the hierarchy of `cpu`.
    pub fn cpu(&self) -> &Path {
        &self.cpu
    }

    /// The folder of all in the hierarchy of `cpuacct`; none: it is the same.
    pub fn cpuacct(&self) -> Option<&Path> {
        (self.cpuacct != self.cpu).then_some(&*self.cpuacct)
    }

    /// The version of the control groups, for reports.
    pub fn version(&self) -> &'static str {
        match self.version {
            Version::One => "v1",
            Version::Two => "v2",
        }
    }

    pub(super) fn kind(&self) -> Version {
        self.version
    }

    fn pods(&self, pod: &str) -> [PathBuf; 2] {
        [&self.cpu, &self.cpuacct].map(|folder| folder.join(CLASS).join(format!("pod{pod}")))
    }

    fn give_quotas_below(&self, folder: &Path) -> Result<(), GroupError> {
        match self.version {
            Version::One => Ok(()),
            Version::Two => write(&folder.join("cgroup.subtree_control"), "+cpu"),
        }
    }

    fn remove(&self, pod: &str, id: &str) {
        for folder in self.pods(pod) {
            let _ = (fs::remove_dir(folder.join(id)), fs::remove_dir(folder));
        }
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for folder in [&self.cpu, &self.cpuacct] {
            remove_in_the_end(folder);
        }
    }
}

/// Removes a group and those below it. A process that has just ended may still be leaving.
pub(super) fn remove_in_the_end(folder: &Path) {
    for _ in 0..200 {
        remove_all(folder);
        if !folder.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Removes a group and those below it, as far as no process is in them.
fn remove_all(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_all(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

pub(super) fn remove_those_of_ended_programs(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(maker) else { continue };
        if !Path::new("/proc").join(process.to_string()).exists() {
            remove_all(&entry.path());
        }
    }
}

/// The process that has made the groups below a folder of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

impl Container {
    /// Moves a process into it.
    ///
    /// # Errors
    /// It has ended, or the kernel refuses.
    pub fn add(&self, process: u32) -> Result<(), GroupError> {
        self.join_files().iter().try_for_each(|file| write(file, &process.to_string()))
    }

    /// A process that writes its id into these files joins it.
    pub fn join_files(&self) -> [PathBuf; 2] {
        [&self.cpu, &self.cpuacct].map(|folder| folder.join("cgroup.procs"))
    }

    /// Its quota in cores; none: it has none.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn quota(&self) -> Result<Option<f64>, GroupError> {
        match self.version {
            Version::One => understood(&self.cpu.join("cpu.cfs_quota_us"), quota_of_first),
            Version::Two => understood(&self.cpu.join("cpu.max"), quota_of_second),
        }
    }

    /// Gives it a quota in cores; none: no quota.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_quota(&self, cores: Option<f64>) -> Result<(), GroupError> {
        self.set(&self.cpu, cores)
    }

    /// Gives its pod a quota in cores, as the kubelet does if each container has a limit.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_quota_of_pod(&self, cores: f64) -> Result<(), GroupError> {
        self.set(self.pod(), Some(cores))
    }

    pub(super) fn pod(&self) -> &Path {
        self.cpu.parent().unwrap_or(&self.cpu)
    }

    /// Lets it use CPU later that it has not used, at most the quota of a period with so many
    /// cores.
    ///
    /// # Errors
    /// The file cannot be written; the quota is smaller.
    pub fn set_burst(&self, cores: f64) -> Result<(), GroupError> {
        let file = match self.version {
            Version::One => "cpu.cfs_burst_us",
            Version::Two => "cpu.max.burst",
        };
        write(&self.cpu.join(file), &microseconds(cores).to_string())
    }

    /// What the kernel has counted.
    ///
    /// # Errors
    /// A file cannot be read, or is not understood.
    pub fn counters(&self) -> Result<CpuCounters, GroupError> {
        let counters = understood(&self.cpu.join("cpu.stat"), counted)?;
        match self.version {
            Version::Two => Ok(counters),
            Version::One => {
                let nanoseconds = |text: &str| text.trim().parse().ok().map(Duration::from_nanos);
                let used = understood(&self.cpuacct.join("cpuacct.usage"), nanoseconds)?;
                Ok(CpuCounters { used, ..counters })
            }
        }
    }

    fn set(&self, folder: &Path, cores: Option<f64>) -> Result<(), GroupError> {
        let quota = cores.map(|cores| microseconds(cores).to_string());
        match self.version {
            Version::One => write(&folder.join("cpu.cfs_quota_us"), quota.as_deref().unwrap_or("-1")),
            Version::Two => {
                let quota = quota.as_deref().unwrap_or("max");
                write(&folder.join("cpu.max"), &format!("{quota} {}", PERIOD.as_micros()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_ended_programs_are_left_overs() {
        assert_eq!((maker("bloc-quota-12-0"), maker("bloc-quota-x-0"), maker("kubepods")), (Some(12), None, None));
    }

    #[test]
    fn groups_that_a_killed_program_has_left_are_removed() {
        let left = [Place::of("cpu"), Place::of("cpuacct")].map(|place| place.folder.join("bloc-quota-4294967295-0"));
        left.iter().for_each(|left| fs::create_dir_all(left.join("burstable/pod0/0")).unwrap());
        let containers = Containers::new().unwrap();
        assert!(left.iter().all(|left| !left.exists()), "{left:?}");
        assert!(containers.cpu().exists() && containers.cpuacct().is_none_or(Path::exists));
        assert_eq!(containers.cpuacct().is_some(), containers.cpu != containers.cpuacct);
        let second = containers.cpu().join("cpu.max").exists();
        assert_eq!(containers.version(), if second { "v2" } else { "v1" });
        let pods = fs::read_dir(containers.cpu().join(CLASS)).unwrap();
        assert_eq!(pods.filter(|pod| pod.as_ref().unwrap().path().is_dir()).count(), 0, "that of the trial is removed");
    }

    #[tokio::test]
    async fn a_container_counts_and_throttles_its_processes_and_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let containers = Containers::new().unwrap();
        let container = containers.container("a", "b").unwrap();
        assert_eq!(container.quota().unwrap(), None);
        container.set_quota_of_pod(0.5).unwrap();
        container.set_quota(Some(0.1)).unwrap();
        container.set_burst(0.1).unwrap();
        assert_eq!(container.quota().unwrap(), Some(0.1));
        let pod = Container { cpu: container.cpu.parent().unwrap().to_owned(), ..container.clone() };
        assert_eq!(pod.quota().unwrap(), Some(0.5));
        let burst = ["cpu.cfs_burst_us", "cpu.max.burst"].map(|file| fs::read_to_string(container.cpu.join(file)).ok());
        assert_eq!(burst.into_iter().flatten().next().unwrap().trim(), "10000");
        container.set_burst(0.0).unwrap();
        container.set_quota(None).unwrap();
        assert_eq!(container.quota().unwrap(), None);
        container.set_quota(Some(0.1)).unwrap();
        let program = crate::process::Program {
            name: "busy".into(),
            executable: "/bin/sh".into(),
            arguments: vec!["-c".into(), "while :; do :; done".into()],
        };
        let process = crate::process::Process::start(program, directory.path()).await.unwrap();
        container.add(process.id().unwrap()).unwrap();
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let counted = container.counters().unwrap();
            if counted.throttled > 0 && counted.used > Duration::ZERO {
                break;
            }
        }
        let counted = container.counters().unwrap();
        assert!(counted.throttled > 0 && counted.periods >= counted.throttled, "{counted:?}");
        assert!(counted.used > Duration::ZERO, "{counted:?}");
        let folders = [Some(containers.cpu()), containers.cpuacct()].map(|folder| folder.map(Path::to_owned));
        process.kill().await;
        drop(containers);
        assert!(folders.iter().flatten().all(|folder| !folder.exists()), "{folders:?}");
    }
}
