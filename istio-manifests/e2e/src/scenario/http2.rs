//! HTTP/2 between the sidecars of callers and servers, as `http2/` sets it.

use crate::istio::ROOT;
use crate::kubelet::Pod;
use crate::mesh::Mesh;
use anyhow::{Context, Result, ensure};

const TO_BACKEND: &str = "cluster.outbound|8080||backend.shop.svc.cluster.local;.upstream_cx_http";
const TO_APPLICATION: &str = "cluster.inbound|8080||;.upstream_cx_http";
const RULE: &str = "bloc-http2-shop-backend";

/// A DestinationRule of the user's, in the service's namespace, with a value that identifies it.
const USERS: &str = "apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: backend, namespace: shop}
spec:
  host: backend.shop.svc.cluster.local
  trafficPolicy:
    connectionPool: {tcp: {connectTimeout: 3.25s}}
";

/// A user's own DestinationRule takes precedence over ours; without ours it is HTTP/1.1 again.
pub async fn sidecars_use_http2_with_each_other_but_not_with_applications(mesh: &Mesh) -> Result<()> {
    until_new_connections_speak(mesh, 2).await?;
    for pod in mesh.backends() {
        let (one, two) = (count(mesh, &pod, TO_APPLICATION, 1).await?, count(mesh, &pod, TO_APPLICATION, 2).await?);
        ensure!(one > 0 && two == 0, "{}: {one} connections of HTTP/1.1 to the application, {two} of HTTP/2", pod.name);
        // Without `allow_connect`, a WebSocket ends the connection.
        let listeners = mesh.admin(&pod, "config_dump?resource=dynamic_listeners").await?;
        ensure!(listeners.contains("\"allow_connect\": true"), "{}: no WebSockets over HTTP/2", pod.name);
    }
    mesh.api.apply(USERS).await?;
    until_new_connections_speak(mesh, 1).await?;
    for pod in mesh.frontends() {
        let clusters = mesh.admin(&pod, "config_dump?resource=dynamic_active_clusters").await?;
        ensure!(clusters.contains("\"3.250s\""), "{}: not what the user's DestinationRule says", pod.name);
    }
    mesh.api.kubectl(["-n", "shop", "delete", "destinationrule", "backend"]).await?;
    until_new_connections_speak(mesh, 2).await?;
    mesh.api.kubectl(["-n", ROOT, "delete", "destinationrule", RULE]).await?;
    until_new_connections_speak(mesh, 1).await?;
    mesh.apply_folder("samples/shop-bloc/http2").await?;
    until_new_connections_speak(mesh, 2).await
}

/// Waits until each frontend answers a few requests with connections of this version to the
/// backends, and opens none of the other.
async fn until_new_connections_speak(mesh: &Mesh, version: u32) -> Result<()> {
    let other = 3 - version;
    for pod in mesh.frontends() {
        mesh.until(&format!("connections of HTTP/{version} from {}", pod.name), async || {
            let before = count(mesh, &pod, TO_BACKEND, other).await?;
            for _ in 0..5 {
                let answer = mesh.ask_from(&pod, "http://backend.shop.svc.cluster.local:8080/").await?;
                ensure!(answer.status == 200, "{answer:?}");
            }
            // A changed cluster begins with new connections; the counters continue.
            let speaks = speaks_http2(mesh, &pod).await?;
            Ok((version == 2) == speaks && count(mesh, &pod, TO_BACKEND, other).await? == before)
        })
        .await?;
        ensure!(count(mesh, &pod, TO_BACKEND, version).await? > 0, "{}: no such connection", pod.name);
    }
    Ok(())
}

/// Whether the frontend's cluster of the backends uses HTTP/2.
async fn speaks_http2(mesh: &Mesh, pod: &Pod) -> Result<bool> {
    let dump = mesh.admin(pod, "config_dump?resource=dynamic_active_clusters").await?;
    let dump: serde_json::Value = serde_json::from_str(&dump)?;
    let clusters = dump["configs"].as_array().into_iter().flatten().map(|config| &config["cluster"]);
    let name = "outbound|8080||backend.shop.svc.cluster.local";
    let cluster = clusters.into_iter().find(|cluster| cluster["name"] == name).context("no cluster of the backends")?;
    let options = &cluster["typed_extension_protocol_options"];
    let options = &options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
    Ok(options["explicit_http_config"]["http2_protocol_options"].is_object())
}

/// How many connections of this version of HTTP a pod's Envoy has opened.
async fn count(mesh: &Mesh, pod: &Pod, prefix: &str, version: u32) -> Result<u64> {
    let stats = mesh.admin(pod, "stats?filter=upstream_cx_http").await?;
    let name = format!("{prefix}{version}_total: ");
    let found = stats.lines().find_map(|line| line.strip_prefix(&name));
    Ok(found.with_context(|| format!("{} has no {name}: {stats}", pod.name))?.parse()?)
}
