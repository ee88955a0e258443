//! Workloads with the label beside workloads without it.

use crate::istio::ROOT;
use crate::mesh::{Answer, Mesh};
use anyhow::{Result, ensure};

/// The header that a labelled caller adds to an attempt, and labelled servers remove.
pub const BID: &str = "x-bloc-bid";
const PLAIN: &str = "http://backend.plain.svc.cluster.local:8080/headers";

/// A second shop, without BLOC, in the namespace `plain`: its frontends call the first shop's
/// backends, and vice versa.
pub async fn workloads_with_and_without_the_label_reach_each_other(mesh: &Mesh) -> Result<()> {
    let shop = mesh.api.kubectl(["kustomize".as_ref(), mesh.tools.manifests.join("samples/shop").as_os_str()]).await?;
    let plain = shop.replace("namespace: shop", "namespace: plain").replace("name: shop", "name: plain");
    let plain: Vec<&str> = plain.split("\n---\n").filter(|part| !part.contains("networking.istio.io")).collect();
    mesh.api.apply(&plain.join("\n---\n")).await?;
    mesh.ready("plain", "backend", 5).await?;
    mesh.ready("plain", "frontend", 3).await?;
    mesh.drained().await?;
    let (with, without) = (mesh.frontends(), mesh.kubelet.pods("plain", "app", "frontend"));
    for (callers, callee) in [(&with, "plain"), (&without, "shop")] {
        let url = format!("http://backend.{callee}.svc.cluster.local:8080/headers");
        for pod in callers.iter() {
            mesh.reaches(pod, &url).await?;
            for _ in 0..10 {
                let answer = mesh.ask_from(pod, &url).await?;
                ensure!(answer.status == 200, "{} asks {url}: {answer:?}", pod.name);
                ensure!(!answer.body.contains("x-bloc"), "the application of {callee} sees {}", answer.body);
                ensure!(!answer.headers.contains("x-bloc"), "{} sees {}", pod.name, answer.headers);
            }
        }
    }
    let plain = mesh.kubelet.pods("plain", "app", "backend");
    ensure!(mesh.statistics(&plain[0]).await?.is_empty(), "a workload without the label has the filters");
    Ok(())
}

/// The second shop's backend has parameters, though its pods have no label: callers send bids, and
/// the application sees them until `strip` removes them.
pub async fn strip_hides_bids_from_applications_without_the_label(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("plain", "capacity: {estimator: static, limit: 9}").await?;
    let callers = mesh.frontends();
    mesh.until("bids that applications see", async || Ok(mesh.ask_from(&callers[0], PLAIN).await?.body.contains(BID)))
        .await?;
    let strip = mesh.tools.manifests.join("strip");
    let arguments = ["-n", "plain", "apply", "-k"].map(AsRef::as_ref);
    mesh.api.kubectl(arguments.into_iter().chain([strip.as_os_str()])).await?;
    let spared = async || {
        for pod in &callers {
            for _ in 0..10 {
                let answer = mesh.ask_from(pod, PLAIN).await?;
                ensure!(answer.status == 200, "{answer:?}");
                ensure!(!answer.body.contains("x-bloc"), "the application sees {}", answer.body);
                ensure!(!answer.headers.contains("x-bloc"), "{} sees {}", pod.name, answer.headers);
            }
        }
        Ok(true)
    };
    mesh.until("applications that see no bid", spared).await?;
    mesh.api.kubectl(["delete", "namespace", "plain"]).await.map(drop)
}

/// A gateway without the label passes on a bid from outside, and returns the load report, until
/// `strip` in the root namespace removes it.
pub async fn strip_hides_load_reports_from_clients_outside_the_mesh(mesh: &Mesh) -> Result<()> {
    let capacity = "{capacity: {estimator: static, limit: 9}}";
    mesh.set_services("shop", &[("backend", capacity), ("frontend", capacity)]).await?;
    let url = format!("http://{}:8080/headers", mesh.gateway()?.address);
    let reports = async || {
        let answer = Answer::get(&url, &[(BID, "any")]).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.headers.contains("x-bloc"))
    };
    mesh.until("a load report to a client outside", reports).await?;
    let strip = mesh.tools.manifests.join("strip");
    let kubectl = |verb: &'static str| {
        let arguments = ["-n", ROOT, verb, "-k"].map(AsRef::as_ref);
        mesh.api.kubectl(arguments.into_iter().chain([strip.as_os_str()]))
    };
    kubectl("apply").await?;
    mesh.until("no load report to a client outside", async || {
        for _ in 0..10 {
            if reports().await? {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    kubectl("delete").await?;
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}").await
}
