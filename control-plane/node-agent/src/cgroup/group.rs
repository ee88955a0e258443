//! A group: a container or a pod.

use super::error::GroupError;
use super::file::{Kept, write};
use super::limits::{Limits, Usage};
use super::memory::Memory;
use super::text::{Bandwidth, Counters, Version};
use super::weight::Weight;
use std::path::{Path, PathBuf};

const QUOTA: &str = "a quota and a period in microseconds";

/// A group: a container or a pod.
///
/// Its files stay open. Once the group is removed, every call fails and [`GroupError::is_gone`]
/// says so; another group of the same name is another `Group`.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    stat: Kept,
    files: Files,
    memory: Option<Memory>,
}

#[derive(Debug)]
enum Files {
    V1 { quota: Kept, period: Kept, usage: Kept, shares: Kept },
    V2 { max: Kept, weight: Kept },
}

impl Group {
    /// The group with these directories in the cpu, cpuacct and memory hierarchies. Opens nothing.
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bandwidth(&self) -> Result<Bandwidth, GroupError> {
        match &self.files {
            Files::V2 { max, .. } => max.parse(QUOTA, Bandwidth::from_max),
            Files::V1 { quota, period, .. } => {
                let period = period.read()?;
                quota.parse(QUOTA, |quota| Bandwidth::from_v1(quota, &period))
            }
        }
    }

    /// The unused CPU that it may save for later, in microseconds. The kernel refuses a quota below
    /// it. 0: none.
    pub fn burst(&self) -> Result<u64, GroupError> {
        let file = match self.files {
            Files::V1 { .. } => "cpu.cfs_burst_us",
            Files::V2 { .. } => "cpu.max.burst",
        };
        match Kept::new(self.path.join(file)).parse("microseconds", |text| text.trim().parse().ok()) {
            Ok(burst) => Ok(burst),
            // Older kernels do not have the file. Reading the quota shows if the group is gone.
            Err(error) if error.is_gone() => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Version 1 keeps its period, and refuses a quota above that of the parent or below a child's.
    pub fn set(&self, bandwidth: Bandwidth) -> Result<(), GroupError> {
        match &self.files {
            Files::V2 { max, .. } => write(max.path(), &bandwidth.to_max()),
            Files::V1 { quota, .. } => write(quota.path(), &bandwidth.to_v1()),
        }
    }

    pub fn weight(&self) -> Result<Weight, GroupError> {
        match &self.files {
            Files::V1 { shares, .. } => shares.parse("2 to 262144", Weight::from_v1),
            Files::V2 { weight, .. } => weight.parse("1 to 10000", Weight::from_v2),
        }
    }

    pub fn set_weight(&self, weight: Weight) -> Result<(), GroupError> {
        let (Files::V1 { shares: file, .. } | Files::V2 { weight: file, .. }) = &self.files;
        write(file.path(), &weight.get().to_string())
    }

    /// The counters of a group that had `before` and was idle since. Version 1 has the use in a
    /// separate file: if it is unchanged, the other file is not read.
    pub fn counters_after_idling(&self, before: Counters) -> Result<Counters, GroupError> {
        match &self.files {
            Files::V1 { usage, .. } if before.is_usage(&usage.read()?) => Ok(before),
            _ => self.counters(),
        }
    }

    pub fn counters(&self) -> Result<Counters, GroupError> {
        let text = self.stat.read()?;
        let usage = match &self.files {
            Files::V2 { .. } => None,
            Files::V1 { usage, .. } => Some(usage.read()?),
        };
        Counters::from_stat(&text, usage.as_deref()).ok_or_else(|| {
            let expected = "usage_usec, nr_periods and nr_throttled";
            GroupError::Text { path: self.stat.path().to_owned(), text, expected }
        })
    }

    pub fn memory(&self) -> Result<Limits, GroupError> {
        self.memory_files()?.limits()
    }

    /// The kernel rounds limits down to pages, and may block while it reclaims page cache. Version
    /// 1 ignores `high`. Nothing changes if the maximum would fall below what is in use.
    pub fn set_memory(&self, limits: Limits) -> Result<(), GroupError> {
        self.memory_files()?.set(limits)
    }

    pub fn memory_usage(&self) -> Result<Usage, GroupError> {
        self.memory_files()?.usage()
    }

    pub(super) fn memory_files(&self) -> Result<&Memory, GroupError> {
        self.memory.as_ref().ok_or_else(|| GroupError::Tree {
            path: self.path.clone(),
            problem: "has no memory limits",
            expected: "memory in cgroup.controllers (version 2), \
                or the same directory in the memory hierarchy, by --memory (version 1)",
        })
    }
}
