//! The memory of groups: those of [`Containers`], or in v1 groups of the same names in the
//! hierarchy of `memory`. They are removed with [`Memory`].

use super::containers::{CLASS, make, remove_in_the_end, remove_those_of_ended_programs, understood, write};
use super::text::{memory_limit, number_of};
use super::{Containers, GroupError, NoContainers, Place, Version};
use std::path::{Path, PathBuf};

/// The memory of the groups of some containers.
#[derive(Debug)]
pub struct Memory {
    folder: PathBuf,
    version: Version,
}

/// The memory of one container.
#[derive(Clone, Debug)]
pub struct ContainerMemory {
    folder: PathBuf,
    version: Version,
}

impl Memory {
    /// That of these containers. It has to be dropped before them.
    ///
    /// # Errors
    /// This machine limits no memory, or we may not.
    pub fn of(containers: &Containers) -> Result<Self, NoContainers> {
        let version = containers.kind();
        let folder = match version {
            Version::One => {
                let place = Place::of("memory").folder;
                remove_those_of_ended_programs(&place);
                place.join(containers.cpu().file_name().unwrap_or_default())
            }
            Version::Two => containers.cpu().to_owned(),
        };
        let made = Self { folder, version };
        if let (Version::Two, Some(parent)) = (version, made.folder.parent()) {
            made.give_limits_below(parent)?;
        }
        for folder in [made.folder.clone(), made.folder.join(CLASS)] {
            make(&folder)?;
            made.give_limits_below(&folder)?;
        }
        Ok(made)
    }

    /// That of a container, whose group is there already.
    ///
    /// # Errors
    /// The group cannot be made, or has no limit of memory.
    pub fn container(&self, pod: &str, id: &str) -> Result<ContainerMemory, GroupError> {
        let pod = self.folder.join(CLASS).join(format!("pod{pod}"));
        make(&pod)?;
        self.give_limits_below(&pod)?;
        make(&pod.join(id))?;
        let container = ContainerMemory { folder: pod.join(id), version: self.version };
        container.limit()?;
        Ok(container)
    }

    /// The folder of all in the hierarchy of `memory`; none: it is that of the containers.
    pub fn folder(&self) -> Option<&Path> {
        (self.version == Version::One).then_some(&*self.folder)
    }

    fn give_limits_below(&self, folder: &Path) -> Result<(), GroupError> {
        match self.version {
            Version::One => Ok(()),
            Version::Two => write(&folder.join("cgroup.subtree_control"), "+memory"),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.version == Version::One {
            remove_in_the_end(&self.folder);
        }
    }
}

impl ContainerMemory {
    /// A process that writes its id into this file joins it.
    pub fn join_file(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Above this the kernel kills; none: it has no limit.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn limit(&self) -> Result<Option<u64>, GroupError> {
        understood(&self.folder.join(self.limit_file()), memory_limit)
    }

    /// Gives it a limit in bytes; none: no limit.
    ///
    /// # Errors
    /// The file cannot be written; it uses more.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), GroupError> {
        let none = if self.version == Version::One { "-1" } else { "max" };
        let text = bytes.map_or(none.to_owned(), |bytes| bytes.to_string());
        write(&self.folder.join(self.limit_file()), &text)
    }

    /// Gives its pod a limit, as the kubelet does if each container has one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_limit_of_pod(&self, bytes: u64) -> Result<(), GroupError> {
        let folder = self.folder.parent().unwrap_or(&self.folder).to_owned();
        Self { folder, ..self.clone() }.set_limit(Some(bytes))
    }

    /// What it uses, with page cache.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn used(&self) -> Result<u64, GroupError> {
        let file = if self.version == Version::One { "memory.usage_in_bytes" } else { "memory.current" };
        understood(&self.folder.join(file), |text| text.trim().parse().ok())
    }

    /// How many of its processes the kernel has killed.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn kills(&self) -> Result<u64, GroupError> {
        let file = if self.version == Version::One { "memory.oom_control" } else { "memory.events" };
        understood(&self.folder.join(file), |text| number_of(text, "oom_kill"))
    }

    const fn limit_file(&self) -> &'static str {
        match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Process, Program};
    use std::time::Duration;

    /// Takes so much memory that a limit of 16 MiB kills it.
    const GREEDY: &str = "for file in \"$@\"; do echo $$ > \"$file\"; done; head -c 64M /dev/zero | tail";

    #[tokio::test]
    async fn a_container_that_needs_more_than_its_limit_is_killed_and_all_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let containers = Containers::new().unwrap();
        let memory = Memory::of(&containers).unwrap();
        let group = containers.container("a", "b").unwrap();
        let container = memory.container("a", "b").unwrap();
        assert_eq!((container.limit().unwrap(), container.kills().unwrap()), (None, 0));
        container.set_limit_of_pod(64 << 20).unwrap();
        container.set_limit(Some(16 << 20)).unwrap();
        assert_eq!(container.limit().unwrap(), Some(16 << 20));
        let pod = ContainerMemory { folder: container.folder.parent().unwrap().to_owned(), ..container.clone() };
        assert_eq!(pod.limit().unwrap(), Some(64 << 20));
        let mut arguments = vec!["-c".into(), GREEDY.into(), "greedy".into()];
        arguments.extend(group.join_files().map(Into::into));
        arguments.push(container.join_file().into());
        let program = Program { name: "greedy".into(), executable: "/bin/sh".into(), arguments };
        let process = Process::start(program, directory.path()).await.unwrap();
        let mut most = 0;
        for _ in 0..1_000 {
            most = most.max(container.used().unwrap());
            if container.kills().unwrap() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(container.kills().unwrap(), 1);
        assert!(most <= 16 << 20 && most > 0, "{most}");
        process.kill().await;
        container.set_limit(None).unwrap();
        assert_eq!(container.limit().unwrap(), None);
        let folders = [memory.folder(), Some(containers.cpu())].map(|folder| folder.map(Path::to_owned));
        drop(memory);
        assert!(folders[0].as_ref().is_none_or(|folder| !folder.exists()), "{folders:?}");
        drop(containers);
        assert!(folders.iter().flatten().all(|folder| !folder.exists()), "{folders:?}");
    }
}
