//! What the agent shows, for Prometheus (OpenMetrics text).
//!
//! | metric | kind | meaning |
//! |---|---|---|
//! | `bloc_node_cpu_quota_cores{app,pod,container}` | gauge | what a container may use; when observing, what it would; missing without a limit |
//! | `bloc_node_cpu_used_cores{app,pod,container}` | gauge | its use in the last second |
//! | `bloc_node_cpu_slack_cores{app,pod,container}` | gauge | quota minus use; when observing, of the quota that it would have |
//! | `bloc_node_cpu_throttled_ratio{app,pod,container}` | gauge | the share of the kernel's periods in which it was throttled, 0 to 1; by the quota in force |
//! | `bloc_node_cpu_managed{app,pod,container}` | gauge | 1 if it is under the limit; 0 if it has just come, somebody else has written its quota, a file cannot be read or written, or the limit leaves no room |
//! | `bloc_node_app_cpu_limit_cores{app}` | gauge | the limit in force |
//! | `bloc_node_app_cpu_free_cores{app}` | gauge | what no container has of it |
//! | `bloc_node_enforcing` | gauge | 1 with `mode: enforce` |
//! | `bloc_node_config_ok` | gauge | 0 if the configuration is refused; the last good one stays in force |
//! | `bloc_node_steps_total` | counter | steps of 100 ms |
//! | `bloc_node_writes_total` | counter | quotas written |
//! | `bloc_node_foreign_writes_total{app,pod,container}` | counter | quotas that somebody else has written |
//! | `bloc_node_errors_total{kind}` | counter | failures: `read`, `write` of a group; `state`, the file of the originals; `limit`, no room; `burst`, a group with a burst, which is left alone; `config`, `pods`: the configuration or the pods cannot be read |

use crate::agent::status::{ContainerStatus, Status};
use crate::cores::Cores;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// The content type of [`encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
/// A figure of a container, if it has one.
type Value = fn(&ContainerStatus) -> Option<f64>;
type Real = Family<Labels, Gauge<f64, AtomicU64>>;

/// The metrics of one moment.
///
/// # Errors
/// If formatting fails, which does not happen with a string.
pub fn encode(status: &Status, config_ok: bool) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    containers(&mut registry, status);
    apps(&mut registry, status);
    let whole = |registry: &mut Registry, name, help, value: bool| {
        let gauge: Gauge = Gauge::default();
        gauge.set(value.into());
        registry.register(name, help, gauge);
    };
    whole(&mut registry, "bloc_node_enforcing", "1 if quotas are written", status.enforcing);
    whole(&mut registry, "bloc_node_config_ok", "0 if the configuration is refused", config_ok);
    for (name, help, count) in
        [("bloc_node_steps", "Steps of 100 ms", status.steps), ("bloc_node_writes", "Quotas written", status.writes)]
    {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
    let counters: [(_, _, Vec<(Labels, u64)>); 2] = [
        (
            "bloc_node_foreign_writes",
            "Quotas that somebody else has written",
            status
                .apps
                .iter()
                .flat_map(|(app, status)| status.containers.iter().map(move |container| (app, container)))
                .map(|(app, of)| (labels(app, &of.pod, &of.container), of.foreign))
                .collect(),
        ),
        (
            "bloc_node_errors",
            "Failures",
            status.errors.iter().map(|(kind, count)| (vec![("kind", (*kind).to_owned())], *count)).collect(),
        ),
    ];
    for (name, help, values) in counters {
        let family: Family<Labels, Counter> = Family::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        registry.register(name, help, family);
    }
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

fn labels(app: &str, pod: &str, container: &str) -> Labels {
    vec![("app", app.to_owned()), ("pod", pod.to_owned()), ("container", container.to_owned())]
}

fn containers(registry: &mut Registry, status: &Status) {
    let gauges: [(_, _, Value); 5] = [
        ("bloc_node_cpu_quota_cores", "What a container may use", |of| of.quota.map(Cores::get)),
        ("bloc_node_cpu_used_cores", "Its use in the last second", |of| Some(of.used.get())),
        ("bloc_node_cpu_slack_cores", "Quota minus use", |of| of.slack().map(Cores::get)),
        ("bloc_node_cpu_throttled_ratio", "The share of periods in which it was throttled", |of| Some(of.throttled)),
        ("bloc_node_cpu_managed", "1 if it is under the limit", |of| Some(f64::from(u8::from(of.managed)))),
    ];
    for (name, help, value) in gauges {
        let family = Real::default();
        for (app, status) in &status.apps {
            for container in &status.containers {
                if let Some(value) = value(container) {
                    family.get_or_create(&labels(app, &container.pod, &container.container)).set(value);
                }
            }
        }
        registry.register(name, help, family);
    }
}

fn apps(registry: &mut Registry, status: &Status) {
    let (limit, free) = (Real::default(), Real::default());
    for (app, status) in &status.apps {
        let labels = vec![("app", app.clone())];
        limit.get_or_create(&labels).set(status.limit.get());
        free.get_or_create(&labels).set(status.free.get());
    }
    registry.register("bloc_node_app_cpu_limit_cores", "The limit in force", limit);
    registry.register("bloc_node_app_cpu_free_cores", "What no container has of it", free);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::status::AppStatus;
    use std::collections::BTreeMap;

    #[test]
    fn shows_every_container_and_counter() {
        let container = ContainerStatus {
            pod: "checkout-0".to_owned(),
            container: "app".to_owned(),
            quota: Some(Cores::milli(500)),
            used: Cores::milli(125),
            throttled: 0.25,
            managed: true,
            foreign: 4,
        };
        let unlimited = ContainerStatus { pod: "b".to_owned(), quota: None, managed: false, ..container.clone() };
        let app = AppStatus { limit: Cores::new(2.0), free: Cores::milli(750), containers: vec![container, unlimited] };
        let status = Status {
            apps: BTreeMap::from([("shop/checkout".to_owned(), app)]),
            enforcing: true,
            steps: 7,
            writes: 3,
            errors: BTreeMap::from([("read", 2)]),
        };
        let text = encode(&status, false).unwrap();
        let of = r#"{app="shop/checkout",pod="checkout-0",container="app"}"#;
        for line in [
            format!("bloc_node_cpu_quota_cores{of} 0.5"),
            format!("bloc_node_cpu_used_cores{of} 0.125"),
            format!("bloc_node_cpu_slack_cores{of} 0.375"),
            format!("bloc_node_cpu_throttled_ratio{of} 0.25"),
            format!("bloc_node_cpu_managed{of} 1.0"),
            format!("bloc_node_cpu_managed{} 0.0", of.replace("checkout-0", "b")),
            r#"bloc_node_app_cpu_limit_cores{app="shop/checkout"} 2.0"#.to_owned(),
            r#"bloc_node_app_cpu_free_cores{app="shop/checkout"} 0.75"#.to_owned(),
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
        assert_eq!(text.matches("bloc_node_cpu_quota_cores{").count(), 1);
        assert_eq!(text.matches("bloc_node_cpu_slack_cores{").count(), 1);
    }
}
