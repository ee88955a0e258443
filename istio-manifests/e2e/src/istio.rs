//! Istio, installed as `istioctl` would: with the profile `default`, its istiod and its ingress
//! gateway in pods.

use crate::api::{Api, eventually};
use crate::inside::SCRATCH;
use crate::kubelet::Kubelet;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use std::path::Path;
use tokio::process::Command;

/// The root namespace.
pub const ROOT: &str = "istio-system";

/// The deviations from the profile: Envoy is stock Envoy, which lacks Istio's own filters; it and
/// the agent are at other paths; replaced listeners drain for 5 seconds instead of 45, since the
/// tests wait for the end of it.
fn profile() -> String {
    format!(
        "apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  profile: default
  meshConfig:
    enablePrometheusMerge: false
    accessLogFile: /etc/istio/proxy/access.log
    defaultConfig:
      drainDuration: 5s
      # How often requests were sent and sent again, and over which HTTP, by Envoy's own count.
      proxyStatsMatcher: {{inclusionRegexps: ['.*upstream_(rq_(total|retry)|cx_http[12]_total)$']}}
      binaryPath: {SCRATCH}/bin/envoy
      proxyBootstrapTemplatePath: {SCRATCH}/bin/envoy_bootstrap.json
  values:
    telemetry: {{enabled: false}}
    pilot:
      autoscaleEnabled: false
      env:
        PILOT_ENABLE_METADATA_EXCHANGE: 'false'
        PILOT_ENABLE_ALPN_FILTER: 'false'
        PILOT_DISABLE_MX_ALPN: 'true'
        PILOT_ENABLE_GATEWAY_API: 'false'
"
    )
}

/// mTLS everywhere.
const STRICT: &str = "apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
";

/// Installs it and waits until istiod and the gateway are ready.
///
/// # Errors
/// A resource is refused, or a part does not get ready.
pub async fn install(api: &Api, kubelet: &Kubelet, tools: &Tools, work: &Path) -> Result<()> {
    let file = work.join("istio-profile.yaml");
    std::fs::write(&file, profile())?;
    let mut generate = Command::new(tools.istio.join("istioctl"));
    generate.args(["manifest", "generate", "-f"]).arg(&file).kill_on_drop(true);
    let generated = generate.output().await.context("istioctl manifest generate")?;
    if !generated.status.success() {
        bail!("istioctl manifest generate: {}", String::from_utf8_lossy(&generated.stderr));
    }
    api.kubectl(["create", "namespace", ROOT]).await?;
    let manifest = String::from_utf8(generated.stdout)?;
    // Resources are refused until their definitions exist.
    eventually("the installation of Istio", async || api.apply(&manifest).await.map(Some)).await?;
    ready(kubelet, ROOT, "app", "istiod", 1).await?;
    eventually("the webhooks", async || api.apply(STRICT).await.map(Some)).await?;
    ready(kubelet, ROOT, "istio", "ingressgateway", 1).await
}

/// Waits for so many ready pods with this label, and no others.
///
/// # Errors
/// They do not get ready; with the error of one that did not start.
pub async fn ready(kubelet: &Kubelet, namespace: &str, label: &str, value: &str, count: usize) -> Result<()> {
    eventually(&format!("{count} ready pods with {label}={value} in {namespace}"), async || {
        let pods = kubelet.pods(namespace, label, value);
        if let Some(pod) = pods.iter().find(|pod| pod.error.is_some()) {
            bail!("{}: {}", pod.name, pod.error.as_deref().unwrap_or_default());
        }
        Ok((pods.len() == count && pods.iter().all(|pod| pod.ready)).then_some(()))
    })
    .await
}
