//! The memory of a group.

use super::error::GroupError;
use super::file::{Kept, write};
use super::limits::{Limits, Usage, cache, is_more, limit, oom_kills, smaller, total};
use super::text::Version;
use crate::bytes::Bytes;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Memory {
    path: PathBuf,
    max: Kept,
    /// Only version 2.
    high: Option<Kept>,
    current: Kept,
    stat: Kept,
    events: Kept,
    words: Words,
}

/// How the texts of the versions differ.
#[derive(Clone, Copy, Debug)]
struct Words {
    unlimited: &'static str,
    inactive: &'static str,
    /// Cache that is not on the disk yet.
    unclean: [&'static str; 2],
}

/// The most page cache that one write of a maximum may reclaim: the writer waits for it.
const CHUNK: Bytes = Bytes::mebi(64);

impl Memory {
    pub(super) fn new(version: Version, path: PathBuf) -> Self {
        let kept = |file: &str| Kept::new(path.join(file));
        let (max, high, current, events, words) = match version {
            Version::V1 => (
                "memory.limit_in_bytes",
                None,
                "memory.usage_in_bytes",
                "memory.oom_control",
                Words { unlimited: "-1", inactive: "total_inactive_file", unclean: ["total_dirty", "total_writeback"] },
            ),
            Version::V2 => (
                "memory.max",
                Some("memory.high"),
                "memory.current",
                "memory.events",
                Words { unlimited: "max", inactive: "inactive_file", unclean: ["file_dirty", "file_writeback"] },
            ),
        };
        let (max, high, current, events) = (kept(max), high.map(kept), kept(current), kept(events));
        Self { max, high, current, stat: kept("memory.stat"), events, words, path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that has the use.
    pub(super) fn current(&self) -> &Path {
        self.current.path()
    }

    /// The file that changes when the kernel throttles or kills.
    pub(super) fn events(&self) -> &Path {
        self.events.path()
    }

    pub(super) fn total(&self) -> Result<Bytes, GroupError> {
        self.current.parse("a number of bytes", total)
    }

    pub(super) fn limits(&self) -> Result<Limits, GroupError> {
        let read = |file: &Kept| file.parse("a number of bytes, or max", limit);
        Ok(Limits { max: read(&self.max)?, high: self.high.as_ref().map_or(Ok(None), read)? })
    }

    pub(super) fn usage(&self) -> Result<Usage, GroupError> {
        let Words { inactive, unclean, .. } = self.words;
        let total = self.total()?;
        let (inactive, clean) = self.stat.parse(inactive, |text| cache(text, inactive, unclean))?;
        Ok(Usage { total, inactive, clean, oom_kills: oom_kills(&self.events.read()?) })
    }

    pub(super) fn set(&self, limits: Limits) -> Result<(), GroupError> {
        let before = self.limits()?;
        if is_more(limits.max, before.max) {
            self.put(&self.max, limits.max)?;
        } else if is_more(before.max, limits.max) {
            let usage = self.usage()?;
            self.allow(limits.max, usage.working_set())?;
            self.reclaim(before, limits, usage)?;
            self.put(&self.max, limits.max).map_err(|error| match (error.is_busy(), limits.max) {
                // Version 1 has reclaimed what it could.
                (true, Some(limit)) => {
                    GroupError::InUse { path: self.max.path().to_owned(), limit, used: self.total().unwrap_or(limit) }
                }
                _ => error,
            })?;
        }
        self.high.as_ref().map_or(Ok(()), |high| self.put(high, limits.high))
    }

    /// Makes the kernel reclaim page cache until the use is below the new maximum, but at most
    /// [`CHUNK`] of clean cache: the next try continues from there. `memory.high` never makes the
    /// kernel kill. `memory.max` does if cache cannot be reclaimed at once, such as before it is on
    /// the disk. Version 1 refuses the write instead.
    fn reclaim(&self, before: Limits, limits: Limits, usage: Usage) -> Result<(), GroupError> {
        let Some(high) = &self.high else { return Ok(()) };
        let part = usage.total - usage.clean.min(CHUNK);
        let wanted = smaller(limits.high, limits.max);
        self.put(high, if is_more(Some(part), limits.max) { Some(part) } else { wanted })?;
        let allowed = self.total().and_then(|total| self.allow(limits.max, total));
        if allowed.is_err() {
            self.put(high, before.high)?;
        }
        allowed
    }

    fn allow(&self, max: Option<Bytes>, used: Bytes) -> Result<(), GroupError> {
        match max {
            Some(limit) if limit < used => Err(GroupError::InUse { path: self.max.path().to_owned(), limit, used }),
            _ => Ok(()),
        }
    }

    fn put(&self, file: &Kept, limit: Option<Bytes>) -> Result<(), GroupError> {
        let text = limit.map_or_else(|| self.words.unlimited.to_owned(), |bytes| bytes.get().to_string());
        write(file.path(), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Group, Tree};
    use std::fs;
    use tempfile::TempDir;

    const MEBI: u64 = 1 << 20;

    fn limits(max: Option<u64>, high: Option<u64>) -> Limits {
        Limits { max: max.map(Bytes::mebi), high: high.map(Bytes::mebi) }
    }

    struct Files(TempDir);

    impl Files {
        /// A group that uses 50 MiB, 10 of them inactive cache, and may use 100.
        fn new(version: Version) -> (Self, Group) {
            let files = Self(tempfile::tempdir().unwrap());
            fs::create_dir(files.0.path().join("c0")).unwrap();
            let (used, hundred) = (format!("{}\n", 50 * MEBI), format!("{}\n", 100 * MEBI));
            match version {
                Version::V1 => {
                    for file in ["../cpu.cfs_quota_us", "../cpuacct.usage", "../memory.limit_in_bytes"] {
                        files.put(file, "0\n");
                    }
                    files.put("memory.limit_in_bytes", &hundred);
                    files.put("memory.usage_in_bytes", &used);
                    files.put("memory.stat", &format!("inactive_file 1\ntotal_inactive_file {}\n", 10 * MEBI));
                    files.put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
                }
                Version::V2 => {
                    files.put("../cgroup.controllers", "cpu memory\n");
                    files.put("memory.max", &hundred);
                    files.put("memory.high", &format!("{}\n", 90 * MEBI));
                    files.put("memory.current", &used);
                    files.put("memory.stat", &format!("anon 1\ninactive_file {}\n", 10 * MEBI));
                    files.put("memory.events", "high 7\noom_kill 3\n");
                }
            }
            let group = Tree::open(files.0.path(), None).unwrap().group("c0");
            (files, group)
        }

        fn path(&self, file: &str) -> PathBuf {
            self.0.path().join("c0").join(file)
        }

        fn put(&self, file: &str, text: &str) {
            fs::write(self.path(file), text).unwrap();
        }

        fn text(&self, file: &str) -> String {
            fs::read_to_string(self.path(file)).unwrap()
        }

        /// Open files can still be read, but not written.
        fn remove(&self, file: &str) {
            fs::remove_file(self.path(file)).unwrap();
        }
    }

    #[test]
    fn reads_limits_and_use_of_both_versions() {
        for (version, high) in [(Version::V1, None), (Version::V2, Some(90))] {
            let (_files, group) = Files::new(version);
            assert_eq!(group.memory().unwrap(), limits(Some(100), high));
            let (cache, clean) = (Bytes::mebi(10), Bytes::mebi(10));
            let usage = Usage { total: Bytes::mebi(50), inactive: cache, clean, oom_kills: 3 };
            assert_eq!(group.memory_usage().unwrap(), usage);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let some = [Some(120), Some(60), None, Some(50)];
        let (files, group) = Files::new(Version::V1);
        for max in some {
            group.set_memory(limits(max, Some(1))).unwrap();
            // The kernel shows another text for no limit.
            let text = max.map_or("-1".to_owned(), |max| (max * MEBI).to_string());
            assert_eq!(files.text("memory.limit_in_bytes"), text);
            if max.is_none() {
                files.put("memory.limit_in_bytes", "9223372036854771712\n");
            }
            assert_eq!(group.memory().unwrap(), limits(max, None));
        }
        let (files, group) = Files::new(Version::V2);
        for max in some {
            for high in some {
                group.set_memory(limits(max, high)).unwrap();
                let text = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| (limit * MEBI).to_string());
                assert_eq!((files.text("memory.max"), files.text("memory.high")), (text(max), text(high)));
                assert_eq!(group.memory().unwrap(), limits(max, high));
            }
        }
    }

    #[test]
    fn a_maximum_that_rises_is_written_before_high_and_one_that_falls_after_it() {
        for (max, written) in [(120, 120), (80, 100)] {
            let (files, group) = Files::new(Version::V2);
            group.memory().unwrap();
            files.remove("memory.high");
            let error = group.set_memory(limits(Some(max), Some(70))).unwrap_err();
            assert!(error.to_string().starts_with(&files.path("memory.high").display().to_string()), "{error}");
            assert_eq!(files.text("memory.max").trim(), (written * MEBI).to_string(), "{max}");
        }
    }

    #[test]
    fn before_a_maximum_falls_high_has_the_kernel_take_cache_down_to_it() {
        for (high, first) in [(None, 80), (Some(90), 80), (Some(70), 70)] {
            let (files, group) = Files::new(Version::V2);
            group.memory().unwrap();
            files.remove("memory.max");
            let error = group.set_memory(limits(Some(80), high)).unwrap_err();
            assert!(error.to_string().starts_with(&files.path("memory.max").display().to_string()), "{error}");
            assert_eq!(files.text("memory.high"), (first * MEBI).to_string(), "{high:?}");
        }
    }

    #[track_caller]
    fn refused(files: &Files, group: &Group, max: u64, used: u64, file: &str) {
        let before = group.memory().unwrap();
        let error = group.set_memory(limits(Some(max), Some(1))).unwrap_err();
        assert!(!error.is_gone());
        let expected = format!("{max}Mi is below what is in use; allowed: {used}Mi and more");
        assert_eq!(error.to_string(), format!("{}: {expected}", files.path(file).display()));
        assert_eq!(group.memory().unwrap(), before, "nothing has changed");
    }

    #[test]
    fn a_maximum_below_what_is_in_use_is_refused_and_nothing_changes() {
        let (files, group) = Files::new(Version::V1);
        refused(&files, &group, 39, 40, "memory.limit_in_bytes");
        // Version 1 itself refuses if it cannot reclaim the cache.
        group.set_memory(limits(Some(40), None)).unwrap();
        let (files, group) = Files::new(Version::V2);
        refused(&files, &group, 39, 40, "memory.max");
        refused(&files, &group, 49, 50, "memory.max");
        group.set_memory(limits(Some(50), Some(1))).unwrap();
        assert_eq!(group.memory().unwrap(), limits(Some(50), Some(1)));
    }

    #[test]
    fn a_maximum_that_does_not_fall_is_never_refused() {
        for version in [Version::V1, Version::V2] {
            let (files, group) = Files::new(version);
            for file in ["memory.current", "memory.usage_in_bytes"] {
                files.put(file, &format!("{}\n", 200 * MEBI));
            }
            for max in [100, 101] {
                group.set_memory(limits(Some(max), Some(50))).unwrap();
                assert_eq!(group.memory().unwrap().max, Some(Bytes::mebi(max)));
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let (files, group) = Files::new(Version::V2);
        for (file, expected) in [
            ("memory.stat", "inactive_file"),
            ("memory.current", "a number of bytes"),
            ("memory.high", "a number of bytes, or max"),
            ("memory.max", "a number of bytes, or max"),
        ] {
            files.put(file, "x\n");
            let error = group.memory_usage().and(group.memory()).map(|_| ()).unwrap_err();
            let expected = format!("\"x\\n\" cannot be parsed; expected: {expected}");
            assert_eq!(error.to_string(), format!("{}: {expected}", files.path(file).display()));
            if file == "memory.current" {
                files.put(file, "1\n");
                files.put("memory.stat", "inactive_file 1\n");
            }
        }
        let (files, group) = Files::new(Version::V1);
        files.put("memory.stat", "inactive_file 1\n");
        let error = group.memory_usage().unwrap_err().to_string();
        assert!(error.ends_with("expected: total_inactive_file"), "{error}");
    }

    #[test]
    fn a_group_of_a_tree_without_memory_has_none() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
        let group = Tree::open(root.path(), None).unwrap().group("c0");
        for error in [
            group.memory().unwrap_err(),
            group.memory_usage().unwrap_err(),
            group.set_memory(limits(None, None)).unwrap_err(),
        ] {
            let expected = "has no memory limits; expected: memory in cgroup.controllers (version 2), or the same \
                directory in the memory hierarchy, by --memory (version 1)";
            assert_eq!(error.to_string(), format!("{}: {expected}", group.path().display()));
        }
    }
}
