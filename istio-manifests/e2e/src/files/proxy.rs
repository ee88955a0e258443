//! An Envoy whose whole configuration comes from istiod.

use super::dump::Dump;
use super::istiod;
use crate::api::{PATIENCE, eventually};
use crate::programs::start;
use crate::tools::Tools;
use anyhow::{Context, Result};
use bloc_mesh::process::Process;
use serde_json::{Value, json};
use std::path::Path;

/// A running Envoy.
pub struct Proxy {
    /// Its name in logs and in istiod.
    pub name: String,
    /// Its own address.
    pub address: String,
    /// Its process.
    pub process: Process,
}

impl Proxy {
    /// Starts it: `kind` is `sidecar` or `router`, and `istio` the value of its label `istio`, by
    /// which a Gateway selects it.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start(tools: &Tools, logs: &Path, kind: &str, name: &str, address: &str, istio: &str) -> Result<Self> {
        let file = logs.join(format!("{name}.json"));
        std::fs::write(&file, bootstrap(kind, name, address, istio).to_string())?;
        let (envoy, file) = (tools.envoy.display().to_string(), file.display().to_string());
        let arguments = ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"];
        let command = [envoy.as_str(), "-c", &file].into_iter().chain(arguments);
        let process = start(name, logs, command).await?;
        Ok(Self { name: name.to_owned(), address: address.to_owned(), process })
    }

    /// Waits until `check` accepts its configuration.
    ///
    /// # Errors
    /// The last error of `check`.
    pub async fn has(&mut self, check: impl Fn(&Dump) -> Result<()>) -> Result<()> {
        let what = format!("the configuration of the Envoy {}", self.name);
        let has = eventually(&what, async || check(&self.dump().await?).map(Some)).await;
        // If the process has ended, that is the error to report.
        self.process.check()?;
        has
    }

    /// Its configuration.
    ///
    /// # Errors
    /// No answer.
    pub async fn dump(&self) -> Result<Dump> {
        Dump::read(&self.admin("/config_dump").await?)
    }

    /// A statistic of our filters by its name without the prefix `wasmcustom.bloc.`; 0 if it does
    /// not exist.
    ///
    /// # Errors
    /// No answer.
    pub async fn statistic(&self, name: &str) -> Result<i64> {
        let text = self.admin("/stats?filter=wasmcustom").await?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("wasmcustom.bloc.")?.split_once(": "));
        Ok(lines.find(|(found, _)| *found == name).map_or(Ok(0), |(_, value)| value.parse())?)
    }

    /// The admin interface's answer.
    ///
    /// # Errors
    /// No answer.
    async fn admin(&self, path: &str) -> Result<String> {
        let answer = reqwest::Client::new().get(format!("http://{}:15000{path}", self.address)).timeout(PATIENCE);
        answer.send().await?.error_for_status()?.text().await.with_context(|| self.name.clone())
    }
}

/// The bootstrap as a pod's agent would write it: the proxy's identity, and istiod's address.
fn bootstrap(kind: &str, name: &str, address: &str, istio: &str) -> Value {
    let socket = |address: &str, port: u16| json!({"socket_address": {"address": address, "port_value": port}});
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let http2 = json!({"@type": format!("type.googleapis.com/{options}"), "explicit_http_config": {"http2_protocol_options": {}}});
    let source = json!({"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"});
    json!({
        "node": {
            "id": format!("{kind}~{address}~{name}.shop~shop.svc.cluster.local"),
            "cluster": format!("{name}.shop"),
            "metadata": {
                "NAME": name,
                "NAMESPACE": "shop",
                "CLUSTER_ID": istiod::CLUSTER_ID,
                "ISTIO_VERSION": istiod::VERSION,
                "MESH_ID": "cluster.local",
                "INTERCEPTION_MODE": "NONE",
                "SERVICE_ACCOUNT": "default",
                "WORKLOAD_NAME": name,
                "INSTANCE_IPS": address,
                "LABELS": {"bloc.dev/proxy": "enabled", "proxy": name, "istio": istio},
                "PROXY_CONFIG": {"discoveryAddress": format!("{}:{}", istiod::ADDRESS, istiod::PORT)},
            },
        },
        "admin": {"address": socket(address, 15000)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "istiod"}}],
            },
            "cds_config": source,
            "lds_config": source,
        },
        "static_resources": {"clusters": [{
            "name": "istiod",
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": {options: http2},
            "load_assignment": {
                "cluster_name": "istiod",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(istiod::ADDRESS, istiod::PORT)}}]}],
            },
        }]},
    })
}
