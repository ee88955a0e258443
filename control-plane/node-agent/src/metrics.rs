//! The metrics of the agent, for Prometheus (OpenMetrics text). Their help texts are the
//! documentation.

use crate::agent::status::{Status, Which};
use crate::bytes::Bytes;
use crate::cores::Cores;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
/// What has values, and its labels.
type Rows<'a, T> = Vec<(Labels, &'a T)>;

/// The metrics at one moment.
pub fn encode(status: &Status, config_ok: bool) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let r = &mut registry;

    let rows = containers(&status.cpu, |app| &app.containers, |of| &of.which);
    let help = "CPU quota of a container; when observing, the quota that it would get; missing if unlimited";
    gauge(r, "bloc_node_cpu_quota_cores", help, &rows, |of| of.quota.map(Cores::get));
    gauge(r, "bloc_node_cpu_used_cores", "CPU use in the last second", &rows, |of| Some(of.used.get()));
    let help = "Quota minus use; in observe mode, with the quota that it would get";
    gauge(r, "bloc_node_cpu_slack_cores", help, &rows, |of| of.slack().map(Cores::get));
    let help = "Share of the kernel's periods in which the container was throttled by the quota in force, 0 to 1";
    gauge(r, "bloc_node_cpu_throttled_ratio", help, &rows, |of| Some(of.throttled));
    let help = "1 if the container is under the limit; 0 if it is new, its quota was written by somebody else, \
        a file cannot be read or written, or the limit has no room";
    gauge(r, "bloc_node_cpu_managed", help, &rows, |of| Some(of.which.managed.into()));
    counter(r, "bloc_node_foreign_writes", "Quotas written by somebody else", &rows, |of| of.which.foreign);

    let rows = apps(&status.cpu);
    gauge(r, "bloc_node_app_cpu_limit_cores", "CPU limit in force", &rows, |of| Some(of.limit.get()));
    let help = "Part of the CPU limit that no container has";
    gauge(r, "bloc_node_app_cpu_free_cores", help, &rows, |of| Some(of.free.get()));
    let help = "Part of a cluster-wide limit that this node may use, 0 to 1";
    gauge(r, "bloc_node_lease_part_ratio", help, &rows, |of| Some(of.lease?.part.times(1.0)));
    let help = "What this node is to keep of its part, because other nodes need the rest";
    gauge(r, "bloc_node_lease_goal_ratio", help, &rows, |of| Some(of.lease?.goal.times(1.0)));
    let help = "Part that is in force: the limit on this node, or more while quotas fall";
    gauge(r, "bloc_node_lease_held_ratio", help, &rows, |of| Some(of.lease?.held.times(1.0)));
    let help = "Time since a replica of the control plane last confirmed what this node holds";
    gauge(r, "bloc_node_lease_age_seconds", help, &rows, |of| Some(of.lease?.age.as_secs_f64()));

    let rows = containers(&status.qos, |app| &app.containers, |of| &of.which);
    let help = "CPU shares of a container in QoS mode, 1024 for a core; when observing, what they would be";
    gauge(r, "bloc_node_cpu_shares", help, &rows, |of| Some(of.shares));
    let help = "CPU shares that the container's requests give it";
    gauge(r, "bloc_node_cpu_shares_requested", help, &rows, |of| Some(of.requested));
    let help = "1 if the container's shares move; 0 if it is new, its shares were written by somebody else, \
        or they cannot be read or written";
    gauge(r, "bloc_node_qos_managed", help, &rows, |of| Some(of.which.managed.into()));
    let help = "Mean response time of the container's pod when it was last judged; missing before";
    gauge(r, "bloc_node_qos_response_seconds", help, &rows, |of| of.response);
    counter(r, "bloc_node_qos_foreign_writes", "Shares written by somebody else", &rows, |of| of.which.foreign);
    let help = "Target of the mean response time";
    gauge(r, "bloc_node_qos_target_seconds", help, &apps(&status.qos), |of| Some(of.target.as_secs_f64()));

    let bytes = |bytes: Bytes| bytes.get() as f64;
    let rows = containers(&status.memory, |app| &app.containers, |of| &of.which);
    let help = "Memory limit of a container, at which it gets more; when observing, what it would be; \
        missing if unlimited";
    gauge(r, "bloc_node_memory_limit_bytes", help, &rows, |of| of.limit.map(bytes));
    let help = "Working set: memory in use without inactive page cache";
    gauge(r, "bloc_node_memory_used_bytes", help, &rows, |of| Some(bytes(of.used)));
    gauge(r, "bloc_node_memory_slack_bytes", "Memory limit minus use", &rows, |of| of.slack().map(bytes));
    let help = "1 if the container is under the memory limit; 0 for the same reasons as for CPU";
    gauge(r, "bloc_node_memory_managed", help, &rows, |of| Some(of.which.managed.into()));
    let help = "Memory limits written by somebody else";
    counter(r, "bloc_node_memory_foreign_writes", help, &rows, |of| of.which.foreign);

    let rows = apps(&status.memory);
    gauge(r, "bloc_node_app_memory_limit_bytes", "Memory limit in force", &rows, |of| Some(bytes(of.limit)));
    let help = "Part of the memory limit that no container has";
    gauge(r, "bloc_node_app_memory_pool_bytes", help, &rows, |of| Some(bytes(of.pool)));
    counter(r, "bloc_node_memory_grants", "Grants of memory to containers at their limit", &rows, |of| of.grants);
    let help = "Failed grants: no container could spare memory; counted each second while this lasts";
    counter(r, "bloc_node_memory_refused_grants", help, &rows, |of| of.refused_grants);
    let mut rows = Vec::new();
    for (app, of) in &status.memory {
        let row = |(pod, kills)| (vec![("app", app.clone()), ("pod", String::clone(pod))], kills);
        rows.extend(of.oom_kills.iter().map(row));
    }
    let help = "Processes of a pod that the kernel killed for lack of memory, since the pod started";
    counter(r, "bloc_node_oom_kills", help, &rows, |kills| *kills);

    let flags = [
        ("bloc_node_enforcing", "1 with mode: enforce", status.enforcing),
        ("bloc_node_config_ok", "0 if the configuration is refused; the last good one stays in force", config_ok),
    ];
    for (name, help, value) in flags {
        let gauge: Gauge = Gauge::default();
        gauge.set(value.into());
        r.register(name, help, gauge);
    }
    let counts = [
        ("bloc_node_steps", "Steps of 100 ms", status.steps),
        ("bloc_node_writes", "Quotas, limits and shares written", status.writes),
    ];
    for (name, help, count) in counts {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        r.register(name, help, counter);
    }
    let errors = status.errors.iter().map(|(kind, count)| (vec![("kind", (*kind).to_owned())], count));
    let help = "Failures by kind. read, write: a group; in_use: a memory limit was not lowered because more is \
        in use; state: the files in --state; limit: the limit has no room; burst: a group with a burst, which is \
        left alone; config, pods: the configuration or the pods cannot be read; control-plane: a report \
        or a question to it failed; lease: a request for leases failed";
    counter(r, "bloc_node_errors", help, &errors.collect(), |count| *count);

    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn apps<A>(apps: &BTreeMap<String, A>) -> Rows<'_, A> {
    apps.iter().map(|(app, of)| (vec![("app", app.clone())], of)).collect()
}

fn containers<A, C>(apps: &BTreeMap<String, A>, of: fn(&A) -> &[C], which: fn(&C) -> &Which) -> Rows<'_, C> {
    let all = apps.iter().flat_map(|(app, it)| of(it).iter().map(move |container| (app, container)));
    let row = |(app, container): (&String, _)| {
        let Which { pod, container: name, .. } = which(container);
        (vec![("app", app.clone()), ("pod", pod.clone()), ("container", name.clone())], container)
    };
    all.map(row).collect()
}

fn gauge<T>(registry: &mut Registry, name: &str, help: &str, rows: &Rows<'_, T>, of: impl Fn(&T) -> Option<f64>) {
    let family: Family<Labels, Gauge<f64, AtomicU64>> = Family::default();
    for (labels, row) in rows {
        if let Some(value) = of(row) {
            family.get_or_create(labels).set(value);
        }
    }
    registry.register(name, help, family);
}

fn counter<T>(registry: &mut Registry, name: &str, help: &str, rows: &Rows<'_, T>, of: impl Fn(&T) -> u64) {
    let family: Family<Labels, Counter> = Family::default();
    for (labels, row) in rows {
        family.get_or_create(labels).inc_by(of(row));
    }
    registry.register(name, help, family);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::status::{AppCpu, AppLease, AppMemory, AppQos, ContainerCpu, ContainerMemory, ContainerQos};
    use bloc_leases::Part;
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
