//! The program moves memory between the kernel's own groups.

use crate::program::{BUSY, Stand, send};
use crate::taker::Taker;
use bloc_node_agent::bytes::Bytes;
use bloc_node_agent::cgroup::{Group, Limits};
use nix::sys::signal::Signal;
use std::process::Stdio;

/// Both containers have this, and their pods, in MiB.
const OWN: u64 = 64;

const CONFIG: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    memory: {limit: 1Gi, margin: 16Mi, step: 16Mi}
";

const MANAGED: &str = r#"bloc_node_memory_managed{app="shop/checkout",pod="checkout-0",container="app"}"#;

/// The maxima of the containers and their pods, in MiB.
fn maxima(stand: &Stand) -> [u64; 4] {
    [&stand.busy, &stand.idle, &stand.pods[0], &stand.pods[1]].map(max)
}

fn max(group: &Group) -> u64 {
    group.memory().unwrap().max.map_or(u64::MAX, |max| max.get() >> 20)
}

fn used(group: &Group) -> u64 {
    group.memory_usage().unwrap().working_set().get() >> 20
}

fn stand() -> Stand {
    let stand = Stand::with(CONFIG);
    for group in stand.pods.iter().chain([&stand.busy, &stand.idle]) {
        group.set_memory(Limits { max: Some(Bytes::mebi(OWN)), high: None }).unwrap();
    }
    stand
}

/// Starts the program, and waits until it manages the first container.
fn start(stand: &mut Stand) {
    stand.start();
    stand.until("it manages the container", |stand| stand.metric(MANAGED) == Some(1.0));
}

/// A process in the first container that takes so much, a little at a time: without `memory.high`
/// nobody waits for the agent.
fn grow(stand: &mut Stand, mebibytes: usize) -> Taker {
    let mut taker = Taker::new(&stand.sandbox, BUSY);
    for _ in 0..mebibytes / 2 {
        taker.take(2);
        taker.finish();
        stand.until("it has room", |stand| max(&stand.busy) >= used(&stand.busy) + 8);
    }
    taker
}

#[test]
fn a_container_that_needs_more_than_its_own_limit_is_killed_without_the_agent() {
    let stand = stand();
    let mut taker = Taker::new(&stand.sandbox, BUSY);
    taker.take(80);
    assert_eq!(taker.ended_by(), Some(nix::libc::SIGKILL));
}

#[test]
fn a_container_grows_by_what_another_one_does_not_use_and_restoring_kills_nobody() {
    let mut stand = stand();
    start(&mut stand);
    let mut taker = grow(&mut stand, 80);
    let [busy, idle, pod, other] = maxima(&stand);
    assert!(busy > 80 && pod >= busy && other == OWN, "{:?}", maxima(&stand));
    // Each has a step above its limit.
    assert!(busy + idle <= 2 * OWN + 2 * 16, "{busy} and {idle}");
    stand.until("it says that it granted", |stand| {
        stand.metric(r#"bloc_node_memory_grants_total{app="shop/checkout"}"#).is_some_and(|grants| grants > 0.0)
    });
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success(), "{}", stand.log());
    let released = |stand: &Stand| {
        assert_eq!([&stand.busy, &stand.idle].map(|group| group.memory().unwrap().high), [None, None], "held up");
        let [busy, idle, pod, other] = maxima(stand);
        assert!(busy > 80 && pod >= busy, "{busy} {pod}");
        assert_eq!([idle, other], [OWN, OWN]);
    };
    released(&stand);
    let restore = stand.command("restore").stderr(Stdio::piped()).output().unwrap();
    assert_eq!(restore.status.code(), Some(1));
    let error = String::from_utf8_lossy(&restore.stderr).into_owned();
    assert!(error.contains("64Mi is below what is in use"), "{error}");
    assert!(taker.runs());
    released(&stand);
    drop(taker);
    assert!(stand.command("restore").status().unwrap().success());
    assert_eq!(maxima(&stand), [OWN; 4]);
}

#[test]
fn if_nobody_has_memory_the_kernel_kills_and_the_agent_counts_it() {
    let mut stand = stand();
    start(&mut stand);
    let mut taker = Taker::new(&stand.sandbox, BUSY);
    // More than both together.
    taker.take(200);
    assert_eq!(taker.ended_by(), Some(nix::libc::SIGKILL));
    let name = r#"bloc_node_oom_kills_total{app="shop/checkout",pod="checkout-0"}"#;
    stand.until("it is counted", |stand| stand.metric(name) == Some(1.0));
    // Nothing of it stays.
    stand.until("it is as small as at first", |stand| max(&stand.busy) <= OWN);
    assert_eq!(stand.metric("bloc_node_errors_total{kind=\"write\"}"), None, "{}", stand.log());
}

#[test]
fn if_the_agent_dies_its_guardian_leaves_what_a_container_had() {
    let mut stand = stand();
    start(&mut stand);
    let mut taker = grow(&mut stand, 80);
    let grown = max(&stand.busy);
    send(stand.agent(), Signal::SIGKILL);
    assert_eq!(stand.ended().code(), Some(1));
    assert!(max(&stand.busy) >= grown && stand.pods[0].memory().unwrap().max >= stand.busy.memory().unwrap().max);
    assert_eq!([&stand.busy, &stand.idle].map(|group| group.memory().unwrap().high), [None, None]);
    assert_eq!(max(&stand.idle), OWN);
    taker.take(2);
    taker.finish();
}

#[test]
fn if_both_die_a_container_has_more_than_it_used_and_the_next_start_takes_over() {
    let mut stand = stand();
    start(&mut stand);
    let mut taker = grow(&mut stand, 80);
    let before = stand.busy.memory().unwrap();
    stand.kill_both();
    assert_eq!(stand.busy.memory().unwrap(), before);
    taker.take(2);
    taker.finish();
    start(&mut stand);
    stand.until("it is managed as before", |stand| max(&stand.busy) >= used(&stand.busy) + 8);
    stand.configure(&CONFIG.replace("enforce", "observe"));
    stand.until("the idle one has its own", |stand| max(&stand.idle) == OWN);
    assert!(taker.runs() && max(&stand.busy) > 80);
    drop(taker);
    stand.until("so have all", |stand| maxima(stand) == [OWN; 4]);
}

#[test]
fn a_limit_of_memory_that_somebody_else_writes_stays() {
    let mut stand = stand();
    start(&mut stand);
    let theirs = Limits { max: Some(Bytes::mebi(40)), ..stand.busy.memory().unwrap() };
    stand.busy.set_memory(theirs).unwrap();
    let name = MANAGED.replace("memory_managed", "memory_foreign_writes_total");
    stand.until("it is noticed", |stand| stand.metric(&name) == Some(1.0));
    assert_eq!(max(&stand.busy), 40);
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success());
    assert_eq!(max(&stand.busy), 40);
}
