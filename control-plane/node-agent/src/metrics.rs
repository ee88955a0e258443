//! What the agent shows, for Prometheus (OpenMetrics text).
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `bloc_node_cpu_quota_cores{app,pod,container}` | gauge | what a container may use; when observing, what it would; missing without a limit |
//! | `bloc_node_cpu_used_cores{app,pod,container}` | gauge | its use in the last second |
//! | `bloc_node_cpu_slack_cores{app,pod,container}` | gauge | quota minus use; when observing, of the quota that it would have |
//! | `bloc_node_cpu_throttled_ratio{app,pod,container}` | gauge | the share of the kernel's periods in which it was throttled, 0 to 1; by the quota in force |
//! | `bloc_node_cpu_managed{app,pod,container}` | gauge | 1 if it is under the limit; 0 if it has just come, somebody else has written its quota, a file cannot be read or written, or the limit leaves no room |
//! | `bloc_node_cpu_shares{app,pod,container}` | gauge | CPU shares of a container in QoS mode, 1,024 for a core; when observing, what they would be |
//! | `bloc_node_cpu_shares_requested{app,pod,container}` | gauge | what its `requests` give |
//! | `bloc_node_qos_managed{app,pod,container}` | gauge | 1 if its shares move; 0 if it has just come, somebody else has written its shares, or they cannot be read or written |
//! | `bloc_node_qos_foreign_writes_total{app,pod,container}` | counter | shares that somebody else has written |
//! | `bloc_node_qos_response_seconds{app,pod,container}` | gauge | the mean response time of its pod when it was last judged; missing before |
//! | `bloc_node_qos_target_seconds{app}` | gauge | the response time that is to be kept |
//! | `bloc_node_memory_limit_bytes{app,pod,container}` | gauge | the limit of a container, at which it asks for more; when observing, what it would be; missing without a limit |
//! | `bloc_node_memory_used_bytes{app,pod,container}` | gauge | its working set in the last second: what it uses without inactive page cache |
//! | `bloc_node_memory_slack_bytes{app,pod,container}` | gauge | limit minus use |
//! | `bloc_node_memory_managed{app,pod,container}` | gauge | as for CPU |
//! | `bloc_node_oom_kills_total{app,pod}` | counter | processes that the kernel has killed in a pod for lack of memory, since the pod exists |
//! | `bloc_node_app_cpu_limit_cores{app}` | gauge | the limit in force |
//! | `bloc_node_app_cpu_free_cores{app}` | gauge | what no container has of it |
//! | `bloc_node_lease_part_ratio{app}` | gauge | with a limit over nodes: the part of it that this node may use, 0 to 1 |
//! | `bloc_node_lease_goal_ratio{app}` | gauge | what it is to keep of that: others need the rest |
//! | `bloc_node_lease_held_ratio{app}` | gauge | what is in force: the limit on this node, or more while quotas fall |
//! | `bloc_node_lease_age_seconds{app}` | gauge | since when no replica of the control plane has said what this node holds |
//! | `bloc_node_app_memory_limit_bytes{app}` | gauge | the limit in force |
//! | `bloc_node_app_memory_pool_bytes{app}` | gauge | what no container has of it |
//! | `bloc_node_memory_grants_total{app}` | counter | how often a container got memory that it asked for |
//! | `bloc_node_memory_refused_grants_total{app}` | counter | how often nobody had what a container lacks; each second while that is so |
//! | `bloc_node_enforcing` | gauge | 1 with `mode: enforce` |
//! | `bloc_node_config_ok` | gauge | 0 if the configuration is refused; the last good one stays in force |
//! | `bloc_node_steps_total` | counter | steps of 100 ms |
//! | `bloc_node_writes_total` | counter | quotas, limits and shares written |
//! | `bloc_node_foreign_writes_total{app,pod,container}` | counter | quotas that somebody else has written |
//! | `bloc_node_memory_foreign_writes_total{app,pod,container}` | counter | limits of memory that somebody else has written |
//! | `bloc_node_errors_total{kind}` | counter | failures: `read`, `write` of a group; `in_use`, a limit of memory that was not lowered, since more is in use; `state`, the files of the originals and of what is held of limits over nodes; `limit`, no room; `burst`, a group with a burst, which is left alone; `config`, `pods`: the configuration or the pods cannot be read; `control-plane`, it was not told; `lease`, it does not say what this node holds |

use crate::agent::status::{AppCpu, ContainerCpu, ContainerMemory, ContainerQos, Status, Which};
use crate::bytes::Bytes;
use crate::cores::Cores;
use bloc_leases::Part;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
/// A name, its help, and a figure of `C`, if it has one.
type Figure<C, V> = (&'static str, &'static str, fn(&C) -> V);

/// The metrics of one moment.
///
/// # Errors
/// If formatting fails, which does not happen with a string.
pub fn encode(status: &Status, config_ok: bool) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let cpu: Vec<(Labels, &ContainerCpu)> = status
        .cpu
        .iter()
        .flat_map(|(app, of)| of.containers.iter().map(move |container| (labels(app, &container.which), container)))
        .collect();
    let memory: Vec<(Labels, &ContainerMemory)> = status
        .memory
        .iter()
        .flat_map(|(app, of)| of.containers.iter().map(move |container| (labels(app, &container.which), container)))
        .collect();
    let qos: Vec<(Labels, &ContainerQos)> = status
        .qos
        .iter()
        .flat_map(|(app, of)| of.containers.iter().map(move |container| (labels(app, &container.which), container)))
        .collect();
    gauges(&mut registry, &cpu, &CPU);
    gauges(&mut registry, &qos, &QOS);
    gauges(&mut registry, &memory, &MEMORY);
    counters(
        &mut registry,
        &cpu,
        &[("bloc_node_foreign_writes", "Quotas that somebody else has written", |of| of.which.foreign)],
    );
    counters(
        &mut registry,
        &qos,
        &[("bloc_node_qos_foreign_writes", "Shares that somebody else has written", |of| of.which.foreign)],
    );
    let apps: Vec<_> = status.qos.iter().map(|(app, of)| (vec![("app", app.clone())], of)).collect();
    gauges(
        &mut registry,
        &apps,
        &[("bloc_node_qos_target_seconds", "The response time to be kept", |of| Some(of.target.as_secs_f64()))],
    );
    counters(
        &mut registry,
        &memory,
        &[("bloc_node_memory_foreign_writes", "Limits that somebody else has written", |of| of.which.foreign)],
    );
    let kills: Vec<_> = status
        .memory
        .iter()
        .flat_map(|(app, of)| of.oom_kills.iter().map(move |(pod, kills)| (app, pod, kills)))
        .map(|(app, pod, kills)| (vec![("app", app.clone()), ("pod", pod.clone())], kills))
        .collect();
    counters(&mut registry, &kills, &[("bloc_node_oom_kills", "Processes killed for lack of memory", |kills| *kills)]);
    let apps: Vec<_> = status.cpu.iter().map(|(app, of)| (vec![("app", app.clone())], of)).collect();
    gauges(
        &mut registry,
        &apps,
        &[
            ("bloc_node_app_cpu_limit_cores", "The limit in force", |of| Some(of.limit.get())),
            ("bloc_node_app_cpu_free_cores", "What no container has of it", |of| Some(of.free.get())),
        ],
    );
    gauges(&mut registry, &apps, &LEASES);
    let apps: Vec<_> = status.memory.iter().map(|(app, of)| (vec![("app", app.clone())], of)).collect();
    gauges(
        &mut registry,
        &apps,
        &[
            ("bloc_node_app_memory_limit_bytes", "The limit in force", |of| Some(amount(of.limit))),
            ("bloc_node_app_memory_pool_bytes", "What no container has of it", |of| Some(amount(of.pool))),
        ],
    );
    counters(
        &mut registry,
        &apps,
        &[
            ("bloc_node_memory_grants", "Memory given to containers that asked", |of| of.grants),
            ("bloc_node_memory_refused_grants", "Nobody had what a container lacks", |of| of.refused_grants),
        ],
    );
    let whole = |registry: &mut Registry, name, help, value: bool| {
        let gauge: Gauge = Gauge::default();
        gauge.set(value.into());
        registry.register(name, help, gauge);
    };
    whole(&mut registry, "bloc_node_enforcing", "1 if quotas and limits are written", status.enforcing);
    whole(&mut registry, "bloc_node_config_ok", "0 if the configuration is refused", config_ok);
    for (name, help, count) in [
        ("bloc_node_steps", "Steps of 100 ms", status.steps),
        ("bloc_node_writes", "Quotas, limits and shares written", status.writes),
    ] {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
    let errors: Vec<_> =
        status.errors.iter().map(|(kind, count)| (vec![("kind", (*kind).to_owned())], count)).collect();
    counters(&mut registry, &errors, &[("bloc_node_errors", "Failures", |count| *count)]);
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

const CPU: [Figure<ContainerCpu, Option<f64>>; 5] = [
    ("bloc_node_cpu_quota_cores", "What a container may use", |of| of.quota.map(Cores::get)),
    ("bloc_node_cpu_used_cores", "Its use in the last second", |of| Some(of.used.get())),
    ("bloc_node_cpu_slack_cores", "Quota minus use", |of| of.slack().map(Cores::get)),
    ("bloc_node_cpu_throttled_ratio", "The share of periods in which it was throttled", |of| Some(of.throttled)),
    ("bloc_node_cpu_managed", "1 if it is under the limit", |of| Some(f64::from(u8::from(of.which.managed)))),
];

const LEASES: [Figure<AppCpu, Option<f64>>; 4] = [
    ("bloc_node_lease_part_ratio", "What this node may use of a limit over nodes", |of| Some(ratio(of.lease?.part))),
    ("bloc_node_lease_goal_ratio", "What it is to keep of that", |of| Some(ratio(of.lease?.goal))),
    ("bloc_node_lease_held_ratio", "What is in force", |of| Some(ratio(of.lease?.held))),
    ("bloc_node_lease_age_seconds", "Since when nobody has said what this node holds", |of| {
        Some(of.lease?.age.as_secs_f64())
    }),
];

fn ratio(part: Part) -> f64 {
    part.times(1.0)
}

const QOS: [Figure<ContainerQos, Option<f64>>; 4] = [
    ("bloc_node_cpu_shares", "CPU shares of a container", |of| Some(of.shares)),
    ("bloc_node_cpu_shares_requested", "What its requests give", |of| Some(of.requested)),
    ("bloc_node_qos_managed", "1 if its shares move", |of| Some(f64::from(u8::from(of.which.managed)))),
    ("bloc_node_qos_response_seconds", "The mean response time of its pod", |of| of.response),
];

const MEMORY: [Figure<ContainerMemory, Option<f64>>; 4] = [
    ("bloc_node_memory_limit_bytes", "The limit of a container", |of| of.limit.map(amount)),
    ("bloc_node_memory_used_bytes", "Its working set", |of| Some(amount(of.used))),
    ("bloc_node_memory_slack_bytes", "Limit minus use", |of| of.slack().map(amount)),
    ("bloc_node_memory_managed", "1 if it is under the limit", |of| Some(f64::from(u8::from(of.which.managed)))),
];

fn amount(bytes: Bytes) -> f64 {
    bytes.get() as f64
}

fn labels(app: &str, which: &Which) -> Labels {
    vec![("app", app.to_owned()), ("pod", which.pod.clone()), ("container", which.container.clone())]
}

fn gauges<C>(registry: &mut Registry, of: &[(Labels, &C)], figures: &[Figure<C, Option<f64>>]) {
    for (name, help, figure) in figures {
        let family = Gauges::default();
        for (labels, one) in of {
            if let Some(value) = figure(one) {
                family.get_or_create(labels).set(value);
            }
        }
        registry.register(*name, *help, family);
    }
}

fn counters<C>(registry: &mut Registry, of: &[(Labels, &C)], figures: &[Figure<C, u64>]) {
    for (name, help, figure) in figures {
        let family: Family<Labels, Counter> = Family::default();
        for (labels, one) in of {
            family.get_or_create(labels).inc_by(figure(one));
        }
        registry.register(*name, *help, family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::status::{AppLease, AppMemory, AppQos};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn which(pod: &str, managed: bool, foreign: u64) -> Which {
        Which { pod: pod.to_owned(), container: "app".to_owned(), managed, foreign }
    }

    #[test]
    fn shows_every_container_and_counter() {
        let container = ContainerCpu {
            which: which("checkout-0", true, 4),
            quota: Some(Cores::milli(500)),
            used: Cores::milli(125),
            throttled: 0.25,
        };
        let unlimited = ContainerCpu { which: which("b", false, 4), quota: None, ..container.clone() };
        let part = Part::millionths;
        let lease = AppLease {
            part: part(500_000),
            goal: part(250_000),
            held: part(375_000),
            age: Duration::from_millis(1_500),
        };
        let containers = vec![container, unlimited];
        let cpu = AppCpu { limit: Cores::new(2.0), free: Cores::milli(750), lease: Some(lease), containers };
        let container = ContainerMemory {
            which: which("checkout-0", true, 5),
            limit: Some(Bytes::new(2_048)),
            used: Bytes::new(512),
        };
        let unlimited = ContainerMemory { which: which("b", false, 0), limit: None, ..container.clone() };
        let memory = AppMemory {
            limit: Bytes::new(4_096),
            pool: Bytes::new(1_024),
            grants: 8,
            refused_grants: 9,
            oom_kills: BTreeMap::from([("checkout-0".to_owned(), 6)]),
            containers: vec![container, unlimited],
        };
        let container =
            ContainerQos { which: which("checkout-0", true, 2), shares: 520.5, requested: 512.0, response: Some(0.25) };
        let unjudged = ContainerQos { which: which("b", false, 0), response: None, ..container.clone() };
        let qos = AppQos { target: Duration::from_millis(200), containers: vec![container, unjudged] };
        let status = Status {
            cpu: BTreeMap::from([("shop/checkout".to_owned(), cpu)]),
            memory: BTreeMap::from([("shop/checkout".to_owned(), memory)]),
            qos: BTreeMap::from([("shop/checkout".to_owned(), qos)]),
            enforcing: true,
            steps: 7,
            writes: 3,
            errors: BTreeMap::from([("read", 2)]),
        };
        let text = encode(&status, false).unwrap();
        let of = r#"{app="shop/checkout",pod="checkout-0",container="app"}"#;
        let b = of.replace("checkout-0", "b");
        for line in [
            format!("bloc_node_cpu_quota_cores{of} 0.5"),
            format!("bloc_node_cpu_used_cores{of} 0.125"),
            format!("bloc_node_cpu_slack_cores{of} 0.375"),
            format!("bloc_node_cpu_throttled_ratio{of} 0.25"),
            format!("bloc_node_cpu_managed{of} 1.0"),
            format!("bloc_node_cpu_managed{b} 0.0"),
            format!("bloc_node_cpu_shares{of} 520.5"),
            format!("bloc_node_cpu_shares_requested{of} 512.0"),
            format!("bloc_node_qos_managed{of} 1.0"),
            format!("bloc_node_qos_managed{b} 0.0"),
            format!("bloc_node_qos_response_seconds{of} 0.25"),
            format!("bloc_node_qos_foreign_writes_total{of} 2"),
            r#"bloc_node_qos_target_seconds{app="shop/checkout"} 0.2"#.to_owned(),
            format!("bloc_node_memory_limit_bytes{of} 2048.0"),
            format!("bloc_node_memory_used_bytes{of} 512.0"),
            format!("bloc_node_memory_slack_bytes{of} 1536.0"),
            format!("bloc_node_memory_managed{of} 1.0"),
            format!("bloc_node_memory_managed{b} 0.0"),
            r#"bloc_node_oom_kills_total{app="shop/checkout",pod="checkout-0"} 6"#.to_owned(),
            format!("bloc_node_memory_foreign_writes_total{of} 5"),
            r#"bloc_node_app_cpu_limit_cores{app="shop/checkout"} 2.0"#.to_owned(),
            r#"bloc_node_app_cpu_free_cores{app="shop/checkout"} 0.75"#.to_owned(),
            r#"bloc_node_lease_part_ratio{app="shop/checkout"} 0.5"#.to_owned(),
            r#"bloc_node_lease_goal_ratio{app="shop/checkout"} 0.25"#.to_owned(),
            r#"bloc_node_lease_held_ratio{app="shop/checkout"} 0.375"#.to_owned(),
            r#"bloc_node_lease_age_seconds{app="shop/checkout"} 1.5"#.to_owned(),
            r#"bloc_node_app_memory_limit_bytes{app="shop/checkout"} 4096.0"#.to_owned(),
            r#"bloc_node_app_memory_pool_bytes{app="shop/checkout"} 1024.0"#.to_owned(),
            r#"bloc_node_memory_grants_total{app="shop/checkout"} 8"#.to_owned(),
            r#"bloc_node_memory_refused_grants_total{app="shop/checkout"} 9"#.to_owned(),
            "bloc_node_enforcing 1".to_owned(),
            "bloc_node_config_ok 0".to_owned(),
            "bloc_node_steps_total 7".to_owned(),
            "bloc_node_writes_total 3".to_owned(),
            r#"bloc_node_errors_total{kind="read"} 2"#.to_owned(),
            format!("bloc_node_foreign_writes_total{of} 4"),
            "# EOF".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        for name in
            ["cpu_quota_cores", "cpu_slack_cores", "memory_limit_bytes", "memory_slack_bytes", "qos_response_seconds"]
        {
            assert_eq!(text.matches(&format!("bloc_node_{name}{{")).count(), 1, "{name}");
        }
    }
}
