//! Leaving: one workload, then everything, as in the README.

use crate::kubelet::Pod;
use crate::mesh::Mesh;
use anyhow::{Result, bail, ensure};

/// New pods without the label have no filters, and still get requests.
pub async fn a_workload_without_the_label_loses_the_filters(mesh: &Mesh) -> Result<()> {
    let patch = r#"{"spec": {"template": {"metadata": {"labels": {"bloc.dev/proxy": null}}}}}"#;
    mesh.api.kubectl(["-n", "shop", "patch", "deployment", "backend", "-p", patch]).await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.settled().await?;
    for _ in 0..30 {
        let answer = mesh.ask("/").await?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    for pod in mesh.backends() {
        ensure!(mesh.statistics(&pod).await?.is_empty(), "{} has the filters", pod.name);
    }
    Ok(())
}

/// Traces of BLOC in a proxy's configuration, except for the workload's own label.
const TRACES: [&str; 6] =
    ["bloc.inbound", "bloc.outbound", "bloc.attempt", "x-bloc-endpoints", "x-bloc-bid", "bloc-control-plane"];

/// Filters first, then the control plane, then the shop's parts of BLOC.
pub async fn uninstalling_leaves_nothing_in_the_cluster(mesh: &Mesh) -> Result<()> {
    for folder in
        ["samples/shop-bloc/http2", "samples/shop-bloc/service", "samples/shop-bloc/strip", "overlays/everything"]
    {
        mesh.delete_folder(folder).await?;
    }
    mesh.api.kubectl(["-n", "shop", "delete", "configmap", "bloc-policy", "bloc-module"]).await?;
    mesh.until("proxies without a trace of it", async || {
        for pod in mesh.frontends().iter().chain(&mesh.backends()).chain([&mesh.gateway()?]) {
            let dump = mesh.admin(pod, "config_dump").await?;
            if let Some(line) = dump.lines().position(|line| TRACES.iter().any(|trace| line.contains(trace))) {
                let around = dump.lines().skip(line.saturating_sub(8)).take(16).collect::<Vec<_>>().join("\n");
                bail!("{} has {around}", pod.name);
            }
        }
        Ok(true)
    })
    .await?;
    let kinds = "all,configmaps,serviceaccounts,clusterroles,clusterrolebindings,networkpolicies,poddisruptionbudgets,namespaces,envoyfilters,\
                 authorizationpolicies,peerauthentications";
    mesh.until("nothing of it in the cluster", async || {
        let left = mesh.api.kubectl(["get", kinds, "-A", "-l", "app.kubernetes.io/part-of=bloc", "-o", "name"]).await?;
        let named = mesh.api.kubectl(["get", kinds, "-A", "-o", "name"]).await?;
        Ok(left.trim().is_empty() && !named.contains("bloc"))
    })
    .await?;
    // Label and volume belong to the workloads; without them they are as before.
    mesh.apply_folder("samples/shop").await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.ready("shop", "frontend", 3).await?;
    let labelled = |pod: &Pod| pod.labels.contains_key("bloc.dev/proxy");
    ensure!(!mesh.frontends().iter().chain(&mesh.backends()).any(labelled), "a pod still has the label");
    mesh.settled().await
}
