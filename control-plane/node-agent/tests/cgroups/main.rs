//! The kernel's own groups: version 1 or 2, whichever this machine has at `/sys/fs/cgroup`.
//!
//! Needs root. `make test-cgroup2` runs these tests on a kernel with version 2, in QEMU.

mod memory;
mod program;
mod program_lease;
mod program_memory;
mod program_qos;
mod program_report;
mod sandbox;
mod shares;
mod taker;

use bloc_node_agent::cgroup::{Bandwidth, Group, GroupError, Located, Tree, Version, locate};
use sandbox::{Sandbox, until};
use std::fs;
use std::time::{Duration, Instant};

const PERIOD: u64 = 100_000;

fn quota(micros: u64) -> Bandwidth {
    Bandwidth { quota: Some(micros), period: PERIOD }
}

const NONE: Bandwidth = Bandwidth { quota: None, period: PERIOD };

/// The file that has the quota.
const fn file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.cfs_quota_us",
        Version::V2 => "cpu.max",
    }
}

#[test]
fn a_tree_is_of_the_version_that_the_kernel_has() {
    let sandbox = Sandbox::new();
    let (cpu, cpuacct) = sandbox.folders();
    assert_eq!(sandbox.tree().version(), sandbox.version());
    assert_eq!(cpuacct.is_some(), sandbox.version() == Version::V1);
    let separate = cpuacct.is_some_and(|cpuacct| !cpu.join("cpuacct.usage").exists() && cpuacct.exists());
    match Tree::open(cpu, None) {
        Err(error) if separate => assert!(error.to_string().contains("--cpuacct"), "{error}"),
        opened => assert_eq!(opened.unwrap().version(), sandbox.version()),
    }
}

#[test]
fn a_quota_is_what_was_written_last_whoever_wrote_it() {
    let mut sandbox = Sandbox::new();
    let group = sandbox.make("pod1");
    assert_eq!(group.bandwidth().unwrap(), NONE);
    for bandwidth in [quota(25_000), quota(1_000), quota(350_000), NONE, quota(50_000)] {
        group.set(bandwidth).unwrap();
        assert_eq!(group.bandwidth().unwrap(), bandwidth);
        assert_eq!(sandbox.tree().group("pod1").bandwidth().unwrap(), bandwidth);
    }
    let text = if sandbox.version() == Version::V1 { "70000" } else { "70000 100000" };
    fs::write(group.path().join(file(sandbox.version())), text).unwrap();
    assert_eq!(group.bandwidth().unwrap(), quota(70_000));
}

#[test]
fn a_quota_below_a_millisecond_is_refused_with_file_and_text() {
    let mut sandbox = Sandbox::new();
    let group = sandbox.make("pod1");
    let error = group.set(quota(999)).unwrap_err();
    let path = group.path().join(file(sandbox.version()));
    let text = if sandbox.version() == Version::V1 { "999" } else { "999 100000" };
    let expected = format!("{}: {text} cannot be written: Invalid argument (os error 22)", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(group.bandwidth().unwrap(), NONE);
}

#[test]
fn a_busy_group_is_throttled_until_its_quota_is_raised() {
    let mut sandbox = Sandbox::new();
    sandbox.make("pod1");
    let group = sandbox.make("pod1/c0");
    let before = group.counters().unwrap();
    assert_eq!(before.throttled, 0);
    group.set(quota(5_000)).unwrap();
    sandbox.keep_busy("pod1/c0");
    let throttled = until(&group, |counters| counters.throttled >= 10);
    assert!(throttled.periods >= throttled.throttled, "{throttled:?}");
    assert!(throttled.used > before.used, "{throttled:?}");
    // What it uses in a period, while another period may be under way.
    let share = |from: bloc_node_agent::cgroup::Counters, to: &bloc_node_agent::cgroup::Counters| {
        let periods = to.periods.saturating_sub(from.periods) + 1;
        (to.used - from.used) / u32::try_from(periods).unwrap()
    };
    group.set(quota(80_000)).unwrap();
    until(&group, |counters| share(throttled, counters) > Duration::from_millis(15));
    // Without a quota it is throttled no more, and no periods pass.
    group.set(NONE).unwrap();
    let free = group.counters().unwrap();
    let later = until(&group, |counters| counters.used > free.used + Duration::from_millis(300));
    // One that was under way may have ended.
    assert!(later.throttled <= free.throttled + 1, "{free:?}, {later:?}");
    assert!(later.periods <= free.periods + 1, "{free:?}, {later:?}");
}

#[test]
fn the_pod_of_a_busy_container_counts_it_as_well() {
    let mut sandbox = Sandbox::new();
    let pod = sandbox.make("pod1");
    let container = sandbox.make("pod1/c0");
    pod.set(quota(5_000)).unwrap();
    sandbox.keep_busy("pod1/c0");
    let counters = until(&pod, |counters| counters.throttled >= 3);
    assert!(counters.used > Duration::ZERO);
    // It is the pod's quota that holds it, so the container alone looks as if it had room.
    let own = container.counters().unwrap();
    assert!(own.used > Duration::ZERO);
    assert_eq!((own.periods, own.throttled), (0, 0));
}

#[test]
fn a_removed_group_is_gone_for_files_that_are_open_and_for_others() {
    let mut sandbox = Sandbox::new();
    sandbox.make("pod1");
    let group = sandbox.make("pod1/c0");
    group.set(quota(50_000)).unwrap();
    sandbox.keep_busy("pod1/c0");
    until(&group, |counters| counters.used > Duration::ZERO);
    group.bandwidth().unwrap();
    let unread = sandbox.tree().group("pod1/c0");
    sandbox.remove("pod1/c0");
    for error in [
        group.bandwidth().unwrap_err(),
        group.counters().unwrap_err(),
        group.set(NONE).unwrap_err(),
        unread.bandwidth().unwrap_err(),
        unread.counters().unwrap_err(),
        unread.set(NONE).unwrap_err(),
    ] {
        assert!(error.is_gone(), "{error}");
        assert!(error.to_string().starts_with(group.path().to_str().unwrap()), "{error}");
    }
    // Another of the same name is another group.
    let again = sandbox.make("pod1/c0");
    assert_eq!(again.bandwidth().unwrap(), NONE);
    assert!(group.bandwidth().unwrap_err().is_gone());
}

#[test]
fn only_version_1_refuses_a_container_more_than_its_pod() {
    let mut sandbox = Sandbox::new();
    let pod = sandbox.make("pod1");
    let container = sandbox.make("pod1/c0");
    pod.set(quota(50_000)).unwrap();
    container.set(quota(50_000)).unwrap();
    let raised = container.set(quota(60_000));
    let lowered = pod.set(quota(40_000));
    match sandbox.version() {
        Version::V1 => {
            for (error, group, text) in
                [(raised.unwrap_err(), &container, "60000"), (lowered.unwrap_err(), &pod, "40000")]
            {
                let path = group.path().join("cpu.cfs_quota_us");
                let expected = format!("{}: {text} cannot be written: Invalid argument (os error 22)", path.display());
                assert_eq!(error.to_string(), expected);
                assert!(matches!(error, GroupError::Write { .. }) && !error.is_gone());
                assert_eq!(group.bandwidth().unwrap(), quota(50_000));
            }
            // The pod first on the way up, and last on the way down.
            pod.set(quota(60_000)).unwrap();
            container.set(quota(60_000)).unwrap();
            container.set(quota(40_000)).unwrap();
            pod.set(quota(40_000)).unwrap();
            // None is less than it seems: what the pod has.
            container.set(NONE).unwrap();
        }
        Version::V2 => {
            raised.unwrap();
            lowered.unwrap();
            assert_eq!(container.bandwidth().unwrap(), quota(60_000));
            assert_eq!(pod.bandwidth().unwrap(), quota(40_000));
        }
    }
}

#[test]
fn containers_are_found_as_both_drivers_name_them() {
    let mut sandbox = Sandbox::new();
    let slice = "kubelet-kubepods-burstable.slice";
    let systemd = format!("{slice}/kubelet-kubepods-burstable-pod0a1b_2.slice");
    for path in ["burstable", "burstable/pod0a1b-1", "burstable/pod0a1b-1/c0", slice, &systemd] {
        sandbox.make(path);
    }
    sandbox.make(&format!("{systemd}/cri-containerd-c0.scope"));
    let tree = sandbox.tree();
    for (uid, pod, container) in
        [("0a1b-1", "burstable/pod0a1b-1", "c0"), ("0a1b-2", systemd.as_str(), "cri-containerd-c0.scope")]
    {
        let located = locate(&tree, uid, "c0").unwrap();
        assert_eq!(located, Located { pod: pod.into(), container: format!("{pod}/{container}").into() });
        assert_eq!(tree.group(&located.container).bandwidth().unwrap(), NONE);
    }
    assert_eq!(locate(&tree, "0a1b-3", "c0"), None);
}

/// Not a promise, so no bound: `cargo test --release -p bloc-node-agent --test cgroups -- --ignored
/// --nocapture`.
#[test]
#[ignore = "measures"]
fn what_reading_seventy_groups_costs() {
    let mut sandbox = Sandbox::new();
    let (paths, groups) = seventy(&mut sandbox);
    let tree = sandbox.tree();
    per_group(500, "counters and quota", |index| {
        groups[index].counters().unwrap();
        groups[index].bandwidth().unwrap();
    });
    per_group(500, "counters alone", |index| {
        let _ = groups[index].counters().unwrap();
    });
    per_group(500, "counters and quota, opened each time", |index| {
        let group = tree.group(&paths[index]);
        group.counters().unwrap();
        group.bandwidth().unwrap();
    });
    per_group(500, "a write", |index| groups[index].set(quota(50_000 + index as u64 * 100)).unwrap());
}

const GROUPS: usize = 70;

fn seventy(sandbox: &mut Sandbox) -> (Vec<String>, Vec<Group>) {
    let paths: Vec<_> = (0..GROUPS).map(|index| format!("pod{index}")).collect();
    let groups = paths.iter().map(|path| sandbox.make(path)).collect();
    (paths, groups)
}

/// Prints what so many steps cost, each.
fn per_group(steps: u32, name: &str, mut step: impl FnMut(usize)) {
    let (began, used) = (Instant::now(), own_use());
    for _ in 0..steps {
        (0..GROUPS).for_each(&mut step);
    }
    let (took, used) = (began.elapsed() / steps, (own_use() - used) / steps);
    let percent = used.as_secs_f64() * 1_000.0;
    let each = took / u32::try_from(GROUPS).unwrap();
    println!("{name}: {each:?} a group, {took:?} a step of {GROUPS}, {percent:.2}% of a core at 10/s");
}

/// CPU time of this thread.
fn own_use() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
