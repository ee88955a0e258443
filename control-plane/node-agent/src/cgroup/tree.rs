//! The groups below a directory.

use super::error::GroupError;
use super::file::Kept;
use super::group::Group;
use super::text::Version;
use std::path::{Path, PathBuf};

/// The directories in the cpu, cpuacct and memory hierarchies. In version 2, and in a version 1
/// hierarchy with several controllers, they are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    version: Version,
    cpu: PathBuf,
    cpuacct: PathBuf,
    memory: Option<PathBuf>,
}

/// A file of every version 2 directory and of no version 1 one.
const CONTROLLERS: &str = "cgroup.controllers";
/// A file of every version 1 memory directory.
const MEMORY: &str = "memory.limit_in_bytes";

impl Tree {
    /// The groups below `cgroups`, the directory that the kubelet made for pods. Version 1 also
    /// needs the same directory in the `cpuacct` hierarchy, unless both are one; version 2 ignores
    /// it.
    pub fn open(cgroups: &Path, cpuacct: Option<&Path>) -> Result<Self, GroupError> {
        let refused = |path: &Path, problem, expected| GroupError::Tree { path: path.to_owned(), problem, expected };
        let cpu = cgroups.to_owned();
        let controllers = Kept::new(cgroups.join(CONTROLLERS));
        if controllers.path().exists() {
            let expected = "cpu; write +cpu into cgroup.subtree_control of the directory above";
            let memory = controllers.parse(expected, |text| {
                let has = |name| text.split_whitespace().any(|controller| controller == name);
                has("cpu").then(|| has("memory").then(|| cpu.clone()))
            })?;
            return Ok(Self { version: Version::V2, cpuacct: cpu.clone(), cpu, memory });
        }
        if !cgroups.join("cpu.cfs_quota_us").exists() {
            let expected = "the kubelet's directory of pods, which has the file cgroup.controllers (version 2), \
                or cpu.cfs_quota_us (version 1, in the cpu hierarchy)";
            return Err(refused(cgroups, "is not a directory of control groups with CPU quotas", expected));
        }
        let cpuacct = cpuacct.unwrap_or(cgroups);
        if !cpuacct.join("cpuacct.usage").exists() {
            let expected = "--cpuacct with the same directory in the cpuacct hierarchy, for version 1";
            return Err(refused(cpuacct, "has no file cpuacct.usage", expected));
        }
        let memory = cgroups.join(MEMORY).exists().then(|| cpu.clone());
        Ok(Self { version: Version::V1, cpu, cpuacct: cpuacct.to_owned(), memory })
    }

    /// Adds the same directory in the `memory` hierarchy. Version 1 needs it for memory, unless CPU
    /// has the same one; version 2 ignores it.
    pub fn with_memory(mut self, directory: Option<&Path>) -> Result<Self, GroupError> {
        if let (Version::V1, Some(directory)) = (self.version, directory) {
            if !directory.join(MEMORY).exists() {
                return Err(GroupError::Tree {
                    path: directory.to_owned(),
                    problem: "has no file memory.limit_in_bytes",
                    expected: "the same directory in the memory hierarchy",
                });
            }
            self.memory = Some(directory.to_owned());
        }
        Ok(self)
    }

    pub const fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub const fn version(&self) -> Version {
        self.version
    }

    pub fn path(&self) -> &Path {
        &self.cpu
    }

    /// Whether the directory still exists. If it was removed and recreated, the open one has no
    /// files.
    pub fn is_there(&self) -> bool {
        self.cpu.join("cgroup.procs").exists() || self.cpu.join(CONTROLLERS).exists()
    }

    /// A group, by its path below the tree. Opens nothing.
    pub fn group(&self, path: impl AsRef<Path>) -> Group {
        let path = path.as_ref();
        let memory = self.memory.as_ref().map(|memory| memory.join(path));
        Group::new(self.version, self.cpu.join(path), &self.cpuacct.join(path), memory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::{Bandwidth, Counters};
    use super::*;
    use crate::bytes::Bytes;
    use std::fs;
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
            "CGROUPS/cgroup.controllers: \"cpuset memory\\n\" cannot be parsed; expected: cpu; \
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
            "CGROUPS: has no file cpuacct.usage; \
             expected: --cpuacct with the same directory in the cpuacct hierarchy, for version 1"
        );
        assert_eq!(
            refusal(&both, Some(&folder(&[]))).split_once(": ").unwrap().1,
            "has no file cpuacct.usage; expected: --cpuacct with the same directory in the cpuacct hierarchy, for version 1"
        );
    }

    #[test]
    fn memory_of_version_2_is_a_controller() {
        for (controllers, has) in [("cpu memory\n", true), ("cpu\n", false), ("cpu memory_x\n", false)] {
            let cgroups = folder(&[("cgroup.controllers", controllers)]);
            let tree = Tree::open(cgroups.path(), None).unwrap().with_memory(Some(Path::new("/nowhere"))).unwrap();
            assert_eq!(tree.has_memory(), has, "{controllers}");
        }
    }

    #[test]
    fn memory_of_version_1_is_in_a_directory_of_its_own_or_in_that_of_cpu() {
        const LIMIT: (&str, &str) = ("memory.limit_in_bytes", "4096\n");
        let cpu = [("cpu.cfs_quota_us", "-1\n"), ("cpuacct.usage", "0\n")];
        let (alone, both) = (folder(&cpu), folder(&[&cpu[..], &[LIMIT]].concat()));
        let memory = folder(&[LIMIT]);
        fs::create_dir(memory.path().join("c0")).unwrap();
        fs::write(memory.path().join("c0/memory.limit_in_bytes"), "8192\n").unwrap();
        let open = |cpu: &TempDir| Tree::open(cpu.path(), None).unwrap();
        assert!(!open(&alone).with_memory(None).unwrap().has_memory());
        assert!(open(&both).with_memory(None).unwrap().has_memory());
        for cpu in [&alone, &both] {
            let tree = open(cpu).with_memory(Some(memory.path())).unwrap();
            assert!(tree.has_memory());
            let max = tree.group("c0").memory().unwrap().max;
            assert_eq!(max, Some(Bytes::new(8_192)));
        }
        let error = open(&both).with_memory(Some(alone.path())).unwrap_err().to_string();
        let expected = "has no file memory.limit_in_bytes; expected: the same directory in the memory hierarchy";
        assert_eq!(error, format!("{}: {expected}", alone.path().display()));
    }

    #[test]
    fn a_directory_of_something_else_is_refused() {
        for other in [folder(&[]), folder(&[("memory.usage_in_bytes", "0\n")])] {
            assert_eq!(
                refusal(&other, None),
                "CGROUPS: is not a directory of control groups with CPU quotas; \
                 expected: the kubelet's directory of pods, which has the file cgroup.controllers (version 2), \
                 or cpu.cfs_quota_us (version 1, in the cpu hierarchy)"
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
        let expected = "\"5\\n\" cannot be parsed; expected: a quota and a period in microseconds";
        assert_eq!(group.bandwidth().unwrap_err().to_string(), format!("{}: {expected}", path.display()));
        fs::write(group.path().join("cpu.stat"), "").unwrap();
        let path = group.path().join("cpu.stat");
        let expected = "\"\" cannot be parsed; expected: usage_usec, nr_periods and nr_throttled";
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
        assert!(group.bandwidth().unwrap_err().to_string().contains("cpu.cfs_quota_us: \"-1\" cannot be parsed"));
    }
}
