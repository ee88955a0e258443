//! The control plane or the module is missing.

use crate::mesh::Mesh;
use anyhow::{Result, ensure};

/// All replicas of the control plane go; the parameters stay in force, and a pod that starts
/// meanwhile serves.
pub async fn the_shop_keeps_working_without_the_control_plane(mesh: &Mesh) -> Result<()> {
    let scale = |replicas: &'static str| {
        mesh.api.kubectl(["-n", "bloc-system", "scale", "deployment", "bloc-control-plane", replicas])
    };
    // A filter learns its parameters at its first request, so they must be in force first.
    mesh.capacity_in_force(9).await?;
    scale("--replicas=0").await?;
    mesh.ready("bloc-system", "bloc-control-plane", 0).await?;
    mesh.capacity_in_force(9).await?;
    replace_a_backend(mesh).await?;
    answers(mesh).await?;
    scale("--replicas=2").await?;
    mesh.ready("bloc-system", "bloc-control-plane", 2).await?;
    mesh.capacity_in_force(9).await
}

/// The ConfigMap with the module is missing when a pod starts.
pub async fn a_pod_whose_module_is_missing_serves_without_filters(mesh: &Mesh) -> Result<()> {
    mesh.api.kubectl(["-n", "shop", "delete", "configmap", "bloc-module"]).await?;
    serves_without_filters(mesh).await
}

/// The ConfigMap contains something else.
pub async fn a_pod_whose_module_is_invalid_serves_without_filters(mesh: &Mesh) -> Result<()> {
    let garbage = mesh.logs.join("garbage.wasm");
    std::fs::write(&garbage, [b"\0asm\x01\0\0\0".as_slice(), &[0xff; 1_000]].concat())?;
    mesh.bring_module("shop", &garbage).await?;
    serves_without_filters(mesh).await?;
    mesh.api.kubectl(["-n", "shop", "delete", "configmap", "bloc-module"]).await?;
    mesh.bring_module("shop", &mesh.tools.module).await?;
    replace_a_backend(mesh).await.map(drop)
}

/// Checks that a new pod serves without them.
pub async fn serves_without_filters(mesh: &Mesh) -> Result<()> {
    let name = replace_a_backend(mesh).await?;
    answers(mesh).await?;
    let pod = mesh.backends().into_iter().find(|pod| pod.name == name);
    let pod = pod.ok_or_else(|| anyhow::anyhow!("{name} is gone"))?;
    mesh.until("an answer of the new pod", async || Ok(mesh.ask("/").await?.body.contains(&name))).await?;
    ensure!(mesh.statistics(&pod).await?.is_empty(), "{name} has the filters");
    Ok(())
}

/// Deletes a backend's pod and waits for its replacement; returns the name of that.
pub async fn replace_a_backend(mesh: &Mesh) -> Result<String> {
    let names = || mesh.backends().into_iter().map(|pod| pod.name).collect::<Vec<_>>();
    let before = names();
    mesh.api.kubectl(["-n", "shop", "delete", "pod", &before[0]]).await?;
    mesh.until("a new pod", async || Ok(names().iter().any(|name| !before.contains(name)))).await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.settled().await?;
    names().into_iter().find(|name| !before.contains(name)).ok_or_else(|| anyhow::anyhow!("no new pod"))
}

/// Checks that every request has its answer.
pub async fn answers(mesh: &Mesh) -> Result<()> {
    for _ in 0..30 {
        let answer = mesh.ask("/").await?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    Ok(())
}
