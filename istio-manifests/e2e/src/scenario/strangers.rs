//! Some have the label and some have not.

use crate::mesh::Mesh;
use anyhow::{Result, ensure};

/// A second shop, without BLOC, in the namespace `plain`: its frontends ask the backends of the first, and the other way round.
pub async fn workloads_with_and_without_the_label_talk_to_each_other(mesh: &Mesh) -> Result<()> {
    let shop = mesh.api.kubectl(["kustomize".as_ref(), mesh.tools.manifests.join("samples/shop").as_os_str()]).await?;
    let plain = shop.replace("namespace: shop", "namespace: plain").replace("name: shop", "name: plain");
    let plain: Vec<&str> = plain.split("\n---\n").filter(|part| !part.contains("networking.istio.io")).collect();
    mesh.api.apply(&plain.join("\n---\n")).await?;
    mesh.ready("plain", "backend", 5).await?;
    mesh.ready("plain", "frontend", 3).await?;
    let (with, without) = (mesh.frontends(), mesh.kubelet.pods("plain", "app", "frontend"));
    for (callers, callee) in [(&with, "plain"), (&without, "shop")] {
        for pod in callers.iter() {
            for _ in 0..10 {
                let url = format!("http://backend.{callee}.svc.cluster.local:8080/headers");
                let answer = mesh.ask_from(pod, &url).await?;
                ensure!(answer.status == 200, "{} asks {url}: {answer:?}", pod.name);
                ensure!(!answer.body.contains("x-bloc"), "the application of {callee} sees {}", answer.body);
                ensure!(!answer.headers.contains("x-bloc"), "{} sees {}", pod.name, answer.headers);
            }
        }
    }
    let plain = mesh.kubelet.pods("plain", "app", "backend");
    ensure!(mesh.statistics(&plain[0]).await?.is_empty(), "a workload without the label has the filters");
    mesh.api.kubectl(["delete", "namespace", "plain"]).await.map(drop)
}
