//! The table of pods, applications and agents, in virtual time.

use super::*;
use crate::load::ReportInterval;
use bloc_policy::sync::ServerCpu;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

fn message(value: &Value) -> CpuMessage {
    CpuMessage::read(value.to_string().as_bytes()).unwrap()
}

/// Pod `NAME.shop` with this many cores, which has used this many seconds.
fn pod(name: &str, cores: f64, seconds: f64) -> CpuMessage {
    let pod = json!({"namespace": "shop", "name": name, "cores": cores, "usedSeconds": seconds});
    message(&json!({"node": "n1", "pods": [pod]}))
}

fn app(node: &str, name: &str) -> CpuMessage {
    let container = json!({"pod": "p", "container": "c", "quota": 1, "used": 0, "throttled": 0});
    message(&json!({"node": node, "apps": [{"name": name, "limit": 1, "free": 0, "containers": [container]}]}))
}

/// A table and its clock, in seconds.
fn table() -> (Cpus, impl Fn(f64) -> Instant) {
    let start = Instant::now();
    (Cpus::new(ReportInterval::default(), start), move |seconds| start + Duration::from_secs_f64(seconds))
}

fn is(cores: f64) -> Known {
    Known::Is(ServerCpu { cores: Some(cores), ..ServerCpu::default() })
}

#[test]
fn a_pod_is_known_for_15_seconds_then_silent_and_after_60_as_if_never_heard_of() {
    let (mut cpus, at) = table();
    assert_eq!(cpus.of("a.shop", at(0.0)), (Known::Unheard, None));
    assert!(cpus.receive(&pod("a", 2.0, 0.0), at(5.0)));
    assert_eq!(cpus.of("a.shop", at(5.0)), (is(2.0), Some(at(20.0))));
    assert_eq!(cpus.of("b.shop", at(1_000.0)), (Known::Unheard, None), "never heard of");
    assert_eq!(cpus.of("a.shop", at(19.999)).0, is(2.0));
    assert_eq!(cpus.of("a.shop", at(20.0)), (Known::Silent, None));
    assert_eq!(cpus.of("a.shop", at(64.999)), (Known::Silent, None));
    assert_eq!(cpus.of("a.shop", at(65.0)), (Known::Unheard, None), "also if nothing is swept");
    assert_eq!((cpus.known("a.shop", at(19.999)).is_some(), cpus.known("a.shop", at(20.0))), (true, None));
    assert!(cpus.receive(&pod("a", 0.0, 0.0), at(21.0)));
    let Known::Is(cpu) = cpus.of("a.shop", at(21.0)).0 else { panic!("known") };
    assert_eq!((cpu.cores, cpu.used), (None, Some(0.0)), "0 cores are no number of cores");
}

#[test]
fn knows_what_a_pod_uses_and_a_request_costs() {
    let (mut cpus, at) = table();
    for (second, used) in [0.0, 0.0, 0.0, 0.0, 2.0, 2.5].into_iter().enumerate() {
        cpus.receive(&pod("a", 1.0, used), at(second as f64));
    }
    cpus.count("a.shop", 100, Duration::from_secs(5), at(5.0));
    cpus.count("b.shop", 100, Duration::from_secs(5), at(5.0));
    let known = ServerCpu { cores: Some(1.0), used: Some(0.5), per_request_us: Some(25_000.0) };
    assert_eq!(cpus.of("a.shop", at(5.0)).0, Known::Is(known));
    cpus.receive(&pod("a", 1.0, 0.0), at(6.0));
    let known = ServerCpu { used: None, ..known };
    assert_eq!(cpus.of("a.shop", at(6.0)).0, Known::Is(known), "restarted");
    cpus.receive(&pod("a", 1.0, 2.5), at(7.0));
    assert_eq!(cpus.of("a.shop", at(7.0)).0, Known::Is(known), "it cannot have used that of late: restarted");
    cpus.receive(&pod("a", 0.0, 10_002.5), at(8.0));
    let known = ServerCpu { cores: None, ..known };
    assert_eq!(cpus.of("a.shop", at(8.0)).0, Known::Is(ServerCpu { used: Some(10_000.0), ..known }));
    cpus.receive(&pod("a", 0.0, 20_003.5), at(9.0));
    assert_eq!(cpus.of("a.shop", at(9.0)).0, Known::Is(known), "more than there is");
}

#[test]
fn a_report_counts_when_the_agent_has_spoken_of_its_end() {
    let (mut cpus, at) = table();
    cpus.receive(&pod("a", 0.25, 0.0), at(0.0));
    cpus.count("a.shop", 100, Duration::from_secs(5), at(5.0));
    cpus.receive(&pod("a", 0.25, 1.0), at(5.0));
    let Known::Is(cpu) = cpus.of("a.shop", at(5.0)).0 else { panic!("known") };
    assert_eq!(cpu.per_request_us, Some(10_000.0));
    cpus.count("a.shop", 100, Duration::from_secs(5), at(10.0));
    cpus.receive(&pod("a", 0.25, 0.5), at(10.0));
    cpus.receive(&pod("a", 0.25, 2.0), at(15.0));
    let Known::Is(cpu) = cpus.of("a.shop", at(15.0)).0 else { panic!("known") };
    assert_eq!(cpu.per_request_us, Some(10_000.0), "the containers have restarted");
}

#[test]
fn cpu_time_that_grows_too_fast_is_no_cost_of_requests() {
    for (used, cost) in [(20.0, Some(200_000.0)), (20.001, None)] {
        let (mut cpus, at) = table();
        cpus.receive(&pod("a", 1.0, 0.0), at(0.0));
        cpus.count("a.shop", 100, Duration::from_secs(5), at(5.0));
        cpus.receive(&pod("a", 2.0, used), at(5.0));
        let Known::Is(cpu) = cpus.of("a.shop", at(5.0)).0 else { panic!("known") };
        assert_eq!((cpu.cores, cpu.per_request_us), (Some(2.0), cost), "twice two cores for 5 s are 20 s");
    }
}

#[test]
fn counts_agents_and_shows_applications_that_were_heard_of_lately() {
    let (mut cpus, at) = table();
    cpus.receive(&app("n1", "shop/b"), at(0.0));
    cpus.receive(&app("n2", "shop/b"), at(0.5));
    cpus.receive(&app("n2", "shop/a"), at(2.0));
    let shown = |cpus: &Cpus, most, seconds| {
        let (apps, count) = cpus.apps(most, at(seconds));
        (apps.iter().map(|app| format!("{} {}", app.name, app.node)).collect::<Vec<_>>().join(", "), count)
    };
    assert_eq!(shown(&cpus, 9, 2.0), ("shop/a n2, shop/b n1, shop/b n2".into(), 3));
    assert_eq!(shown(&cpus, 2, 2.0), ("shop/a n2, shop/b n1".into(), 3));
    assert_eq!(shown(&cpus, 2, 15.0), ("shop/a n2, shop/b n2".into(), 2));
    assert_eq!([cpus.agents(at(14.9)), cpus.agents(at(15.0)), cpus.agents(at(17.0))], [2, 1, 0]);
}

#[test]
fn forgets_who_is_silent_and_leaves_nothing() {
    let (mut cpus, at) = table();
    cpus.receive(&pod("a", 1.0, 0.0), at(0.0));
    cpus.receive(&app("n1", "shop/a"), at(0.0));
    let twice = cpus.taken();
    cpus.receive(&pod("a", 1.0, 0.0), at(1.0));
    cpus.receive(&app("n1", "shop/a"), at(1.0));
    assert_eq!(cpus.taken(), twice, "the same again");
    let other = message(&json!({"node": "n2"}));
    cpus.receive(&other, at(60.0));
    let three = cpus.taken();
    assert!(three > twice, "kept for 60 s");
    cpus.receive(&other, at(60.9));
    assert_eq!(cpus.taken(), three, "looked for once a second");
    cpus.receive(&other, at(61.0));
    assert_eq!(cpus.taken(), three - twice);
    cpus.receive(&app("n3", "shop/a"), at(200.0));
    cpus.receive(&other, at(300.0));
    assert_eq!(cpus.taken(), three - twice, "only the agent of n2");
}

#[test]
fn takes_memory_for_names_and_containers() {
    let (mut cpus, at) = table();
    let mut more = |message: &CpuMessage| {
        let before = cpus.taken();
        assert!(cpus.receive(message, at(0.0)));
        cpus.taken() - before
    };
    let node = more(&message(&json!({"node": "n1"})));
    assert_eq!(more(&pod("a", 1.0, 0.0)), node + 4, "a.shop instead of n1");
    assert_eq!(more(&pod("abc", 1.0, 0.0)), node + 6);
    let container = |name: &str| json!({"pod": "pod", "container": name, "used": 0, "throttled": 0});
    let app = |name: &str, containers| {
        message(&json!({"node": "n1", "apps": [{"name": name, "limit": 1, "free": 0, "containers": containers}]}))
    };
    assert_eq!(more(&app("shop/a", json!([]))), node + 12);
    assert_eq!(more(&app("shop/b", json!([container("c"), container("cc")]))), node + 12 + 2 * 128 + 2 * 3 + 1 + 2);
}

/// An application whose container names make it take this many bytes.
fn app_of(bytes: usize) -> CpuMessage {
    let names = bytes - (pod_bytes("n1") + 2 * "a/b".len());
    let most = 128 + 253 + 1;
    let count = names.div_ceil(most);
    let container = |i| {
        let pod = "a".repeat(names / count + usize::from(i < names % count) - 129);
        json!({"pod": pod, "container": "c", "used": 0, "throttled": 0})
    };
    let containers: Vec<Value> = (0..count).map(container).collect();
    message(&json!({"node": "n1", "apps": [{"name": "a/b", "limit": 1, "free": 0, "containers": containers}]}))
}

/// What a pod or an agent of this name takes.
fn pod_bytes(key: &str) -> usize {
    let mut cpus = table().0;
    cpus.receive(&message(&json!({"node": key})), Instant::now());
    cpus.taken()
}

#[test]
fn who_does_not_fit_is_not_known_and_others_stay() {
    let (mut cpus, at) = table();
    let long = "a".repeat(240);
    let mut pods = 0;
    while MOST_BYTES - cpus.taken() > 4_000 {
        assert!(cpus.receive(&pod(&format!("{long}{pods}"), 1.0, 0.0), at(0.0)));
        pods += 1;
    }
    assert!((7_500..8_000).contains(&pods), "{pods}");
    let left = MOST_BYTES - cpus.taken();
    assert!(!cpus.receive(&app_of(left + 1), at(1.0)));
    assert_eq!((cpus.apps(9, at(1.0)).1, MOST_BYTES - cpus.taken()), (0, left));
    assert!(cpus.receive(&app_of(left), at(1.0)));
    assert_eq!((cpus.apps(9, at(1.0)).1, cpus.taken()), (1, MOST_BYTES));
    assert!(!cpus.receive(&pod("b", 1.0, 0.0), at(1.0)));
    assert_eq!(cpus.of("b.shop", at(1.0)).0, Known::Unheard);
    assert!(!cpus.receive(&message(&json!({"node": "n2"})), at(1.0)));
    assert_eq!(cpus.agents(at(1.0)), 1);
    assert!(cpus.receive(&pod(&format!("{long}0"), 2.0, 0.0), at(1.0)), "known before");
    assert_eq!(cpus.known(&format!("{long}0.shop"), at(1.0)).and_then(|cpu| cpu.cores), Some(2.0));
}
