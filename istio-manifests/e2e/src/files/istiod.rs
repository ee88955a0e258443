//! istiod without an API server: it reads its resources from a folder, and proxies connect in plain
//! text.

use super::addresses::{FRONTEND, GATEWAY, SERVICE};
use crate::api::{Api, PATIENCE, eventually};
use crate::programs::start;
use crate::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use bloc_mesh::process::Process;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Its address, which is also that of the control plane.
pub const ADDRESS: &str = "127.77.0.1";
/// Its port for proxies.
pub const PORT: u16 = 15010;
/// istiod's name for its cluster.
pub const CLUSTER_ID: &str = "Kubernetes";
/// The version that build.sh builds.
pub const VERSION: &str = "1.29.1";

/// The folders of istio-manifests/ whose EnvoyFilters are tested.
const FOLDERS: [&str; 3] = ["overlays/everything", "samples/shop-bloc/service", "samples/shop-bloc/strip"];
/// The module's path in the manifests; here it is replaced by that of the build.
const MODULE: &str = "/etc/bloc/bloc.wasm";
/// Switches off Istio's own filters, which stock Envoy lacks.
const ENVIRONMENT: [&str; 8] = [
    "ENABLE_CA_SERVER=false",
    "PILOT_ENABLE_ALPN_FILTER=false",
    "PILOT_ENABLE_METADATA_EXCHANGE=false",
    "PILOT_DISABLE_MX_ALPN=true",
    "PILOT_DEBOUNCE_AFTER=50ms",
    "POD_NAME=istiod",
    "POD_NAMESPACE=istio-system",
    "CLUSTER_ID=Kubernetes",
];
/// After this time a file is written again, in case istiod has missed it.
const OVERLOOKED: Duration = Duration::from_secs(3);
/// Longer than istiod takes to notice that a file is gone.
const GONE: Duration = Duration::from_millis(500);

/// A running istiod.
pub struct Istiod {
    /// Its process.
    pub process: Process,
    log: PathBuf,
}

/// A resource, in a file of its own.
struct Resource {
    kind: String,
    name: String,
    file: PathBuf,
    text: String,
}

impl Istiod {
    /// Starts it for these backends (name, address, port of the application), and waits until it
    /// has read everything.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start(tools: &Tools, logs: &Path, backends: &[(&str, &str, u16)]) -> Result<Self> {
        let folder = logs.join("configuration");
        std::fs::create_dir(&folder)?;
        let mut resources = shipped(tools, &folder).await?;
        resources.extend(mesh(backends).into_iter().map(|value| {
            let [kind, name] = ["/kind", "/metadata/name"]
                .map(|field| value.pointer(field).and_then(Value::as_str).unwrap_or_default());
            Resource::new(kind, name, value.to_string(), &folder)
        }));
        let mesh = logs.join("mesh.yaml");
        std::fs::write(&mesh, mesh_config(&folder).to_string())?;
        let flags = [
            "discovery".to_owned(),
            format!("--meshConfig={}", mesh.display()),
            "--registries=".to_owned(),
            "--networksConfig=/dev/null".to_owned(),
            format!("--grpcAddr={ADDRESS}:{PORT}"),
            "--secureGRPCAddr=".to_owned(),
            format!("--httpAddr={ADDRESS}:15080"),
            "--httpsAddr=".to_owned(),
            format!("--monitoringAddr={ADDRESS}:15014"),
            format!("--ctrlz_address={ADDRESS}"),
        ];
        let program = tools.istio.join("pilot-discovery").display().to_string();
        let command =
            ["env".to_owned()].into_iter().chain(ENVIRONMENT.map(str::to_owned)).chain([program]).chain(flags);
        let mut process = start("istiod", logs, command).await?;
        bring(&mut process, &resources).await?;
        Ok(Self { process, log: logs.join("istiod.log") })
    }

    /// Configurations that a proxy has refused, from its log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn refused_configurations(&self) -> Result<Vec<String>> {
        let log = std::fs::read_to_string(&self.log)?;
        ensure!(log.contains("LDS: PUSH"), "istiod's log does not say that it has sent anything");
        Ok(log.lines().filter(|line| line.contains("ACK ERROR")).map(str::to_owned).collect())
    }
}

impl Resource {
    fn new(kind: &str, name: &str, text: String, folder: &Path) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), file: folder.join(format!("{kind}-{name}.yaml")), text }
    }
}

/// Writes the resources into istiod's folder, and waits until it has read all of them.
async fn bring(process: &mut Process, resources: &[Resource]) -> Result<()> {
    // istiod misses some of the files that exist when it starts.
    eventually("istiod", async || {
        process.check()?;
        debug("configz").await.map(Some)
    })
    .await?;
    write(&resources.iter().collect::<Vec<_>>())?;
    let mut written = Instant::now();
    eventually("all of the configuration in istiod", async || {
        process.check()?;
        let read: Vec<Value> = serde_json::from_str(&debug("configz").await?)?;
        let services = debug("registryz").await?;
        let is_there = |it: &&Resource| {
            read.iter().any(|read| read["kind"] == it.kind && read["metadata"]["name"] == it.name)
                && (it.kind != "ServiceEntry" || services.contains(&format!("\"{}.", it.name)))
        };
        let missing: Vec<&Resource> = resources.iter().filter(|resource| !is_there(resource)).collect();
        if missing.is_empty() {
            return Ok(Some(()));
        }
        if written.elapsed() > OVERLOOKED {
            for resource in &missing {
                std::fs::remove_file(&resource.file)?;
            }
            sleep(GONE).await;
            write(&missing)?;
            written = Instant::now();
        }
        bail!("without {}", missing.iter().map(|it| format!("{} {}", it.kind, it.name)).collect::<Vec<_>>().join(", "))
    })
    .await
}

fn write(resources: &[&Resource]) -> Result<()> {
    resources.iter().try_for_each(|resource| Ok(std::fs::write(&resource.file, &resource.text)?))
}

/// A debug page of istiod.
async fn debug(page: &str) -> Result<String> {
    let request = reqwest::Client::new().get(format!("http://{ADDRESS}:15014/debug/{page}"));
    Ok(request.timeout(PATIENCE).send().await?.error_for_status()?.text().await?)
}

/// The EnvoyFilters as `kubectl apply -k` would send them, except for the module's path.
async fn shipped(tools: &Tools, folder: &Path) -> Result<Vec<Resource>> {
    let api = Api::new(tools.kube.join("kubectl"), "/dev/null".into(), "");
    let module = tools.module.display().to_string();
    let mut filters = Vec::new();
    let mut modules = 0;
    for shipped in FOLDERS {
        let path = tools.manifests.join(shipped);
        let built = api.kubectl(["kustomize".as_ref(), path.as_os_str()]).await?;
        for text in built.split("\n---\n").filter(|text| text.contains("\nkind: EnvoyFilter\n")) {
            // In kustomize's output, only the name in the metadata has this indent.
            let name =
                text.lines().find_map(|line| line.strip_prefix("  name: ")).context("a filter without a name")?;
            modules += text.matches(MODULE).count();
            filters.push(Resource::new("EnvoyFilter", name, text.replace(MODULE, &module), folder));
        }
    }
    ensure!(modules == 3, "the module {MODULE} is named {modules} times, not once for each filter");
    Ok(filters)
}

/// istiod's configuration, as JSON, which is also YAML.
fn mesh_config(folder: &Path) -> Value {
    json!({
        "configSources": [{"address": format!("fs://{}", folder.display())}],
        "rootNamespace": "istio-system",
        "trustDomain": "cluster.local",
        "ingressControllerMode": "OFF",
        "enableAutoMtls": false,
        "enablePrometheusMerge": false,
        "enableTracing": false,
        "defaultConfig": {"discoveryAddress": format!("{ADDRESS}:{PORT}")},
    })
}

/// The services and workloads that a cluster would report, and listeners at their own addresses
/// instead of captured traffic.
fn mesh(backends: &[(&str, &str, u16)]) -> Vec<Value> {
    let networking = "networking.istio.io/v1";
    let resource = |version: &str, kind: &str, namespace: &str, name: &str, spec: &Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    let port = |number: u16| json!({"number": number, "name": format!("http-{number}"), "protocol": "HTTP"});
    let service = |namespace: &str, name: &str, number: u16, endpoints: &Value| {
        let host = format!("{name}.{namespace}.svc.cluster.local");
        let ports = [port(number)];
        let spec = json!({"hosts": [host], "location": "MESH_INTERNAL", "resolution": "STATIC", "ports": ports, "endpoints": endpoints});
        resource(networking, "ServiceEntry", namespace, name, &spec)
    };
    let calls = |address: &str, number: u16, hosts: &str| json!({"bind": address, "captureMode": "NONE", "port": port(number), "hosts": [hosts]});
    let sidecar = |name: &str, ingress: &[Value], egress: &[Value]| {
        let selector = json!({"labels": {"proxy": name}});
        let spec = json!({"workloadSelector": selector, "ingress": ingress, "egress": egress});
        resource(networking, "Sidecar", "shop", name, &spec)
    };
    // istiod takes a proxy's labels from the endpoint with its address.
    let endpoint = |(name, address, _): &(&str, &str, u16)| json!({"address": address, "labels": {"bloc.dev/proxy": "enabled", "proxy": name}});
    let endpoints: Vec<Value> = backends.iter().map(endpoint).collect();
    let server = json!({"bind": GATEWAY, "hosts": ["*"], "port": port(8080)});
    let gateway = json!({"selector": {"istio": "ingressgateway"}, "servers": [server]});
    let destination = json!({"destination": {"host": SERVICE, "port": {"number": 8080}}});
    // The manifests change the back-off of routes with this name.
    let route = json!({"hosts": ["*"], "gateways": ["shop"], "http": [{"name": "bloc", "route": [destination]}]});
    let plain = json!({"mtls": {"mode": "DISABLE"}});
    let control_plane = |address: &str| calls(address, 7080, "bloc-system/*");
    let mut resources = vec![
        resource("security.istio.io/v1", "PeerAuthentication", "istio-system", "default", &plain),
        service("shop", "backend", 8080, &json!(endpoints)),
        service("bloc-system", "bloc-control-plane", 7080, &json!([{"address": ADDRESS}])),
        sidecar("frontend", &[], &[calls(FRONTEND, 8080, "shop/*"), control_plane(FRONTEND)]),
        resource(networking, "Gateway", "shop", "shop", &gateway),
        resource(networking, "VirtualService", "shop", "shop", &route),
    ];
    for (name, address, application) in backends {
        let serves = json!({"bind": address, "captureMode": "NONE", "port": port(8080), "defaultEndpoint": format!("127.0.0.1:{application}")});
        resources.push(sidecar(name, &[serves], &[control_plane(address)]));
    }
    resources
}
