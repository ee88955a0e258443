//! The memory of the kernel's groups.

use crate::sandbox::{PATIENCE, Sandbox};
use crate::taker::Taker;
use crate::{per_group, seventy};
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::cgroup::{Alarms, Group, GroupError, Limits, Usage, Version};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NONE: Limits = Limits { max: None, high: None };

/// So many MiB at most, and `high`, which version 1 does not have.
fn limits(version: Version, max: u64, high: u64) -> Limits {
    Limits { max: Some(Bytes::mebi(max)), high: (version == Version::V2).then_some(Bytes::mebi(high)) }
}

/// Waits until the use of a group is as wanted.
#[track_caller]
fn until(group: &Group, wanted: impl Fn(&Usage) -> bool) -> Usage {
    let began = Instant::now();
    loop {
        let usage = group.memory_usage().unwrap();
        if wanted(&usage) {
            return usage;
        }
        assert!(began.elapsed() < PATIENCE, "{usage:?} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn limits_of_memory_are_what_was_written_last_whoever_wrote_it() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    assert!(sandbox.tree().has_memory());
    let group = sandbox.make("pod1");
    assert_eq!(group.memory().unwrap(), NONE);
    // Whole pages of any size: the kernel rounds down.
    let odd = Bytes::new((64 << 20) + (3 << 16));
    let odd = Limits { max: Some(odd), high: (version == Version::V2).then_some(odd) };
    for limits in [
        limits(version, 64, 48),
        limits(version, 32, 24),
        odd,
        NONE,
        limits(version, 1 << 26, 1),
        limits(version, 16, 16),
    ] {
        group.set_memory(limits).unwrap();
        assert_eq!(group.memory().unwrap(), limits);
        assert_eq!(sandbox.tree().group("pod1").memory().unwrap(), limits);
    }
    let memory = sandbox.memory().unwrap_or(sandbox.folders().0).join("pod1");
    let file = if version == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" };
    fs::write(memory.join(file), "70M").unwrap();
    assert_eq!(group.memory().unwrap().max, Some(Bytes::mebi(70)));
}

#[test]
fn what_a_process_takes_is_in_the_working_set() {
    let mut sandbox = Sandbox::new();
    let group = sandbox.make("pod1");
    assert_eq!(group.memory_usage().unwrap(), Usage::default());
    let mut taker = Taker::new(&sandbox, "pod1");
    for total in [24, 48] {
        taker.take(24);
        taker.finish();
        let usage = group.memory_usage().unwrap();
        assert!(usage.working_set() >= Bytes::mebi(total) && usage.total >= usage.working_set(), "{usage:?}");
        assert!(usage.total < Bytes::mebi(total + 16) && usage.oom_kills == 0, "{usage:?}");
    }
}

/// A file of so many MiB, which is not in the memory of anybody. None where files are only in
/// memory.
fn cold_file(mebibytes: usize) -> Option<(Option<TempDir>, PathBuf)> {
    // Of tests/cgroups/qemu.sh.
    if let Some(disk) = std::env::var_os("BLOC_DISK") {
        return Some((None, disk.into()));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cold");
    fs::write(&path, vec![1; mebibytes << 20]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    let in_memory = nix::sys::statfs::fstatfs(&file).unwrap().filesystem_type() == nix::sys::statfs::TMPFS_MAGIC;
    (!in_memory).then_some((Some(folder), path))
}

#[test]
fn a_file_that_is_only_read_is_in_no_working_set_and_gives_way_to_a_lower_limit() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let group = sandbox.make("pod1");
    let Some((_folder, file)) = cold_file(64) else { return };
    let mut taker = Taker::new(&sandbox, "pod1");
    taker.take(16);
    taker.read(64, &file);
    taker.finish();
    let usage = until(&group, |usage| usage.inactive >= Bytes::mebi(56));
    assert!(usage.total >= Bytes::mebi(72) && usage.working_set() < Bytes::mebi(32), "{usage:?}");
    group.set_memory(limits(version, 48, 40)).unwrap();
    let usage = group.memory_usage().unwrap();
    assert!(usage.total <= Bytes::mebi(48) && usage.working_set() >= Bytes::mebi(16), "{usage:?}");
    assert!(taker.runs() && usage.oom_kills == 0, "{usage:?}");
}

#[test]
fn a_maximum_below_what_is_in_use_is_refused_and_kills_nobody() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let group = sandbox.make("pod1");
    let mut taker = Taker::new(&sandbox, "pod1");
    taker.take(48);
    taker.finish();
    for before in [NONE, limits(version, 96, 80)] {
        group.set_memory(before).unwrap();
        let error = group.set_memory(limits(version, 40, 32)).unwrap_err();
        let GroupError::InUse { path, limit, used } = &error else { panic!("{error}") };
        assert!(path.exists() && *limit == Bytes::mebi(40) && *used >= Bytes::mebi(48), "{error}");
        assert_eq!(group.memory().unwrap(), before);
    }
    // It may be lowered to a little more than what is in use.
    group.set_memory(limits(version, 64, 56)).unwrap();
    taker.take(1);
    taker.finish();
    assert_eq!(group.memory_usage().unwrap().oom_kills, 0);
}

#[test]
fn a_process_that_is_granted_memory_when_it_asks_gets_to_its_goal() {
    const STEP: u64 = 16;
    const GOAL: u64 = 128;
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let group = sandbox.make("pod1");
    let mut alarms = Alarms::new(version).unwrap();
    let mut granted = 32;
    let set = |alarms: &mut Alarms<char>, limit: u64| {
        group.set_memory(limits(version, limit + STEP, limit)).unwrap();
        alarms.watch('a', &group, Bytes::mebi(limit)).unwrap();
    };
    set(&mut alarms, granted);
    let mut taker = Taker::new(&sandbox, "pod1");
    for _ in 0..GOAL / 4 {
        taker.take(4);
        let began = Instant::now();
        loop {
            // The kernel counts in parts of less than a MiB.
            let must_ask = group.memory_usage().unwrap().total >= Bytes::mebi(granted + 2);
            let at_most = if must_ask { PATIENCE } else { Duration::from_millis(1) };
            match alarms.wait(at_most)[..] {
                ['a'] => {
                    granted += STEP;
                    set(&mut alarms, granted);
                }
                [] if !must_ask => {}
                _ => panic!("nobody asks: {granted}, {:?}", group.memory_usage()),
            }
            if taker.is_done() && !must_ask {
                break;
            }
            assert!(taker.runs() && began.elapsed() < PATIENCE, "{granted}, {:?}", group.memory_usage());
        }
    }
    let usage = group.memory_usage().unwrap();
    assert!(usage.total >= Bytes::mebi(GOAL) && usage.oom_kills == 0, "{usage:?}");
    assert!(taker.runs() && granted > GOAL - STEP, "{granted}");
}

#[test]
fn a_process_without_a_grant_is_killed_at_the_maximum() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let group = sandbox.make("pod1");
    let mut alarms = Alarms::new(version).unwrap();
    group.set_memory(limits(version, 48, 32)).unwrap();
    alarms.watch('a', &group, Bytes::mebi(32)).unwrap();
    let mut taker = Taker::new(&sandbox, "pod1");
    taker.take(40);
    assert_eq!(alarms.wait(PATIENCE), ['a']);
    // Version 2 would throttle it for ever.
    group.set_memory(limits(version, 48, 48)).unwrap();
    taker.finish();
    assert_eq!(group.memory_usage().unwrap().oom_kills, 0);
    taker.take(24);
    assert_eq!(taker.ended_by(), Some(nix::libc::SIGKILL));
    assert_eq!(until(&group, |usage| usage.oom_kills > 0).oom_kills, 1);
}

#[test]
fn a_removed_group_asks_once_and_is_gone() {
    let mut sandbox = Sandbox::new();
    sandbox.make("pod1");
    let group = sandbox.make("pod1/c0");
    let other = sandbox.make("pod1/c1");
    let mut alarms = Alarms::new(sandbox.version()).unwrap();
    for (key, group) in [('a', &group), ('b', &other)] {
        alarms.watch(key, group, Bytes::mebi(1)).unwrap();
    }
    group.memory().unwrap();
    group.memory_usage().unwrap();
    let unread = sandbox.tree().group("pod1/c0");
    sandbox.remove_idle("pod1/c0");
    assert_eq!(alarms.wait(PATIENCE), ['a']);
    assert_eq!(alarms.wait(Duration::from_millis(100)), Vec::<char>::new());
    for group in [&group, &unread] {
        for error in [
            group.memory().unwrap_err(),
            group.memory_usage().unwrap_err(),
            group.set_memory(NONE).unwrap_err(),
            alarms.watch('a', group, Bytes::mebi(1)).unwrap_err(),
        ] {
            assert!(error.is_gone(), "{error}");
        }
    }
    assert_eq!(alarms.wait(Duration::from_millis(100)), Vec::<char>::new());
    // Another of the same name is another group, and can be watched.
    let again = sandbox.make("pod1/c0");
    again.set_memory(limits(sandbox.version(), 16, 8)).unwrap();
    alarms.watch('a', &again, Bytes::mebi(8)).unwrap();
    let mut taker = Taker::new(&sandbox, "pod1/c0");
    taker.take(12);
    assert_eq!(alarms.wait(PATIENCE), ['a']);
}

/// Not a promise, so no bound: see `what_reading_seventy_groups_costs`.
#[test]
#[ignore = "measures"]
fn what_the_memory_of_seventy_groups_costs() {
    let mut sandbox = Sandbox::new();
    let version = sandbox.version();
    let (_, groups) = seventy(&mut sandbox);
    let mut takers: Vec<_> = (0..4).map(|index| Taker::new(&sandbox, &format!("pod{index}"))).collect();
    for taker in &mut takers {
        taker.take(16);
        taker.finish();
    }
    per_group(500, "use", |index| {
        groups[index].memory_usage().unwrap();
    });
    per_group(500, "limits", |index| {
        groups[index].memory().unwrap();
    });
    let mut grown = 100;
    per_group(500, "a grant", |index| {
        grown += 1;
        groups[index].set_memory(limits(version, grown + 16, grown)).unwrap();
    });
    per_group(500, "a limit that falls", |index| {
        grown -= 1;
        groups[index].set_memory(limits(version, grown + 16, grown)).unwrap();
    });
    let mut alarms = Alarms::new(version).unwrap();
    // In version 1 the kernel waits for all processors.
    per_group(1, "a watch", |index| alarms.watch(index, &groups[index], Bytes::mebi(1 << 20)).unwrap());
    per_group(500, "waiting for no time", |_| assert!(alarms.wait(Duration::ZERO).is_empty()));
}
