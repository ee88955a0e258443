//! Attaching: the shop without BLOC, then with it, through the shipped manifests.

use crate::mesh::{Answer, Mesh};
use anyhow::{Result, ensure};
use std::time::Duration;
use tokio::time::sleep;

/// Istio alone.
pub async fn the_shop_answers_without_bloc(mesh: &Mesh) -> Result<()> {
    mesh.kubelet.tell("backend", &["--service-time", "fixed:20ms", "--concurrency", "2"]);
    mesh.apply_folder("samples/shop").await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.ready("shop", "frontend", 3).await?;
    mesh.until("an answer through the gateway", async || Ok(mesh.ask("/").await?.status == 200)).await
}

/// The control plane and the filters, then the shop's label and parameters.
pub async fn the_shipped_manifests_attach_the_filters_to_the_shop(mesh: &Mesh) -> Result<()> {
    mesh.apply_folder("overlays/everything").await?;
    // Longer than a change takes to arrive. No pod has the label, so no listener is replaced and no
    // connection is closed.
    for _ in 0..10 {
        ensure!(!mesh.drains().await?, "a proxy without the label drains listeners");
        sleep(Duration::from_millis(200)).await;
    }
    mesh.bring_module("shop", &mesh.tools.module).await?;
    mesh.apply_folder("samples/shop-bloc").await?;
    mesh.ready("bloc-system", "bloc-control-plane", 2).await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.ready("shop", "frontend", 3).await?;
    let (backends, frontends) = (mesh.backends(), mesh.frontends());
    mesh.until("requests that both sides' filters have seen", async || {
        ensure!(mesh.ask("/").await?.status == 200, "no answer");
        let (admitted, attempts) =
            (mesh.sum(&backends, "inbound", "admitted"), mesh.sum(&frontends, "outbound", "attempts"));
        Ok(admitted.await? > 0 && attempts.await? > 0)
    })
    .await
}

/// A request without a certificate does not reach an application.
pub async fn pods_refuse_requests_without_mutual_tls(mesh: &Mesh) -> Result<()> {
    for pod in mesh.backends().into_iter().chain(mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane")) {
        let port = if pod.namespace == "shop" { 8080 } else { 7080 };
        let answer = reqwest::get(format!("http://{}:{port}/", pod.address)).await;
        ensure!(answer.is_err(), "{} answers in plain text: {answer:?}", pod.name);
    }
    Ok(())
}

/// Workloads may read its health. Services and parameters need the right to forward a port, which
/// ends at the control plane, behind its sidecar. The metrics are on a port that the sidecar does
/// not capture, for a Prometheus without a certificate; nothing in this mesh enforces the
/// NetworkPolicy that restricts it.
pub async fn workloads_may_not_read_the_state_of_the_control_plane(mesh: &Mesh) -> Result<()> {
    let neighbour = &mesh.frontends()[0];
    let paths = ["/healthz", "/readyz", "/metrics", "/", "/v1/status", "/v1/status/history", "/v1/sync"];
    mesh.reaches(neighbour, "http://bloc-control-plane.bloc-system.svc.cluster.local:7080/healthz").await?;
    for (path, expected) in paths.into_iter().zip([200, 200, 403, 403, 403, 403, 403]) {
        let url = format!("http://bloc-control-plane.bloc-system.svc.cluster.local:7080{path}");
        let answer = mesh.ask_from(neighbour, &url).await?;
        ensure!(answer.status == expected, "{} reads {path}: {answer:?}", neighbour.name);
    }
    for pod in mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane") {
        mesh.until("services through a forwarded port", async || {
            let answer = mesh.ask_from(&pod, "http://127.0.0.1:7080/v1/status").await?;
            ensure!(answer.status == 200 && answer.body.contains("backend"), "{answer:?}");
            Ok(true)
        })
        .await?;
        let answer = mesh.ask_from(&pod, "http://127.0.0.1:7080/metrics").await?;
        ensure!(answer.status == 404, "metrics on the main port: {answer:?}");
        let at_port = format!("http://{}:7081", pod.address);
        let answer = Answer::get(&format!("{at_port}/metrics"), &[]).await?;
        ensure!(answer.status == 200 && answer.body.contains("bloc_config_services"), "{answer:?}");
        for path in ["/", "/v1/status", "/v1/sync"] {
            let answer = Answer::get(&format!("{at_port}{path}"), &[]).await?;
            ensure!(answer.status == 404, "beside the metrics: {answer:?}");
        }
    }
    Ok(())
}

/// The backend answers with the headers that it received.
pub async fn applications_and_clients_see_no_internal_headers(mesh: &Mesh) -> Result<()> {
    for _ in 0..20 {
        let answer = mesh.ask("/headers").await?;
        ensure!(answer.status == 200, "{answer:?}");
        ensure!(answer.body.contains("x-request-id"), "not the request's headers: {}", answer.body);
        ensure!(!answer.body.contains("x-bloc"), "an application sees {}", answer.body);
        ensure!(!answer.headers.contains("x-bloc"), "a client sees {}", answer.headers);
    }
    Ok(())
}
