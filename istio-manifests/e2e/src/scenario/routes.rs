//! Routes of a VirtualService that are none to a service.

use crate::mesh::Mesh;
use anyhow::{Result, ensure};

/// What `service/` adds to the routes to the backend.
const BACK_OFF: &str = "\"base_interval\": \"0.001s\"";

/// A redirect, a direct response and a route to the same service: the first two stay what they are, the third gets the back-off.
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

/// In a sidecar.
pub async fn redirects_and_direct_responses_stay_what_they_are(mesh: &Mesh) -> Result<()> {
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
