//! Alarms on plain files, which the kernel watches like its own, and on version 1 descriptors.

use super::*;
use crate::cgroup::Tree;
use std::fs;
use std::io::pipe;
use tempfile::TempDir;

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

/// Files like the kernel's, of groups that use 100 bytes.
fn tree(version: Version, groups: &[&str]) -> (TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
    match version {
        Version::V1 => {
            for file in ["cpu.cfs_quota_us", "cpuacct.usage", "memory.limit_in_bytes"] {
                put(file, "0\n");
            }
        }
        Version::V2 => put("cgroup.controllers", "cpu memory\n"),
    }
    for group in groups {
        fs::create_dir(root.path().join(group)).unwrap();
        for (file, text) in
            [("memory.usage_in_bytes", "100\n"), ("cgroup.event_control", ""), ("memory.events", "high 0\n")]
        {
            put(&format!("{group}/{file}"), text);
        }
    }
    let tree = Tree::open(root.path(), None).unwrap();
    (root, tree)
}

fn event(root: &TempDir, group: &str) {
    fs::write(root.path().join(group).join("memory.events"), "high 1\n").unwrap();
}

/// Writes the eventfd as the kernel does.
fn cross(alarms: &Alarms<char>, key: char) {
    let Source::V1(events) = &alarms.source else { panic!("version 2") };
    (&events[&key]).write_all(&1_u64.to_ne_bytes()).unwrap();
}

/// How many watches the kernel has for this.
fn watches(alarms: &Alarms<char>) -> usize {
    let Source::V2 { inotify, .. } = &alarms.source else { panic!("version 1") };
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", inotify.as_fd().as_raw_fd())).unwrap();
    text.lines().filter(|line| line.starts_with("inotify wd:")).count()
}

#[track_caller]
fn nobody(alarms: &mut Alarms<char>) {
    let began = Instant::now();
    assert_eq!(alarms.wait(SOON), Vec::<char>::new());
    assert!(began.elapsed() >= SOON, "it has not waited");
}

#[test]
fn in_version_2_those_ask_whose_events_change_each_once() {
    let (root, tree) = tree(Version::V2, &["a", "b", "c"]);
    let mut alarms = Alarms::new(Version::V2).unwrap();
    nobody(&mut alarms);
    for key in ['a', 'b', 'c'] {
        alarms.watch(key, &tree.group(key.to_string()), Bytes::ZERO).unwrap();
    }
    nobody(&mut alarms);
    for group in ["c", "a", "c"] {
        event(&root, group);
    }
    assert_eq!(alarms.wait(LONG), ['a', 'c']);
    nobody(&mut alarms);
    event(&root, "b");
    assert_eq!(alarms.wait(LONG), ['b']);
}

#[test]
fn in_version_2_a_removed_group_asks_once_and_is_forgotten() {
    // Some kernels report it on the file, others only on the directory.
    for of_file in [true, false] {
        let (root, tree) = tree(Version::V2, &["a", "b"]);
        let mut alarms = Alarms::new(Version::V2).unwrap();
        for key in ['a', 'b'] {
            alarms.watch(key, &tree.group(key.to_string()), Bytes::ZERO).unwrap();
        }
        // Their parent directory has one watch.
        assert_eq!(watches(&alarms), 3);
        for (group, left) in [("a", 2), ("b", 0)] {
            let path = root.path().join(group);
            let events = path.join("memory.events");
            if of_file {
                fs::remove_file(events).unwrap();
            } else {
                fs::rename(events, root.path().join(format!("{group}-kept"))).unwrap();
                fs::remove_dir_all(path).unwrap();
            }
            assert_eq!(alarms.wait(LONG), [group.parse::<char>().unwrap()], "{of_file}");
            assert_eq!(watches(&alarms), left, "{of_file} {group}");
            nobody(&mut alarms);
        }
        assert!(alarms.watch('a', &tree.group("a"), Bytes::ZERO).unwrap_err().is_gone());
    }
}

#[test]
fn in_version_2_who_is_forgotten_or_has_another_group_does_not_ask_for_the_old_one() {
    let (root, tree) = tree(Version::V2, &["a", "b"]);
    let mut alarms = Alarms::new(Version::V2).unwrap();
    alarms.watch('a', &tree.group("a"), Bytes::ZERO).unwrap();
    alarms.watch('a', &tree.group("b"), Bytes::ZERO).unwrap();
    event(&root, "a");
    nobody(&mut alarms);
    event(&root, "b");
    assert_eq!(alarms.wait(LONG), ['a']);
    event(&root, "b");
    alarms.forget(&'a');
    event(&root, "b");
    assert_eq!(watches(&alarms), 0);
    nobody(&mut alarms);
    alarms.forget(&'a');
}

#[test]
fn in_version_2_a_group_is_of_the_key_that_watched_it_last() {
    let (root, tree) = tree(Version::V2, &["a"]);
    let mut alarms = Alarms::new(Version::V2).unwrap();
    for key in ['x', 'y'] {
        alarms.watch(key, &tree.group("a"), Bytes::ZERO).unwrap();
    }
    alarms.forget(&'x');
    assert_eq!(watches(&alarms), 2);
    event(&root, "a");
    assert_eq!(alarms.wait(LONG), ['y']);
}

#[test]
fn in_version_1_a_threshold_is_registered_and_asks_when_it_is_crossed() {
    let (root, tree) = tree(Version::V1, &["a", "b"]);
    let mut alarms = Alarms::new(Version::V1).unwrap();
    nobody(&mut alarms);
    for key in ['a', 'b'] {
        alarms.watch(key, &tree.group(key.to_string()), Bytes::new(101)).unwrap();
    }
    let Source::V1(events) = &alarms.source else { panic!("version 2") };
    let control = fs::read_to_string(root.path().join("a/cgroup.event_control")).unwrap();
    let [event, usage, at] = control.split(' ').collect::<Vec<_>>()[..] else { panic!("{control}") };
    assert_eq!((event, at), (events[&'a'].as_raw_fd().to_string().as_str(), "101"));
    assert!(usage.parse::<i32>().is_ok_and(|usage| usage > 0), "{control}");
    nobody(&mut alarms);
    cross(&alarms, 'b');
    cross(&alarms, 'b');
    assert_eq!(alarms.wait(LONG), ['b']);
    nobody(&mut alarms);
    cross(&alarms, 'b');
    cross(&alarms, 'a');
    assert_eq!(alarms.wait(LONG), ['a', 'b']);
    cross(&alarms, 'a');
    alarms.forget(&'a');
    nobody(&mut alarms);
}

#[test]
fn in_version_1_a_group_that_is_at_its_threshold_already_asks_at_once() {
    let (_root, tree) = tree(Version::V1, &["a"]);
    let mut alarms = Alarms::new(Version::V1).unwrap();
    for at in [100, 99] {
        alarms.watch('a', &tree.group("a"), Bytes::new(at)).unwrap();
        assert_eq!(alarms.wait(LONG), ['a'], "{at}");
        nobody(&mut alarms);
    }
}

#[test]
fn in_version_1_a_descriptor_that_cannot_be_read_asks_once_and_is_forgotten() {
    let mut alarms = Alarms::new(Version::V1).unwrap();
    let Source::V1(events) = &mut alarms.source else { panic!("version 2") };
    events.insert('a', File::from(OwnedFd::from(pipe().unwrap().0)));
    assert_eq!(alarms.wait(LONG), ['a']);
    nobody(&mut alarms);
}

#[test]
fn who_cannot_be_watched_has_no_group_and_the_error_names_the_file() {
    for (version, file) in [(Version::V1, "memory.usage_in_bytes"), (Version::V2, "memory.events")] {
        let (root, tree) = tree(version, &["a"]);
        let mut alarms = Alarms::new(version).unwrap();
        alarms.watch('a', &tree.group("a"), Bytes::new(101)).unwrap();
        let path = root.path().join("a").join(file);
        fs::remove_file(&path).unwrap();
        let error = alarms.watch('a', &tree.group("a"), Bytes::new(101)).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: No such file or directory (os error 2)", path.display()));
        nobody(&mut alarms);
    }
}

#[test]
fn waits_of_no_time_and_of_too_much_are_possible() {
    let (root, tree) = tree(Version::V2, &["a"]);
    let mut alarms = Alarms::new(Version::V2).unwrap();
    alarms.watch('a', &tree.group("a"), Bytes::ZERO).unwrap();
    assert_eq!(alarms.wait(Duration::ZERO), Vec::<char>::new());
    for at_most in [Duration::ZERO, Duration::MAX] {
        event(&root, "a");
        assert_eq!(alarms.wait(at_most), ['a']);
    }
}
