//! A kubelet with the parts that this mesh needs: it gives each pod of the API server namespaces
//! and an address, mounts the pod's volumes, starts the programs that replace its images, probes
//! them, and reports.
//!
//! The network and the programs of the node are not here but in `node`.
//!
//! It does not isolate like containers: a pod sees the files of this machine, and resources are not
//! limited. Control groups are [files](groups).

mod container;
mod environment;
mod groups;
mod sandbox;
mod text;
mod volumes;

pub use sandbox::Sandbox;

use crate::api::Api;
use crate::cluster::NODE;
use crate::tools::Tools;
use anyhow::{Context, Result};
use bloc_mesh::process::Process;
use container::Stage;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use text::text;
use tokio::time::sleep;

/// The node's name.
const NAME: &str = "node";
const POLL: Duration = Duration::from_millis(300);

/// Additional arguments of programs that replace images, by the name of the container.
pub type Extras = BTreeMap<String, Vec<String>>;

/// The node's agent.
#[derive(Clone)]
pub struct Kubelet {
    api: Api,
    tools: Tools,
    logs: PathBuf,
    pods: Arc<Mutex<BTreeMap<String, Pod>>>,
    extras: Arc<Mutex<Extras>>,
}

/// A pod on this node.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its address.
    pub address: Ipv4Addr,
    /// Whether its readiness probes succeed.
    pub ready: bool,
    /// Its namespaces; when they are dropped, all their programs end.
    pub sandbox: Arc<Sandbox>,
    /// Why it did not start.
    pub error: Option<String>,
}

impl Kubelet {
    /// A node that runs all pods; their logs go to `logs`.
    ///
    /// # Errors
    /// The API server refuses the node.
    pub async fn start(api: Api, tools: Tools, logs: PathBuf) -> Result<Self> {
        groups::make_tree()?;
        let labels = json!({"kubernetes.io/os": "linux"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": labels}});
        api.send(reqwest::Method::POST, "/api/v1/nodes", "application/json", &node).await?;
        // The API server taints a new node until that is ready.
        api.merge(&format!("/api/v1/nodes/{NAME}"), &json!({"spec": {"taints": null}})).await?;
        let kubelet = Self { api, tools, logs, pods: Arc::default(), extras: Arc::default() };
        tokio::spawn(kubelet.clone().run());
        Ok(kubelet)
    }

    /// Arguments for the containers of this name that start from now on.
    pub fn tell(&self, container: &str, arguments: &[&str]) {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        self.extras.lock().unwrap_or_else(PoisonError::into_inner).insert(container.to_owned(), arguments);
    }

    /// The pods with this label in this namespace, by name.
    pub fn pods(&self, namespace: &str, label: &str, value: &str) -> Vec<Pod> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |pod: &&Pod| pod.namespace == namespace && pod.labels.get(label).is_some_and(|it| it == value);
        pods.values().filter(wanted).cloned().collect()
    }

    /// The pods with a proxy from Istio, including gateways, by name.
    pub fn proxied(&self) -> Vec<Pod> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        // Istio's webhook adds this label.
        let proxied = |pod: &&Pod| pod.labels.contains_key("service.istio.io/canonical-name");
        pods.values().filter(proxied).cloned().collect()
    }

    async fn run(self) {
        let (mut next, mut failures) = (u32::from(Ipv4Addr::new(10, 77, 1, 0)), 0);
        loop {
            // A single failure is ignored: the API server may be starting.
            failures = match self.look(&mut next).await {
                Ok(()) => 0,
                Err(error) if failures == 5 => {
                    eprintln!("kubelet: {error:#}");
                    6
                }
                Err(_) => failures + 1,
            };
            sleep(POLL).await;
        }
    }

    async fn look(&self, next: &mut u32) -> Result<()> {
        let pods = self.api.list("/api/v1/pods").await?;
        let ids: BTreeMap<String, Value> = pods.into_iter().map(|pod| (text(&pod["metadata"]["uid"]), pod)).collect();
        let known: Vec<String> = {
            let mut running = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            running.retain(|id, _| ids.get(id).is_some_and(|pod| !leaves(pod)));
            running.keys().cloned().collect()
        };
        for pod in ids.values().filter(|pod| leaves(pod)) {
            // The pod's programs have just been killed, without a real kubelet's grace period.
            let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
            let _ = self.api.send(reqwest::Method::DELETE, &path(pod), "application/json", &now).await;
        }
        for (id, spec) in ids.into_iter().filter(|(id, pod)| !known.contains(id) && !leaves(pod)) {
            *next += 1;
            let address = Ipv4Addr::from(*next);
            let metadata = &spec["metadata"];
            let labels = metadata["labels"].as_object().into_iter().flatten();
            let pod = Pod {
                name: text(&metadata["name"]),
                namespace: text(&metadata["namespace"]),
                labels: labels.map(|(name, value)| (name.clone(), text(value))).collect(),
                address,
                ready: false,
                sandbox: Arc::new(Sandbox::start(&text(&metadata["name"]), &self.logs, address).await?),
                error: None,
            };
            self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), pod.clone());
            let kubelet = self.clone();
            tokio::spawn(async move {
                if let Err(error) = kubelet.keep(&id, pod, spec).await {
                    let message = format!("{error:#}");
                    kubelet.change(&id, |pod| pod.error = Some(message.clone()));
                    eprintln!("kubelet: {message}");
                }
            });
        }
        self.name_services().await
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Pod)) -> bool {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.get_mut(id).map(change).is_some()
    }

    /// Starts a pod and probes it until it is gone.
    async fn keep(&self, id: &str, pod: Pod, mut spec: Value) -> Result<()> {
        let path = path(&spec);
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name}, "target": {"kind": "Node", "name": NAME}});
        self.api.send(reqwest::Method::POST, &format!("{path}/binding"), "application/json", &binding).await?;
        spec["spec"]["nodeName"] = json!(NAME);
        spec["status"]["podIP"] = json!(pod.address);
        spec["status"]["hostIP"] = json!(NODE);
        self.report(&path, &spec, &pod, false).await?;
        groups::make(&spec)?;
        volumes::mount(&self.api, &spec, &pod.sandbox, &self.logs.join(&pod.name)).await.context(pod.name.clone())?;
        let mut running: Vec<Process> = Vec::new();
        for container in container::all(&spec) {
            let extras = self.extras.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let extra = extras.get(&container.name).map_or(&[][..], Vec::as_slice);
            let command = container.command(&self.tools, &spec, extra)?;
            let name = format!("{}-{}", pod.name, container.name);
            let mut process = pod.sandbox.run(&name, &self.logs, &command).await?;
            match container.stage {
                Stage::Init => container::finish(&mut process).await.with_context(|| name.clone())?,
                // The containers after a sidecar wait for it; the pilot-agent needs some seconds.
                Stage::Sidecar => {
                    while !container.is_ready(pod.address).await {
                        process.check()?;
                        if !self.change(id, |_| ()) {
                            return Ok(());
                        }
                        sleep(POLL).await;
                    }
                    running.push(process);
                }
                Stage::Main => running.push(process),
            }
        }
        let mut reported = false;
        loop {
            for process in &mut running {
                process.check()?;
            }
            let mut ready = true;
            for container in container::all(&spec).filter(|container| container.stage != Stage::Init) {
                ready = ready && container.is_ready(pod.address).await;
            }
            if !self.change(id, |pod| pod.ready = ready) {
                return Ok(());
            }
            if ready != reported {
                self.report(&path, &spec, &pod, ready).await?;
                reported = ready;
            }
            sleep(POLL).await;
        }
    }

    async fn report(&self, path: &str, spec: &Value, pod: &Pod, ready: bool) -> Result<()> {
        let state = if ready { "True" } else { "False" };
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let status = |kind: &str| if kind.contains("Ready") { state } else { "True" };
        let containers = volumes::array(&spec["spec"]["containers"]).enumerate().map(|(nth, container)| {
            let id = format!("containerd://{}", groups::id(spec, nth));
            json!({"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0, "ready": ready,
                   "containerID": id,
                   "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
        });
        let status = json!({"status": {
            "phase": "Running",
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "hostIP": NODE,
            "conditions": conditions.map(|kind| json!({"type": kind, "status": status(kind)})),
            "containerStatuses": containers.collect::<Vec<Value>>(),
        }});
        self.api.merge(&format!("{path}/status"), &status).await.map(drop)
    }

    /// Writes the names into `/etc/hosts`: those of services with the service's address, which the
    /// sidecars capture; that of istiod, which the sidecars call themselves, with its pod's; those
    /// of services without an address with those of all their pods that are ready.
    async fn name_services(&self) -> Result<()> {
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for service in self.api.list("/api/v1/services").await? {
            let (name, namespace) = (text(&service["metadata"]["name"]), text(&service["metadata"]["namespace"]));
            let istiod = self.pods(&namespace, "app", "istiod").first().map(|pod| pod.address.to_string());
            let addresses = match istiod {
                Some(address) if name == "istiod" => vec![address],
                _ if service["spec"]["clusterIP"] == "None" => self.behind(&namespace, &service["spec"]["selector"]),
                _ => vec![text(&service["spec"]["clusterIP"])],
            };
            let names = format!("{name}.{namespace}.svc.cluster.local {name}.{namespace}.svc {name}.{namespace}");
            hosts.extend(addresses.iter().map(|address| format!("{address} {names}\n")));
        }
        if std::fs::read_to_string("/etc/hosts").is_ok_and(|now| now == hosts) {
            return Ok(());
        }
        Ok(std::fs::write("/etc/hosts", hosts)?)
    }

    /// The addresses of the ready pods with these labels.
    fn behind(&self, namespace: &str, selector: &Value) -> Vec<String> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let labels: Vec<(&String, String)> =
            selector.as_object().into_iter().flatten().map(|(name, value)| (name, text(value))).collect();
        let is_behind = |pod: &&Pod| {
            let has = |(name, value): &(&String, String)| pod.labels.get(*name) == Some(value);
            pod.ready && pod.namespace == namespace && !labels.is_empty() && labels.iter().all(has)
        };
        pods.values().filter(is_behind).map(|pod| pod.address.to_string()).collect()
    }
}

/// The path of a pod.
fn path(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Whether it is being deleted.
fn leaves(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}
