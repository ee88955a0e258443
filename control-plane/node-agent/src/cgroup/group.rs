//! A group: a container or a pod.

use super::error::GroupError;
use super::file::{Kept, write};
use super::limits::{Limits, Usage};
use super::memory::Memory;
use super::text::{Bandwidth, Counters};
use super::version::Version;
use super::weight::Weight;
use std::path::{Path, PathBuf};

/// A group: a container or a pod.
///
/// Its files stay open. Once it is removed every call fails, and [`GroupError::is_gone`] says so;
/// another group of the same name is another `Group`.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    stat: Kept,
    files: Files,
    memory: Option<Memory>,
}

/// What differs between the versions.
#[derive(Debug)]
enum Files {
    V1 { quota: Kept, period: Kept, usage: Kept, shares: Kept },
    V2 { max: Kept, weight: Kept },
}

impl Group {
    /// The group with these directories in the hierarchies of CPU, its use and memory. Nothing is
    /// opened yet.
    pub(super) fn new(version: Version, cpu: PathBuf, cpuacct: &Path, memory: Option<PathBuf>) -> Self {
        let kept = |file: &str| Kept::new(cpu.join(file));
        let files = match version {
            Version::V1 => Files::V1 {
                quota: kept("cpu.cfs_quota_us"),
                period: kept("cpu.cfs_period_us"),
                usage: Kept::new(cpuacct.join("cpuacct.usage")),
                shares: kept("cpu.shares"),
            },
            Version::V2 => Files::V2 { max: kept("cpu.max"), weight: kept("cpu.weight") },
        };
        let memory = memory.map(|memory| Memory::new(version, memory));
        Self { stat: kept("cpu.stat"), files, path: cpu, memory }
    }

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
            Files::V2 { max, .. } => {
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
            Files::V2 { max, .. } => write(max.path(), &bandwidth.to_max()),
            Files::V1 { quota, .. } => write(quota.path(), &bandwidth.to_v1()),
        }
    }

    /// What it gets of a CPU for which others wait.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn weight(&self) -> Result<Weight, GroupError> {
        let (file, expected) = match &self.files {
            Files::V1 { shares, .. } => (shares, "2 to 262144"),
            Files::V2 { weight, .. } => (weight, "1 to 10000"),
        };
        let text = file.read()?;
        let weight = match &self.files {
            Files::V1 { .. } => Weight::from_v1(&text),
            Files::V2 { .. } => Weight::from_v2(&text),
        };
        weight.ok_or_else(|| GroupError::Text { path: file.path().to_owned(), text, expected })
    }

    /// Sets what it gets of a CPU for which others wait.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_weight(&self, weight: Weight) -> Result<(), GroupError> {
        let file = match &self.files {
            Files::V1 { shares, .. } => shares,
            Files::V2 { weight, .. } => weight,
        };
        write(file.path(), &weight.get().to_string())
    }

    /// The same, of a group that had these counters, and then was idle. Version 1 has its use in a
    /// file of its own: if that is the same, the other one is not read.
    ///
    /// # Errors
    /// The files cannot be read, or are not understood.
    pub fn counters_after_idling(&self, before: Counters) -> Result<Counters, GroupError> {
        match &self.files {
            Files::V1 { usage, .. } if before.is_usage(&usage.read()?) => Ok(before),
            _ => self.counters(),
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

impl Group {
    /// How much memory it may have.
    ///
    /// # Errors
    /// The files cannot be read, or are not understood, or its tree has no memory.
    pub fn memory(&self) -> Result<Limits, GroupError> {
        self.memory_files()?.limits()
    }

    /// Sets how much memory it may have. The kernel rounds down to pages. Version 1 ignores `high`.
    ///
    /// It may block while the kernel takes cache.
    ///
    /// # Errors
    /// The maximum falls below what is in use: then nothing has changed. Or a file cannot be read
    /// or written, or its tree has no memory.
    pub fn set_memory(&self, limits: Limits) -> Result<(), GroupError> {
        self.memory_files()?.set(limits)
    }

    /// What it uses.
    ///
    /// # Errors
    /// The files cannot be read, or are not understood, or its tree has no memory.
    pub fn memory_usage(&self) -> Result<Usage, GroupError> {
        self.memory_files()?.usage()
    }

    pub(super) fn memory_files(&self) -> Result<&Memory, GroupError> {
        self.memory.as_ref().ok_or_else(|| GroupError::Tree {
            path: self.path().to_owned(),
            problem: "has no memory",
            expected: "memory in cgroup.controllers (version 2), \
                or the same directory in the hierarchy of memory, by --memory (version 1)",
        })
    }
}
