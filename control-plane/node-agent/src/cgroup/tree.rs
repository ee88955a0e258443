//! The groups below a directory.

use super::error::GroupError;
use super::file::{Kept, write};
use super::text::{Bandwidth, Counters};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the kernel's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// Where the groups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    version: Version,
    cpu: PathBuf,
    /// That of CPU in version 2, and in version 1 if both controllers have one hierarchy.
    cpuacct: PathBuf,
}

/// In every directory of version 2, and in none of version 1.
const CONTROLLERS: &str = "cgroup.controllers";

impl Tree {
    /// The groups below `cgroups`, the directory that the kubelet made for pods, in the version
    /// that is there. Version 1 needs the same directory in the hierarchy of `cpuacct` as well,
    /// unless that is the same hierarchy; version 2 ignores it.
    ///
    /// # Errors
    /// A directory is not one of control groups, or has no quotas or no use of CPU.
    pub fn open(cgroups: &Path, cpuacct: Option<&Path>) -> Result<Self, GroupError> {
        let refused = |path: &Path, problem, expected| GroupError::Tree { path: path.to_owned(), problem, expected };
        let controllers = cgroups.join(CONTROLLERS);
        if controllers.exists() {
            let text = fs::read_to_string(&controllers)
                .map_err(|error| GroupError::Io { path: controllers.clone(), error })?;
            if !text.split_whitespace().any(|controller| controller == "cpu") {
                let expected = "cpu; write +cpu into cgroup.subtree_control of the directory above";
                return Err(GroupError::Text { path: controllers, text, expected });
            }
            return Ok(Self { version: Version::V2, cpu: cgroups.to_owned(), cpuacct: cgroups.to_owned() });
        }
        if !cgroups.join("cpu.cfs_quota_us").exists() {
            let expected = "the kubelet's directory of pods, which has the file cgroup.controllers (version 2), \
                or cpu.cfs_quota_us (version 1, in the hierarchy of cpu)";
            return Err(refused(cgroups, "is no directory of control groups with CPU quotas", expected));
        }
        let (usage, problem, expected) = match cpuacct {
            Some(usage) => (usage, "has no file cpuacct.usage", "the same directory in the hierarchy of cpuacct"),
            None => {
                let problem = "is a directory of version 1 without the file cpuacct.usage";
                (cgroups, problem, "the same directory in the hierarchy of cpuacct, by --cpuacct")
            }
        };
        if !usage.join("cpuacct.usage").exists() {
            return Err(refused(usage, problem, expected));
        }
        Ok(Self { version: Version::V1, cpu: cgroups.to_owned(), cpuacct: usage.to_owned() })
    }

    /// The version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The directory of CPU in which the groups are.
    pub fn path(&self) -> &Path {
        &self.cpu
    }

    /// Whether the directory is still there: whoever removes and makes it again leaves us with one
    /// that has no files.
    pub fn is_there(&self) -> bool {
        self.cpu.join("cgroup.procs").exists() || self.cpu.join(CONTROLLERS).exists()
    }

    /// A group, by its path below the tree. Nothing is opened yet.
    pub fn group(&self, path: impl AsRef<Path>) -> Group {
        let path = path.as_ref();
        let cpu = self.cpu.join(path);
        let kept = |file: &str| Kept::new(cpu.join(file));
        let files = match self.version {
            Version::V1 => Files::V1 {
                quota: kept("cpu.cfs_quota_us"),
                period: kept("cpu.cfs_period_us"),
                usage: Kept::new(self.cpuacct.join(path).join("cpuacct.usage")),
            },
            Version::V2 => Files::V2 { max: kept("cpu.max") },
        };
        Group { stat: kept("cpu.stat"), files, path: cpu }
    }
}

/// A group: a container or a pod.
///
/// Its files stay open. Once it is removed every call fails, and [`GroupError::is_gone`] says so;
/// another group of the same name is another `Group`.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    stat: Kept,
    files: Files,
}

/// What differs between the versions.
#[derive(Debug)]
enum Files {
    V1 { quota: Kept, period: Kept, usage: Kept },
    V2 { max: Kept },
}

impl Group {
    /// Its directory in the hierarchy of CPU.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it may use.
    ///
    /// # Errors
    /// The files cannot be read, or are not understood.
    pub fn bandwidth(&self) -> Result<Bandwidth, GroupError> {
        let (file, text, bandwidth) = match &self.files {
            Files::V2 { max } => {
                let text = max.read()?;
                let bandwidth = Bandwidth::from_max(&text);
                (max, text, bandwidth)
            }
            Files::V1 { quota, period, .. } => {
                let text = quota.read()?;
                let bandwidth = Bandwidth::from_v1(&text, &period.read()?);
                (quota, text, bandwidth)
            }
        };
        bandwidth.ok_or_else(|| {
            let expected = "a quota and a period in microseconds";
            GroupError::Text { path: file.path().to_owned(), text, expected }
        })
    }

    /// Whether it may use CPU later that it has not used. The kernel changes that with each quota.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn has_burst(&self) -> Result<bool, GroupError> {
        let file = match self.files {
            Files::V1 { .. } => "cpu.cfs_burst_us",
            Files::V2 { .. } => "cpu.max.burst",
        };
        match Kept::new(self.path.join(file)).read() {
            Ok(text) => Ok(text.trim() != "0"),
            // Older kernels have none; without a group, its quota says so.
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets what it may use. In version 1 the period stays as it is.
    ///
    /// # Errors
    /// The file cannot be written, or version 1 refuses a quota above that of the group around it,
    /// or below that of one in it.
    pub fn set(&self, bandwidth: Bandwidth) -> Result<(), GroupError> {
        match &self.files {
            Files::V2 { max } => write(max.path(), &bandwidth.to_max()),
            Files::V1 { quota, .. } => write(quota.path(), &bandwidth.to_v1()),
        }
    }

    /// What the kernel has counted.
    ///
    /// # Errors
    /// The files cannot be read, or are not understood.
    pub fn counters(&self) -> Result<Counters, GroupError> {
        let text = self.stat.read()?;
        let usage = match &self.files {
            Files::V2 { .. } => None,
            Files::V1 { usage, .. } => Some(usage.read()?),
        };
        Counters::from_stat(&text, usage.as_deref()).ok_or_else(|| GroupError::Text {
            path: self.stat.path().to_owned(),
            text,
            expected: "usage_usec, nr_periods and nr_throttled",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn refusal(cgroups: &TempDir, cpuacct: Option<&TempDir>) -> String {
        let error = Tree::open(cgroups.path(), cpuacct.map(TempDir::path)).unwrap_err();
        assert!(!error.is_gone());
        let name = |text: String, folder: &TempDir, name| text.replace(&folder.path().display().to_string(), name);
        let text = name(error.to_string(), cgroups, "CGROUPS");
        cpuacct.map_or(text.clone(), |cpuacct| name(text, cpuacct, "CPUACCT"))
    }

    #[test]
    fn version_2_is_known_by_its_controllers_of_which_one_is_cpu() {
        let cgroups = folder(&[("cgroup.controllers", "cpuset cpu io memory pids\n")]);
        for cpuacct in [None, Some(Path::new("/nowhere"))] {
            let tree = Tree::open(cgroups.path(), cpuacct).unwrap();
            assert_eq!((tree.version(), tree.path()), (Version::V2, cgroups.path()));
        }
        let cgroups = folder(&[("cgroup.controllers", "cpuset memory\n")]);
        assert_eq!(
            refusal(&cgroups, None),
            "CGROUPS/cgroup.controllers: \"cpuset memory\\n\" is not understood; expected: cpu; \
             write +cpu into cgroup.subtree_control of the directory above"
        );
    }

    #[test]
    fn version_1_is_known_by_its_quota_and_needs_the_use_of_cpuacct() {
        let (cpu, cpuacct) = (folder(&[("cpu.cfs_quota_us", "-1\n")]), folder(&[("cpuacct.usage", "0\n")]));
        let tree = Tree::open(cpu.path(), Some(cpuacct.path())).unwrap();
        assert_eq!((tree.version(), tree.path()), (Version::V1, cpu.path()));
        let both = folder(&[("cpu.cfs_quota_us", "-1\n"), ("cpuacct.usage", "0\n")]);
        assert_eq!(Tree::open(both.path(), None).unwrap().version(), Version::V1);
        assert_eq!(
            refusal(&cpu, None),
            "CGROUPS: is a directory of version 1 without the file cpuacct.usage; \
             expected: the same directory in the hierarchy of cpuacct, by --cpuacct"
        );
        assert_eq!(
            refusal(&both, Some(&folder(&[]))).split_once(": ").unwrap().1,
            "has no file cpuacct.usage; expected: the same directory in the hierarchy of cpuacct"
        );
    }

    #[test]
    fn a_directory_of_something_else_is_refused() {
        for other in [folder(&[]), folder(&[("memory.usage_in_bytes", "0\n")])] {
            assert_eq!(
                refusal(&other, None),
                "CGROUPS: is no directory of control groups with CPU quotas; \
                 expected: the kubelet's directory of pods, which has the file cgroup.controllers (version 2), \
                 or cpu.cfs_quota_us (version 1, in the hierarchy of cpu)"
            );
        }
    }

    #[test]
    fn a_group_of_version_2_has_one_directory() {
        let root = folder(&[("cgroup.controllers", "cpu\n")]);
        let group = root.path().join("pod1/c0");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.max"), "50000 100000\n").unwrap();
        fs::write(group.join("cpu.stat"), "usage_usec 9\nnr_periods 3\nnr_throttled 2\n").unwrap();
        let group = Tree::open(root.path(), None).unwrap().group("pod1/c0");
        assert_eq!(group.path(), root.path().join("pod1/c0"));
        assert_eq!(group.bandwidth().unwrap(), Bandwidth { quota: Some(50_000), period: 100_000 });
        let counters = Counters { used: Duration::from_micros(9), periods: 3, throttled: 2 };
        assert_eq!(group.counters().unwrap(), counters);
        group.set(Bandwidth { quota: None, period: 50_000 }).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("cpu.max")).unwrap(), "max 50000");
        fs::write(group.path().join("cpu.max"), "5\n").unwrap();
        let path = group.path().join("cpu.max");
        let expected = "\"5\\n\" is not understood; expected: a quota and a period in microseconds";
        assert_eq!(group.bandwidth().unwrap_err().to_string(), format!("{}: {expected}", path.display()));
        fs::write(group.path().join("cpu.stat"), "").unwrap();
        let path = group.path().join("cpu.stat");
        let expected = "\"\" is not understood; expected: usage_usec, nr_periods and nr_throttled";
        assert_eq!(group.counters().unwrap_err().to_string(), format!("{}: {expected}", path.display()));
    }

    #[test]
    fn a_group_of_version_1_has_two_directories() {
        let (cpu, cpuacct) = (folder(&[("cpu.cfs_quota_us", "-1\n")]), folder(&[("cpuacct.usage", "0\n")]));
        for (root, file, text) in [
            (&cpu, "cpu.cfs_quota_us", "25000\n"),
            (&cpu, "cpu.cfs_period_us", "50000\n"),
            (&cpu, "cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 1\n"),
            (&cpuacct, "cpuacct.usage", "9000\n"),
        ] {
            fs::create_dir_all(root.path().join("c0")).unwrap();
            fs::write(root.path().join("c0").join(file), text).unwrap();
        }
        let group = Tree::open(cpu.path(), Some(cpuacct.path())).unwrap().group(Path::new("c0"));
        assert_eq!(group.bandwidth().unwrap(), Bandwidth { quota: Some(25_000), period: 50_000 });
        let counters = Counters { used: Duration::from_micros(9), periods: 3, throttled: 2 };
        assert_eq!(group.counters().unwrap(), counters);
        group.set(Bandwidth { quota: None, period: 100_000 }).unwrap();
        assert_eq!(group.bandwidth().unwrap(), Bandwidth { quota: None, period: 50_000 });
        fs::write(group.path().join("cpu.cfs_period_us"), "0\n").unwrap();
        assert!(group.bandwidth().unwrap_err().to_string().contains("cpu.cfs_quota_us: \"-1\" is not understood"));
    }
}
