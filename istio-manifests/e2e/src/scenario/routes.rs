//! Routes of VirtualServices.

use super::chapter::AT_FIRST;
use crate::kubelet::Pod;
use crate::mesh::Mesh;
use anyhow::{Context, Result, ensure};

/// What `service/` adds to the routes to the backend.
const BACK_OFF: &str = "\"base_interval\": \"0.001s\"";

/// A redirect, a direct response and a route to the same service: the first two stay unchanged, the
/// third gets the back-off.
const OLD_PLACES: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: old-places, namespace: shop}
spec:
  hosts: [backend.shop.svc.cluster.local]
  http:
  - name: moved
    match: [{uri: {exact: /moved}}]
    redirect: {uri: /}
  - name: gone
    match: [{uri: {exact: /gone}}]
    directResponse: {status: 410}
  - name: here
    route: [{destination: {host: backend.shop.svc.cluster.local}}]
";

/// In a sidecar, whose routes the manifests patch.
pub async fn redirects_and_direct_responses_stay_unchanged(mesh: &Mesh) -> Result<()> {
    mesh.api.apply(OLD_PLACES).await?;
    for pod in mesh.frontends() {
        mesh.until("the VirtualService in force", async || {
            let gone = mesh.ask_from(&pod, "http://backend.shop.svc.cluster.local:8080/gone").await?;
            Ok(gone.status == 410)
        })
        .await?;
        let moved = mesh.ask_from(&pod, "http://backend.shop.svc.cluster.local:8080/moved").await?;
        ensure!(moved.status == 301, "{moved:?}");
        let here = mesh.ask_from(&pod, "http://backend.shop.svc.cluster.local:8080/").await?;
        ensure!(here.status == 200, "{here:?}");
        let routes = mesh.admin(&pod, "config_dump?resource=dynamic_route_configs").await?;
        ensure!(routes.contains("\"here\"") && routes.contains(BACK_OFF), "{}: no back-off on the route", pod.name);
    }
    let refused = mesh.refused_configurations()?;
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    mesh.api.kubectl(["-n", "shop", "delete", "virtualservice", "old-places"]).await.map(drop)
}

/// How often this pod retried a request to a failing application.
async fn retries(mesh: &Mesh, pod: &Pod) -> Result<u64> {
    const FILTER: &str = "stats?filter=backend.*upstream_rq_retry$";
    let count = async || {
        let stats = mesh.admin(pod, FILTER).await?;
        let counts = stats.lines().filter_map(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok());
        Ok::<u64, anyhow::Error>(counts.sum())
    };
    // These give the retry budget enough, so that it cuts no retry.
    for _ in 0..10 {
        let answer = mesh.ask_from(pod, "http://backend.shop.svc.cluster.local:8080/").await?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    let before = count().await?;
    let answer = mesh.ask_from(pod, "http://backend.shop.svc.cluster.local:8080/status/503").await?;
    ensure!(answer.status == 503, "{answer:?}");
    Ok(count().await? - before)
}

/// A failing application gets as many retries as a VirtualService says: more than the mesh's
/// default, then fewer.
pub async fn retries_follow_the_number_in_a_virtual_service(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("shop", &format!("{AT_FIRST}, retryBudget: 1")).await?;
    let pod = mesh.frontends().into_iter().next().context("no frontend")?;
    for attempts in [4, 1] {
        let service = format!(
            "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: often, namespace: shop}}
spec:
  hosts: [backend]
  http:
  - route: [{{destination: {{host: backend}}}}]
    retries: {{attempts: {attempts}, retryOn: 5xx}}
"
        );
        mesh.api.apply(&service).await?;
        mesh.until(&format!("{attempts} retries"), async || {
            let retries = retries(mesh, &pod).await?;
            println!("        {attempts} attempts: {retries} retries");
            Ok(retries == attempts)
        })
        .await?;
        // The number stays.
        let again = retries(mesh, &pod).await?;
        ensure!(again == attempts, "{again} retries");
    }
    mesh.api.kubectl(["-n", "shop", "delete", "virtualservice", "often"]).await?;
    mesh.set_parameters("shop", AT_FIRST).await
}
