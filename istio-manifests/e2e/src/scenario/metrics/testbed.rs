//! What the scenarios of this chapter share: names, and a Prometheus that scrapes the mesh.

use crate::mesh::Mesh;
use crate::prometheus::Prometheus;
use crate::prometheus::rules::faster;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// The backend's host, as Envoy writes it in the name of a metric.
pub(super) const BACKEND: &str = "backend_shop_svc_cluster_local";
pub(super) const HOST: &str = "backend.shop.svc.cluster.local";
pub(super) const PROXIES: &str = "bloc-system/bloc-proxies";

/// The shipped alert rules, faster.
fn rules(mesh: &Mesh) -> Result<String> {
    let file = repository(mesh)?.join("control-plane/dashboards/alerts.yaml");
    faster(&std::fs::read_to_string(&file)?).with_context(|| file.display().to_string())
}

pub(super) fn repository(mesh: &Mesh) -> Result<PathBuf> {
    Ok(mesh.tools.manifests.parent().context("istio-manifests/ lies in the repository")?.to_owned())
}

/// A Prometheus with these rules, once it scrapes every sidecar that has the label.
pub(super) async fn prometheus(mesh: &Mesh) -> Result<Prometheus> {
    let prometheus = Prometheus::start(mesh, &rules(mesh)?).await?;
    let expected = mesh.frontends().len() + mesh.backends().len();
    mesh.until("targets", async || {
        let targets = prometheus.targets().await?;
        Ok(targets.iter().filter(|target| target.job == PROXIES && target.up).count() == expected)
    })
    .await?;
    Ok(prometheus)
}
