//! The whole mesh: node, cluster, Istio; and what the scenarios do with it.

use crate::api::{Api, eventually};
use crate::cluster::Cluster;
use crate::istio::{self, ROOT, ready};
use crate::kubelet::{Kubelet, Pod};
use crate::node;
use crate::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// Consecutive looks, at [`crate::api::eventually`]'s interval, that must find no draining.
const LOOKS: usize = 5;

/// Marks the error of a request that hangs. A scenario that fails with it is not repeated.
pub const HUNG: &str = "a request had no answer in time";
/// How much longer a program in a pod may take than its request.
const GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// An answer.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, as text for a reader.
    pub headers: String,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// Gets a URL, with these headers; follows no redirect.
    ///
    /// # Errors
    /// No answer.
    pub async fn get(url: &str, headers: &[(&str, &str)]) -> Result<Self> {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let request = headers.iter().fold(client.get(url), |request, (name, value)| request.header(*name, *value));
        let answer = async {
            let answer = request.timeout(crate::api::PATIENCE).send().await?;
            let (status, headers) = (answer.status().as_u16(), format!("{:?}", answer.headers()));
            Ok(Self { status, headers, body: answer.text().await? })
        };
        answer.await.map_err(|error: reqwest::Error| match error.is_timeout() {
            true => anyhow::Error::new(error).context(HUNG),
            false => error.into(),
        })
    }
}

/// Everything that runs.
pub struct Mesh {
    /// The API server.
    pub api: Api,
    /// The node.
    pub kubelet: Kubelet,
    /// The programs.
    pub tools: Tools,
    /// Where the logs are.
    pub logs: PathBuf,
    cluster: Cluster,
}

impl Mesh {
    /// Brings up Istio on an empty cluster.
    ///
    /// # Errors
    /// A part is missing or does not get ready.
    pub async fn start(logs: &Path) -> Result<Self> {
        let tools = Tools::find()?;
        let _ = std::fs::remove_dir_all(logs);
        std::fs::create_dir_all(logs)?;
        node::make(&tools).context("the node")?;
        let cluster = Cluster::start(&tools, logs).await.context("the cluster")?;
        let kubelet = Kubelet::start(cluster.api.clone(), tools.clone(), logs.to_owned()).await.context("the node")?;
        istio::install(&cluster.api, &kubelet, &tools, logs).await.context("Istio")?;
        Ok(Self { api: cluster.api.clone(), kubelet, tools, logs: logs.to_owned(), cluster })
    }

    /// `kubectl apply -k` of a folder of istio-manifests/.
    ///
    /// # Errors
    /// The folder is refused.
    pub async fn apply_folder(&self, folder: &str) -> Result<String> {
        let folder = self.tools.manifests.join(folder);
        self.api.kubectl(["apply".as_ref(), "-k".as_ref(), folder.as_os_str()]).await
    }

    /// Defines PodMonitors, as the Prometheus operator does; a cluster without it lacks them.
    ///
    /// # Errors
    /// The definition is refused.
    pub async fn know_pod_monitors(&self) -> Result<()> {
        let definition = std::fs::read_to_string(self.tools.istio.join("podmonitors.yaml"))?;
        self.api.apply(&definition).await?;
        self.until("PodMonitors", async || Ok(self.api.get(crate::prometheus::monitor::MONITORS).await?.is_some()))
            .await
    }

    /// `kubectl delete -k` of a folder of istio-manifests/; waits for its end.
    ///
    /// # Errors
    /// The deletion is refused.
    pub async fn delete_folder(&self, folder: &str) -> Result<String> {
        let folder = self.tools.manifests.join(folder);
        self.api.kubectl(["delete".as_ref(), "--ignore-not-found".as_ref(), "-k".as_ref(), folder.as_os_str()]).await
    }

    /// Puts the module into a namespace, as the README says.
    ///
    /// # Errors
    /// The module is refused.
    pub async fn bring_module(&self, namespace: &str, module: &Path) -> Result<()> {
        let file = format!("--from-file=bloc.wasm={}", module.display());
        self.api.kubectl(["-n", namespace, "create", "configmap", "bloc-module", &file]).await.map(drop)
    }

    /// Waits until the Deployment `app` has `count` ready pods of its present version, and no
    /// others.
    ///
    /// # Errors
    /// They do not get ready.
    pub async fn ready(&self, namespace: &str, app: &str, count: usize) -> Result<()> {
        self.until(&format!("the rollout of {app} in {namespace}"), async || {
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{app}");
            let deployment = self.api.get(&path).await?.context("no such Deployment")?;
            let status = |name: &str| deployment["status"][name].as_u64().unwrap_or(0) == count as u64;
            let seen = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
            Ok(seen && status("updatedReplicas") && status("readyReplicas") && status("replicas"))
        })
        .await?;
        ready(&self.kubelet, namespace, "app", app, count).await
    }

    /// The only ingress gateway.
    ///
    /// # Errors
    /// It does not exist.
    pub fn gateway(&self) -> Result<Pod> {
        self.kubelet.pods(ROOT, "istio", "ingressgateway").into_iter().next().context("no gateway")
    }

    /// istioctl's output, on both streams.
    ///
    /// # Errors
    /// It failed, with its output.
    pub async fn istioctl(&self, arguments: &[&str]) -> Result<String> {
        let mut process = Command::new(self.tools.istio.join("istioctl"));
        process.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(crate::api::PATIENCE, process.output()).await.context("takes too long")??;
        let said = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned()).concat();
        if !output.status.success() {
            bail!("istioctl {}: {}", arguments[0], said.trim());
        }
        Ok(said)
    }

    /// The answer of the admin interface of a pod's Envoy, through Istio's agent as with `kubectl
    /// exec`.
    ///
    /// # Errors
    /// No answer.
    pub async fn admin(&self, pod: &Pod, path: &str) -> Result<String> {
        let agent = format!("{}/bin/pilot-agent", crate::inside::SCRATCH);
        self.exec(pod, &[&agent, "request", "GET", path]).await
    }

    /// The output of a program that runs in a pod.
    ///
    /// # Errors
    /// It failed.
    pub async fn exec(&self, pod: &Pod, command: &[&str]) -> Result<String> {
        let mut process = Command::new("nsenter");
        process.args(pod.sandbox.enter().into_iter().skip(1)).args(command).stdin(Stdio::null()).kill_on_drop(true);
        let limit = crate::api::PATIENCE + GRACE;
        let output = tokio::time::timeout(limit, process.output()).await.context("takes too long")??;
        if !output.status.success() {
            bail!("{command:?} in {}: {}", pod.name, String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The statistics of our filters in a pod's Envoy, by name without the prefix
    /// `wasmcustom.bloc.`.
    ///
    /// # Errors
    /// No answer.
    pub async fn statistics(&self, pod: &Pod) -> Result<BTreeMap<String, i64>> {
        let text = self.admin(pod, "stats?filter=wasmcustom").await?;
        let numbers = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.strip_prefix("wasmcustom.bloc.")?.to_owned(), value.parse().ok()?))
        });
        Ok(numbers.collect())
    }

    /// Sum over these pods of a statistic of the shop's backend, such as `inbound.admitted`.
    ///
    /// # Errors
    /// No answer.
    pub async fn sum(&self, pods: &[Pod], side: &str, name: &str) -> Result<i64> {
        let mut sum = 0;
        for pod in pods {
            let all = self.statistics(pod).await?;
            sum += all.get(&format!("{side}.backend.shop.svc.cluster.local.{name}")).copied().unwrap_or(0);
        }
        Ok(sum)
    }

    /// Configurations that a proxy has refused, from istiod's log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn refused_configurations(&self) -> Result<Vec<String>> {
        let istiod = self.kubelet.pods(ROOT, "app", "istiod").into_iter().next().context("no istiod")?;
        let log = std::fs::read_to_string(self.logs.join(format!("{}-discovery.log", istiod.name)))?;
        Ok(log.lines().filter(|line| line.contains("ACK ERROR")).map(str::to_owned).collect())
    }

    /// Calls the shop, through the gateway.
    ///
    /// # Errors
    /// No answer.
    pub async fn ask(&self, path: &str) -> Result<Answer> {
        Answer::get(&format!("http://{}:8080{path}", self.gateway()?.address), &[]).await
    }

    /// Calls `url` as an application in this pod would.
    ///
    /// # Errors
    /// No answer.
    pub async fn ask_from(&self, pod: &Pod, url: &str) -> Result<Answer> {
        let program = std::env::current_exe()?.display().to_string();
        let text = self.exec(pod, &[&program, "get", url]).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until an application in this pod gets an answer from there: a proxy learns of servers
    /// some time after they are ready.
    ///
    /// # Errors
    /// It gets none.
    pub async fn reaches(&self, pod: &Pod, url: &str) -> Result<()> {
        self.until(&format!("an answer for {} from {url}", pod.name), async || {
            let answer = self.ask_from(pod, url).await?;
            ensure!(answer.status == 200, "{answer:?}");
            Ok(true)
        })
        .await
    }

    /// Waits until no proxy drains replaced listeners: at the end of a drain Envoy closes their
    /// connections, with the requests in them (guide.md). A change reaches the proxies a moment
    /// after it was accepted, so one look is not enough.
    ///
    /// # Errors
    /// A proxy does not end draining.
    pub async fn drained(&self) -> Result<()> {
        let mut looks = 0;
        self.until("the end of all draining", async || {
            let before = std::mem::take(&mut looks);
            looks = if self.drains().await? { 0 } else { before + 1 };
            Ok(looks == LOOKS)
        })
        .await
    }

    /// Whether a ready proxy drains listeners.
    ///
    /// # Errors
    /// A proxy does not answer.
    pub async fn drains(&self) -> Result<bool> {
        for pod in self.kubelet.proxied().iter().filter(|pod| pod.ready) {
            let stats = "http://127.0.0.1:15000/stats?filter=listener_manager.*draining";
            let stats = self.ask_from(pod, stats).await?.body;
            let numbers: Vec<&str> =
                stats.lines().filter_map(|line| line.split_once(": ").map(|(_, number)| number)).collect();
            ensure!(numbers.len() == 2, "{}: not the two statistics of draining: {stats}", pod.name);
            if numbers != ["0", "0"] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until nothing drains and the shop answers 15 times in a row: proxies also learn late
    /// of pods that are gone, and a request to one is lost.
    ///
    /// # Errors
    /// It does not.
    pub async fn settled(&self) -> Result<()> {
        self.drained().await?;
        self.until("15 answers in a row", async || {
            for _ in 0..15 {
                let answer = self.ask("/").await?;
                ensure!(answer.status == 200, "{answer:?}");
            }
            Ok(true)
        })
        .await
    }

    /// The shop's backends.
    pub fn backends(&self) -> Vec<Pod> {
        self.kubelet.pods("shop", "app", "backend")
    }

    /// The shop's frontends.
    pub fn frontends(&self) -> Vec<Pod> {
        self.kubelet.pods("shop", "app", "frontend")
    }

    /// Writes the parameters of a namespace's backend, fields as in `{...}`, into that namespace's
    /// ConfigMap.
    ///
    /// # Errors
    /// The ConfigMap is refused.
    pub async fn set_parameters(&self, namespace: &str, fields: &str) -> Result<()> {
        self.set_services(namespace, &[("backend", &format!("{{{fields}}}"))]).await
    }

    /// The same for these services of a namespace, and no others; parameters as `{...}`.
    ///
    /// # Errors
    /// The ConfigMap is refused.
    pub async fn set_services(&self, namespace: &str, services: &[(&str, &str)]) -> Result<()> {
        let shipped = std::fs::read_to_string(self.tools.manifests.join("samples/shop-bloc/policy.yaml"))?;
        let head = shipped
            .split("  services.yaml:")
            .next()
            .unwrap_or_default()
            .replace("namespace: shop", &format!("namespace: {namespace}"));
        let services: String =
            services.iter().map(|(name, parameters)| format!("      {name}: {parameters}\n")).collect();
        let text = format!("{head}  services.yaml: |\n    services:\n{services}");
        let file = self.logs.join(format!("policy-{namespace}.yaml"));
        std::fs::write(&file, text)?;
        self.api.kubectl(["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await.map(drop)
    }

    /// Waits until every backend of the shop has this capacity.
    ///
    /// # Errors
    /// It does not happen.
    pub async fn capacity_in_force(&self, capacity: i64) -> Result<()> {
        self.until(&format!("a capacity of {capacity} in every backend"), async || {
            let mut others = Vec::new();
            for pod in self.backends() {
                let all = self.statistics(&pod).await?;
                let name = "inbound.backend.shop.svc.cluster.local.capacity";
                if all.get(name) != Some(&capacity) {
                    others.push(format!("{}: {all:?}", pod.name));
                }
            }
            if !others.is_empty() {
                // A filter learns its service from its first request.
                self.ask("/").await?;
            }
            ensure!(others.is_empty(), "not in {}", others.join("; "));
            Ok(true)
        })
        .await
    }

    /// Waits until `condition` holds.
    ///
    /// # Errors
    /// It does not.
    pub async fn until(&self, what: &str, mut condition: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        eventually(what, async || Ok(condition().await?.then_some(()))).await
    }

    /// Whether the cluster still runs.
    ///
    /// # Errors
    /// A part of it has ended.
    pub fn check(&mut self) -> Result<()> {
        self.cluster.check()
    }
}
