//! A Prometheus like a cluster operator's: outside of the mesh, without a certificate, with the
//! scrape targets of the manifests and the shipped alert rules, but [`rules::FASTER`] times as
//! fast.
//!
//! What it must find is not here but in `scenario/metrics`.
//!
//! Prometheus itself, Debian's, is real. Replaced are the discovery of pods ([`discovery`]), which
//! Debian's lacks, and the operator ([`monitor`]).

mod discovery;
pub mod monitor;
pub mod rules;

use crate::api::{Api, PATIENCE, eventually};
use crate::inside::{SCRATCH, program};
use crate::mesh::Mesh;
use crate::programs::start;
use anyhow::{Context, Result, ensure};
use bloc_mesh::process::Process;
use monitor::{MONITORS, PodMonitor, SCRAPE_MS};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const ADDRESS: &str = "127.0.0.1:9090";
const LOOK: Duration = Duration::from_millis(300);
const PODS: &str = "/api/v1/pods";
/// The job of a Prometheus that uses annotations.
pub const ANNOTATED: &str = "annotations";

/// A series and its value now.
#[derive(Debug)]
pub struct Sample {
    /// Its labels, including `__name__`.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// A scrape target.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The label `job`.
    pub job: String,
    /// The label `pod`.
    pub pod: String,
    /// Whether the last scrape succeeded.
    pub up: bool,
    /// The error of the last scrape.
    pub error: String,
}

/// A running Prometheus; it ends when this is dropped.
pub struct Prometheus {
    client: reqwest::Client,
    discovery: JoinHandle<()>,
    _process: Process,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

impl Prometheus {
    /// Starts one with these rules, which scrapes according to the cluster's PodMonitors and
    /// annotations.
    ///
    /// # Errors
    /// It does not start, or refuses its configuration.
    pub async fn start(mesh: &Mesh, rules: &str) -> Result<Self> {
        let folder = PathBuf::from(SCRATCH).join("prometheus");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let file = |name: &str| folder.join(name);
        let targets = file("targets.json");
        discovery::write(&mesh.api.list(PODS).await?, &targets)?;
        std::fs::write(file("rules.json"), rules)?;
        std::fs::write(file("prometheus.json"), configuration(&mesh.api, &file("rules.json"), &targets).await?)?;
        let command = [
            program("prometheus")?.display().to_string(),
            format!("--config.file={}", file("prometheus.json").display()),
            format!("--storage.tsdb.path={}", file("data").display()),
            format!("--web.listen-address={ADDRESS}"),
            // The default of five minutes, at the speed of the rules.
            format!("--query.lookback-delta={}s", 5 * 60 / rules::FASTER),
        ];
        let process = start("prometheus", &mesh.logs, command).await?;
        let discovery = tokio::spawn(discover(mesh.api.clone(), targets));
        let mut prometheus = Self { client: reqwest::Client::new(), discovery, _process: process };
        eventually("a ready Prometheus", async || {
            prometheus._process.check()?;
            let answer = prometheus.client.get(format!("http://{ADDRESS}/-/ready")).send().await?;
            Ok(answer.status().is_success().then_some(()))
        })
        .await?;
        Ok(prometheus)
    }

    /// The samples that a query returns.
    ///
    /// # Errors
    /// The query is invalid, or returns no vector.
    pub async fn query(&self, query: &str) -> Result<Vec<Sample>> {
        let data = self.get(&format!("query?query={}", encoded(query))).await.with_context(|| query.to_owned())?;
        let samples = data["result"].as_array().with_context(|| format!("{query}: no vector"))?.iter().map(|sample| {
            let labels: BTreeMap<String, String> = serde_json::from_value(sample["metric"].clone())?;
            let value = sample["value"][1].as_str().context("no value")?.parse()?;
            Ok(Sample { labels, value })
        });
        samples.collect::<Result<_>>().with_context(|| query.to_owned())
    }

    /// The result of a query that returns one number.
    ///
    /// # Errors
    /// It returns none, or several, or one that is not finite.
    pub async fn number(&self, query: &str) -> Result<f64> {
        let samples = self.query(query).await?;
        ensure!(samples.len() == 1 && samples[0].value.is_finite(), "{query}: not a number: {samples:?}");
        Ok(samples[0].value)
    }

    /// The scrape targets, in order.
    ///
    /// # Errors
    /// No answer.
    pub async fn targets(&self) -> Result<BTreeSet<Target>> {
        let data = self.get("targets?state=active").await?;
        let target = |target: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (labels, up) = (&target["labels"], target["health"] == "up");
            Target { job: text(&labels["job"]), pod: text(&labels["pod"]), up, error: text(&target["lastError"]) }
        };
        Ok(data["activeTargets"].as_array().into_iter().flatten().map(target).collect())
    }

    /// The alerts that fire.
    ///
    /// # Errors
    /// No answer.
    pub async fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.get("alerts").await?;
        let firing = data["alerts"].as_array().into_iter().flatten().filter(|alert| alert["state"] == "firing");
        Ok(firing.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(format!("http://{ADDRESS}/api/v1/{path}")).timeout(PATIENCE).send().await?;
        let mut answer: Value = answer.json().await?;
        ensure!(answer["status"] == "success", "{answer}");
        Ok(answer["data"].take())
    }
}

/// Its configuration, as JSON.
async fn configuration(api: &Api, rules: &Path, targets: &Path) -> Result<String> {
    let mut jobs = vec![by_annotations(targets)];
    // The definition is missing on a cluster without the operator; then there are no jobs.
    if api.get(MONITORS).await?.is_some() {
        for monitor in api.list(MONITORS).await? {
            let name = monitor["metadata"]["name"].to_string();
            let monitor: PodMonitor = serde_json::from_value(monitor).context(name)?;
            jobs.extend(monitor.jobs(targets)?);
        }
    }
    let interval = format!("{SCRAPE_MS}ms");
    let all = json!({
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [rules],
        "scrape_configs": jobs,
    });
    Ok(all.to_string())
}

/// As in Prometheus' chart. A PodMonitor's job has scraped the same already, so all samples are
/// dropped: otherwise they would count twice.
fn by_annotations(targets: &Path) -> Value {
    let annotation = |name: &str| format!("__meta_kubernetes_pod_annotation_prometheus_io_{name}");
    json!({
        "job_name": ANNOTATED,
        "file_sd_configs": [{"files": [targets]}],
        "relabel_configs": [
            {"source_labels": [annotation("scrape")], "action": "keep", "regex": "true"},
            {"source_labels": [annotation("path")], "regex": "(.+)", "target_label": "__metrics_path__"},
            {"source_labels": ["__meta_kubernetes_pod_ip", annotation("port")], "separator": ":", "regex": r"(.+:\d+)", "target_label": "__address__"},
            {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        ],
        "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": ".*", "action": "drop"}],
    })
}

/// Keeps the file of targets up to date with the pods.
async fn discover(api: Api, file: PathBuf) {
    loop {
        sleep(LOOK).await;
        if let Ok(pods) = api.list(PODS).await {
            // An error shows in the targets.
            let _ = discovery::write(&pods, &file);
        }
    }
}

/// A text as a value in a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
