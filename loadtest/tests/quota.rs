//! Two allocators and an agent for a few seconds, of CPU and of memory, and a sidecar that follows,
//! in real control groups. It needs root, cgroups v1 or v2, and Envoy.

use bloc_mesh::Tools;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_bloc-lab");

/// Raises and lowers each quota, or gives each container 400 MiB, and knows nothing.
const AGENT: &str = r#"#!/bin/sh
[ "$1" = run ] || exit 2
while [ $# -gt 1 ]; do
  case $1 in --cgroups) cgroups=$2;; --memory) memory=$2;; --address-file) address=$2;; --config | --state) : "${2:?}";; esac
  shift
done
echo 127.0.0.1:1 > "$address"
if [ -n "$memory" ]; then
  for group in "$memory"/burstable/pod*/ "$memory"/burstable/pod*/*/; do
    for file in "$group"/memory.max "$group"/memory.limit_in_bytes; do
      [ ! -e "$file" ] || echo 419430400 > "$file"
    done
  done
  exec sleep 60
fi
while sleep 0.05; do
  for part in 20 24; do
    for container in "$cgroups"/burstable/pod*/*/; do
      if [ -e "$container/cpu.max" ]; then echo "${part}000 100000" > "$container/cpu.max"
      else echo "${part}000" > "$container/cpu.cfs_quota_us"; fi
    done
  done
done
"#;

/// The groups that this process has made and that are still there.
fn groups(process: u32) -> Vec<PathBuf> {
    fn find(folder: &Path, depth: usize, prefix: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                find(&entry.path(), depth - 1, prefix, found);
            }
        }
    }
    let mut found = Vec::new();
    find(Path::new("/sys/fs/cgroup"), 4, &format!("bloc-quota-{process}-"), &mut found);
    found
}

/// Four bursts of 250 ms.
fn quota(only: &str, every: &str, target: &Path) -> Command {
    let mut command = Command::new(LAB);
    command.args(["quota", "--rounds", "1", "--burst", "250ms", "--every", every, "--only", only, "--out"]);
    command.arg(target.join("out")).env("CARGO_TARGET_DIR", target).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn figures(target: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(target.join("out/quota.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["measured"].as_array().unwrap().clone()
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs it to its end, after which none of its groups is left.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let child = command.spawn().unwrap();
    let id = child.id();
    let (code, errors) = ended(child);
    assert_eq!(groups(id), Vec::<PathBuf>::new(), "{errors}");
    (code, errors)
}

fn names(measured: &[serde_json::Value]) -> Vec<&str> {
    measured.iter().filter_map(|one| one["name"].as_str()).collect()
}

#[test]
fn two_allocators_are_measured_and_nothing_is_left() {
    let target = tempfile::tempdir().unwrap();
    let (code, errors) = run(&mut quota("equal,koordinator", "500ms", target.path()));
    assert_eq!(code, Some(0), "{errors}");
    let measured = figures(target.path());
    assert_eq!(names(&measured), ["equal", "koordinator"]);
    for one in &measured {
        let figure = |name: &str| one["turns"][0][name].as_f64().unwrap();
        assert!(figure("answered") > 0.0 && figure("requests") >= figure("answered"), "{one}");
        assert!(figure("slack_p99") > 0.0 && figure("p999") > 0.0, "{one}");
    }
    let same = |name: &str| measured.iter().map(|one| one["turns"][0][name].clone()).collect::<Vec<_>>();
    assert_eq!(same("requests")[0], same("requests")[1], "all see the same arrivals");
    let page = fs::read_to_string(target.path().join("out/report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
}

fn agent(target: &Path) -> PathBuf {
    let agent = target.join("agent");
    fs::write(&agent, AGENT).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    agent
}

#[test]
fn who_needs_more_memory_than_an_equal_part_is_killed_and_nothing_is_left() {
    let target = tempfile::tempdir().unwrap();
    let agent = agent(target.path());
    let mut command = quota("memory-equal,memory-agent", "500ms", target.path());
    let (code, errors) = run(command.arg("--agent").arg(agent));
    assert_eq!(code, Some(0), "{errors}");
    let measured = figures(target.path());
    assert_eq!(names(&measured), ["memory-equal", "memory-agent"]);
    let figure = |one: usize, name: &str| measured[one]["turns"][0][name].as_f64().unwrap();
    assert!(figure(0, "kills") >= 1.0 && figure(1, "kills") == 0.0, "{measured:?}");
    assert!(figure(0, "memory_slack_p50") < figure(1, "memory_slack_p50"), "400 MiB are more: {measured:?}");
    assert!(figure(1, "agent_cpu") >= 0.0);
    let page = fs::read_to_string(target.path().join("out/report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn an_agent_is_a_process_that_finds_its_containers_below_a_directory() {
    let target = tempfile::tempdir().unwrap();
    let agent = agent(target.path());
    let (_, errors) = run(quota("agent,cost", "500ms", target.path()).arg("--agent").arg(&agent));
    let measured = figures(target.path());
    assert_eq!(measured.len(), 2, "{errors}");
    for one in &measured {
        assert!(one["turns"][0]["agent_cpu"].as_f64().unwrap() > 0.0, "{one}");
    }
}

#[test]
fn the_rounds_have_sidecars_that_follow_with_their_delays_and_claims() {
    let target = tempfile::tempdir().unwrap();
    let tools = Tools::beside(Path::new(LAB)).unwrap();
    let mut command = quota("equal,follow-delay-told", "500ms", target.path());
    let command = command.env("ENVOY", tools.envoy).env("BLOC_WASM", tools.module);
    let (code, errors) = run(command.args(["--changes", "2"]));
    // The claim about a delay is an aim.
    assert_eq!(code, Some(0), "{errors}");
    let measured = figures(target.path());
    assert_eq!(names(&measured), ["equal", "follow-delay-told"]);
    let figures: Vec<&str> = measured[1]["turns"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let all = ["doubled_most", "doubled_p50", "doubled_p90", "halved_most", "halved_p50", "halved_p90"];
    assert_eq!(figures.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(all));
    let page = fs::read_to_string(target.path().join("out/report.html")).unwrap();
    assert!(page.contains("follow-delay-told") && page.matches("<svg").count() == 1);
}

#[test]
fn a_signal_removes_processes_and_groups() {
    for only in ["equal", "memory-equal"] {
        signalled(only);
    }
}

/// All four containers have a process when the signal comes.
fn signalled(only: &str) {
    let target = tempfile::tempdir().unwrap();
    let child = quota(only, "10s", target.path()).spawn().unwrap();
    let id = child.id();
    // A process in each container, and so in a group that cannot be removed while it runs.
    let holds = |group: &Path| {
        let pods = fs::read_dir(group.join("burstable")).into_iter().flatten().flatten();
        let containers = pods.flat_map(|pod| fs::read_dir(pod.path()).into_iter().flatten().flatten());
        let busy = |procs: String| !procs.is_empty();
        containers.filter(|one| fs::read_to_string(one.path().join("cgroup.procs")).is_ok_and(busy)).count()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while groups(id).iter().all(|group| holds(group) < 4) {
        assert!(Instant::now() < deadline, "{only}: no processes within 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(i32::try_from(id).unwrap()), Signal::SIGINT).unwrap();
    let (code, errors) = ended(child);
    assert_eq!(code, Some(130), "{errors}");
    assert_eq!(groups(id), Vec::<PathBuf>::new());
}

#[test]
fn an_agent_that_is_not_built_is_named_with_the_command_that_builds_it() {
    let target = tempfile::tempdir().unwrap();
    let child = quota("equal,agent", "500ms", target.path()).args(["--agent", "/nowhere/agent"]).spawn().unwrap();
    let (code, errors) = ended(child);
    assert_eq!(code, Some(1));
    assert!(errors.contains("/nowhere/agent is missing: run `make release`"), "{errors}");
}
