//! The folder of this process's control group, for a controller.

use std::fs;
use std::path::{Path, PathBuf};

/// The version of the control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Each controller, or a few together, in a hierarchy of its own.
    One,
    /// One hierarchy.
    Two,
}

/// A folder in which groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// Its version.
    pub version: Version,
}

impl Place {
    /// Where groups with this controller are made on this machine.
    pub fn of(controller: &str) -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        Self::found(controller, &read("/proc/self/mounts"), &read("/proc/self/cgroup"), Path::is_dir)
    }

    /// The same, from the texts of `/proc/self/mounts` and `/proc/self/cgroup`.
    fn found(controller: &str, mounts: &str, own: &str, is_folder: impl Fn(&Path) -> bool) -> Self {
        let among = |list: &str| list.split(',').any(|one| one == controller);
        let mount = |kind: &str, fits: &dyn Fn(&str) -> bool| {
            mounts.lines().find_map(|line| {
                let mut words = line.split(' ').skip(1);
                let (at, of, options) = (words.next()?, words.next()?, words.next()?);
                (of == kind && fits(options)).then(|| PathBuf::from(at))
            })
        };
        if let Some(at) = mount("cgroup", &among) {
            let path = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                among(controllers).then(|| path.trim_start_matches('/'))
            });
            // In a container the path may be the host's.
            let folder = Some(at.join(path.unwrap_or_default())).filter(|folder| is_folder(folder)).unwrap_or(at);
            return Self { folder, version: Version::One };
        }
        let at = mount("cgroup2", &|_| true).unwrap_or_else(|| PathBuf::from("/sys/fs/cgroup"));
        // In v2, processes can be only in groups that give no quotas to groups below; the root is
        // exempt.
        Self { folder: at, version: Version::Two }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "cgroup /g/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /g/unified cgroup2 rw 0 0\n";

    #[test]
    fn a_hierarchy_of_v1_goes_before_v2_and_the_own_group_before_the_root() {
        let place = |controller, own, exists: bool| Place::found(controller, FIRST, own, |_| exists);
        let first = |folder: &str| Place { folder: folder.into(), version: Version::One };
        assert_eq!(place("cpu", "2:cpu,cpuacct:/a/b\n0::/c\n", true), first("/g/cpu,cpuacct/a/b"));
        assert_eq!(place("cpuacct", "2:cpu,cpuacct:/a/b\n", false), first("/g/cpu,cpuacct"));
        assert_eq!(place("cpu", "2:cpuset:/a/b\n", true), first("/g/cpu,cpuacct/"));
        let second = |folder: &str| Place { folder: folder.into(), version: Version::Two };
        assert_eq!(place("memory", "0::/c\n", true), second("/g/unified"));
        assert_eq!(Place::found("cpu", "", "", |_| true), second("/sys/fs/cgroup"));
    }
}
