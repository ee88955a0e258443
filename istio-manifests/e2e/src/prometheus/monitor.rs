//! Turns a PodMonitor into a job of Prometheus' configuration, as the Prometheus operator does.
//!
//! It follows version 0.85 of the operator, for the shipped fields; any other field is an error, so
//! that the test covers everything shipped. A file of targets ([`super::discovery`]) replaces
//! Kubernetes' discovery, which Debian's Prometheus lacks.

use super::discovery::sanitized;
use super::rules::{FASTER, duration};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The API server's path of PodMonitors.
pub const MONITORS: &str = "/apis/monitoring.coreos.com/v1/podmonitors";
/// The least time between two scrapes, in milliseconds: less than half of the shortest range in a
/// rule, which is 5 s.
pub(super) const SCRAPE_MS: u128 = 500;

/// A PodMonitor.
#[derive(Debug, Deserialize)]
pub struct PodMonitor {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    #[serde(default)]
    namespace_selector: Namespaces,
    selector: Selector,
    pod_metrics_endpoints: Vec<Endpoint>,
}

/// The namespaces of the pods; without `any` the monitor's own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Namespaces {
    any: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Endpoint {
    port: String,
    path: String,
    interval: String,
    #[serde(default)]
    honor_labels: bool,
    #[serde(default)]
    params: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    relabelings: Vec<Rule>,
    #[serde(default)]
    metric_relabelings: Vec<Rule>,
}

/// A relabelling rule, which Kubernetes and Prometheus spell differently.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all(serialize = "snake_case", deserialize = "camelCase"), deny_unknown_fields)]
struct Rule {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    source_labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    separator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replacement: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

impl PodMonitor {
    /// The jobs, for the targets in this file.
    ///
    /// # Errors
    /// An interval is not a duration.
    pub fn jobs(&self, targets: &Path) -> Result<Vec<Value>> {
        self.spec
            .pod_metrics_endpoints
            .iter()
            .enumerate()
            .map(|(at, endpoint)| self.job(at, endpoint, targets))
            .collect()
    }

    fn job(&self, at: usize, endpoint: &Endpoint, targets: &Path) -> Result<Value> {
        let Metadata { name, namespace } = &self.metadata;
        let mut rules = vec![json!({
            "action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)",
        })];
        if !self.spec.namespace_selector.any {
            rules.push(json!({"action": "keep", "source_labels": ["__meta_kubernetes_namespace"], "regex": namespace}));
        }
        for (label, value) in &self.spec.selector.match_labels {
            let label = sanitized(label);
            rules.push(json!({
                "action": "keep",
                "source_labels": [
                    format!("__meta_kubernetes_pod_label_{label}"), format!("__meta_kubernetes_pod_labelpresent_{label}"),
                ],
                "regex": format!("({value});true"),
            }));
        }
        rules.push(json!({
            "action": "keep", "source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": endpoint.port,
        }));
        for (source, label) in [("namespace", "namespace"), ("pod_container_name", "container"), ("pod_name", "pod")] {
            rules.push(json!({"source_labels": [format!("__meta_kubernetes_{source}")], "target_label": label}));
        }
        rules.push(json!({"target_label": "job", "replacement": format!("{namespace}/{name}")}));
        rules.push(json!({"target_label": "endpoint", "replacement": endpoint.port}));
        for rule in &endpoint.relabelings {
            rules.push(serde_json::to_value(rule)?);
        }
        let interval = duration(&endpoint.interval).with_context(|| format!("interval: {}", endpoint.interval))?;
        // At least two scrapes within the shortest range.
        let interval = format!("{}ms", (interval / FASTER).as_millis().max(SCRAPE_MS));
        Ok(json!({
            "job_name": format!("podMonitor/{namespace}/{name}/{at}"),
            "honor_labels": endpoint.honor_labels,
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "metrics_path": endpoint.path,
            "params": endpoint.params,
            "file_sd_configs": [{"files": [targets]}],
            "relabel_configs": rules,
            "metric_relabel_configs": endpoint.metric_relabelings,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// promtool is in Debian's package `prometheus`; `make test` leaves this test out without it.
    #[test]
    fn promtool_accepts_the_jobs_of_the_shipped_pod_monitors() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../metrics/podmonitors.yaml");
        let monitors: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap();
        let jobs = monitors.into_iter().flat_map(|mut monitor| {
            monitor["metadata"]["namespace"] = json!("bloc-system");
            serde_json::from_value::<PodMonitor>(monitor).unwrap().jobs(Path::new("targets.json")).unwrap()
        });
        let jobs: Vec<Value> = jobs.collect();
        assert_eq!(jobs.len(), 2);
        assert_eq!(
            [&jobs[0]["honor_labels"], &jobs[1]["params"]["filter"][0]],
            [&json!(true), &json!(r"^wasmcustom\.bloc\.")]
        );
        let last = jobs[1]["metric_relabel_configs"].as_array().unwrap().last().unwrap();
        assert_eq!(*last, json!({"regex": "__tmp_bloc", "action": "labeldrop"}));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prometheus.json");
        std::fs::write(&file, json!({"scrape_configs": jobs}).to_string()).unwrap();
        let output = Command::new("promtool").args(["check", "config"]).arg(&file).output();
        let output = output.expect("no promtool: sudo apt-get install -y --no-install-recommends prometheus");
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn refuses_an_unknown_field_of_a_pod_monitor() {
        let monitor = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"selector": {"matchLabels": {}}, "podMetricsEndpoints": [], "jobLabel": "app"},
        });
        assert!(serde_json::from_value::<PodMonitor>(monitor).unwrap_err().to_string().contains("jobLabel"));
    }
}
