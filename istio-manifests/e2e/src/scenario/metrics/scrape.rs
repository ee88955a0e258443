//! A Prometheus outside of the mesh finds every sidecar and both replicas of the control plane.

use super::testbed::{BACKEND, HOST, PROXIES, prometheus};
use crate::kubelet::Pod;
use crate::mesh::Mesh;
use crate::prometheus::ANNOTATED;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;

const CONTROL_PLANE: &str = "bloc-system/bloc-control-plane";

/// `istio-manifests/metrics`, on a cluster with PodMonitors. Everything with the label is scraped,
/// and nothing else; each statistic of a sidecar has its series, with the service as a label; so
/// has the control plane, also for a Prometheus that uses annotations.
pub async fn a_prometheus_outside_the_mesh_scrapes_all_proxies_and_replicas(mesh: &Mesh) -> Result<()> {
    mesh.know_pod_monitors().await?;
    mesh.apply_folder("metrics").await?;
    let prometheus = prometheus(mesh).await?;
    let replicas = mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane");
    let proxied = [mesh.frontends(), mesh.backends()].concat();
    let named =
        |job: &str, pods: &[Pod]| pods.iter().map(|pod| (job.to_owned(), pod.name.clone())).collect::<BTreeSet<_>>();
    let expected: BTreeSet<(String, String)> =
        [named(PROXIES, &proxied), named(CONTROL_PLANE, &replicas), named(ANNOTATED, &replicas)]
            .into_iter()
            .flatten()
            .collect();
    mesh.until("every target up", async || {
        let targets = prometheus.targets().await?;
        ensure!(targets.iter().all(|target| target.up), "{targets:?}");
        // istiod has annotations, too.
        let ours = targets.into_iter().filter(|target| !target.pod.starts_with("istiod-"));
        let found: BTreeSet<(String, String)> = ours.map(|target| (target.job, target.pod)).collect();
        ensure!(found == expected, "{found:?}, not {expected:?}");
        Ok(true)
    })
    .await?;
    mesh.until("the series of every sidecar", async || {
        ensure!(mesh.ask("/").await?.status == 200, "no answer");
        for (pods, side) in [(mesh.backends(), "inbound"), (mesh.frontends(), "outbound")] {
            for pod in pods {
                let named =
                    mesh.statistics(&pod).await?.into_keys().filter_map(|name| {
                        Some(format!("bloc_{side}_{}", name.strip_prefix(&format!("{side}.{HOST}."))?))
                    });
                let expected: BTreeSet<String> = named.collect();
                let query = format!("{{bloc_service=\"{BACKEND}\",pod=\"{}\",job=\"{PROXIES}\"}}", pod.name);
                let samples = prometheus.query(&query).await?;
                let of_side =
                    samples.iter().map(|sample| &sample.labels["__name__"]).filter(|name| name.contains(side));
                let found: BTreeSet<String> = of_side.cloned().collect();
                ensure!(expected.len() > 10 && found == expected, "{}: {found:?}, not {expected:?}", pod.name);
            }
        }
        Ok(true)
    })
    .await?;
    let long = prometheus.query("{__name__=~\"bloc_.*_svc_cluster_local_.*\"}").await?;
    ensure!(long.is_empty(), "a service in the name of a metric: {long:?}");
    let memory = format!("count(bloc_guest_vm_memory_pages{{job=\"{PROXIES}\"}})");
    ensure!(prometheus.number(&memory).await? == proxied.len() as f64, "not of the module itself");
    for query in [
        format!("count(bloc_config_services{{job=\"{CONTROL_PLANE}\"}}) == 2"),
        format!("count(up{{job=\"{ANNOTATED}\",pod=~\"bloc-.*\"}} == 1) == 2"),
        format!("min(scrape_samples_scraped{{job=\"{ANNOTATED}\",pod=~\"bloc-.*\"}}) > 5"),
    ] {
        mesh.until(&query, async || prometheus.number(&query).await.map(|_| true)).await?;
    }
    Ok(())
}
