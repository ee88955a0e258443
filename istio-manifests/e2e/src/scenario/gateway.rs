//! An ingress gateway with the filters: it chooses among the frontends.

use super::overload::clients;
use super::unlabelled::BID;
use crate::istio::ROOT;
use crate::mesh::{Answer, Mesh};
use anyhow::{Context, Result, ensure};
use bloc_mesh::load::Outcome;
use std::time::Duration;
use tokio::time::sleep;

const FRONTEND: &str = "frontend.shop.svc.cluster.local";
const APP: &str = "istio-ingressgateway";
/// Each frontend admits one request, so that some are found full.
const PARAMETERS: [(&str, &str); 2] = [
    ("backend", "{capacity: {estimator: static, limit: 9}}"),
    ("frontend", "{capacity: {estimator: static, limit: 1}, resetInterval: 100ms, retries: 3}"),
];

/// The label, the volume and the module, as in the README; the frontend's parameters and its
/// `service/`.
pub async fn a_gateway_chooses_among_the_frontends(mesh: &Mesh) -> Result<()> {
    mesh.bring_module(ROOT, &mesh.tools.module).await?;
    let patch = mesh.tools.manifests.join("attach/gateway.yaml");
    let arguments = ["-n", ROOT, "patch", "deployment", APP, "--patch-file"].map(AsRef::as_ref);
    mesh.api.kubectl(arguments.into_iter().chain([patch.as_os_str()])).await?;
    mesh.api.apply(&service(mesh).await?).await?;
    mesh.set_services("shop", &PARAMETERS).await?;
    mesh.ready(ROOT, APP, 1).await?;
    mesh.until("requests that the gateway's filters have placed", async || {
        let answer = mesh.ask("/headers").await?;
        ensure!(answer.status == 200 || answer.status == 429, "{answer:?}");
        Ok(count(mesh, "attempts").await? > 0 && count(mesh, "fallbacks").await? < count(mesh, "requests").await?)
    })
    .await?;
    mesh.drained().await?;
    let before = count(mesh, "rejections").await?;
    // One more than the frontends admit, so that some request always finds one full.
    let measured = clients(mesh, 4).await?;
    // The events of the last second of load reach the counters with the next tick. A thread without
    // traffic ticks every five seconds, so that is up to five seconds after the last request.
    sleep(Duration::from_secs(6)).await;
    let rejections = count(mesh, "rejections").await? - before;
    let all = measured.samples.len();
    let served = measured.samples.iter().filter(|sample| matches!(sample.outcome, Outcome::Ok)).count();
    let refused = measured.samples.iter().filter(|sample| matches!(sample.outcome, Outcome::Shed)).count();
    println!("        4 clients: {all} requests, {served} served, {refused} refused, {rejections} attempts rejected");
    ensure!(served + refused == all && served > 50, "errors: {:?}", measured.errors());
    ensure!(rejections > 0, "no frontend rejected anything");
    // A rejected request has had four rejections.
    ensure!(refused as i64 * 4 < rejections, "no rejection was retried with success");
    Ok(())
}

/// Neither the client nor the applications behind the gateway get a header of ours.
pub async fn internal_headers_do_not_pass_the_gateway(mesh: &Mesh) -> Result<()> {
    let url = format!("http://{}:8080/headers", mesh.gateway()?.address);
    for headers in [&[][..], &[(BID, "any")]] {
        for _ in 0..10 {
            let answer = Answer::get(&url, headers).await?;
            ensure!(answer.status == 200, "{answer:?}");
            ensure!(!answer.body.contains("x-bloc"), "an application sees {}", answer.body);
            ensure!(!answer.headers.contains("x-bloc"), "a client sees {}", answer.headers);
        }
    }
    Ok(())
}

/// A host with two routes whose name the gateway's patch matches, one of them a redirect.
const MOVED: &str = "apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: moved, namespace: shop}
spec:
  hosts: [moved.example.com]
  gateways: [shop]
  http:
  - name: bloc
    match: [{uri: {exact: /moved}}]
    redirect: {authority: shop.example.com}
  - name: bloc
    route: [{destination: {host: frontend.shop.svc.cluster.local, port: {number: 8080}}}]
";

/// The patch is for routes of a certain name, which a redirect may have, too.
pub async fn a_redirect_named_like_a_patched_route_stays_a_redirect(mesh: &Mesh) -> Result<()> {
    mesh.api.apply(MOVED).await?;
    let url = format!("http://{}:8080", mesh.gateway()?.address);
    let host = [("host", "moved.example.com")];
    mesh.until("the redirect", async || Ok(Answer::get(&format!("{url}/moved"), &host).await?.status == 301)).await?;
    let answer = Answer::get(&format!("{url}/"), &host).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let routes = mesh.admin(&mesh.gateway()?, "config_dump?resource=dynamic_route_configs").await?;
    ensure!(routes.contains("\"base_interval\": \"0.001s\""), "no back-off on the gateway's routes");
    mesh.api.kubectl(["-n", "shop", "delete", "virtualservice", "moved"]).await.map(drop)
}

/// `overlays/ingress-gateway`: the sidecars have no filters, though their services have parameters.
/// With `strip` nothing leaks.
pub async fn a_gateway_with_filters_works_before_sidecars_without_them(mesh: &Mesh) -> Result<()> {
    mesh.delete_folder("sidecars").await?;
    mesh.apply_folder("overlays/ingress-gateway").await?;
    mesh.until("sidecars without the filters", async || {
        for pod in mesh.frontends() {
            if mesh.admin(&pod, "config_dump?resource=dynamic_listeners").await?.contains("bloc.inbound") {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    mesh.drained().await?;
    let before = count(mesh, "attempts").await?;
    for _ in 0..20 {
        let answer = mesh.ask("/headers").await?;
        ensure!(answer.status == 200, "{answer:?}");
        ensure!(!answer.headers.contains("x-bloc"), "a client sees {}", answer.headers);
        ensure!(!answer.body.contains("x-bloc"), "an application sees {}", answer.body);
    }
    // The same lag: up to five seconds after the last request.
    mesh.until("the gateway's having placed the requests", async || Ok(count(mesh, "attempts").await? >= before + 20))
        .await?;
    mesh.apply_folder("overlays/everything").await.map(drop)
}

/// Restores the gateway of Istio alone.
pub async fn the_gateway_answers_after_its_filters_are_removed(mesh: &Mesh) -> Result<()> {
    mesh.api.kubectl(["-n", ROOT, "rollout", "undo", "deployment", APP]).await?;
    mesh.ready(ROOT, APP, 1).await?;
    mesh.api.kubectl(["-n", ROOT, "delete", "envoyfilter", "bloc-service-shop-frontend"]).await?;
    mesh.api.kubectl(["-n", ROOT, "delete", "configmap", "bloc-module"]).await?;
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}").await?;
    ensure!(mesh.statistics(&mesh.gateway()?).await?.is_empty(), "the gateway has the filters");
    mesh.until("an answer", async || Ok(mesh.ask("/").await?.status == 200)).await
}

/// The pattern `service/` for the frontend.
async fn service(mesh: &Mesh) -> Result<String> {
    let folder = mesh.tools.manifests.join("service");
    let pattern = mesh.api.kubectl(["kustomize".as_ref(), folder.as_os_str()]).await?;
    let text = pattern
        .replace("SERVICE:PORT", &format!("{FRONTEND}:8080"))
        .replace("service: SERVICE", &format!("service: {FRONTEND}"));
    let named = text.replace("name: bloc-service", "name: bloc-service-shop-frontend");
    ensure!(named.matches(FRONTEND).count() == 3, "the pattern names the service elsewhere: {named}");
    Ok(named)
}

async fn count(mesh: &Mesh, name: &str) -> Result<i64> {
    let all = mesh.statistics(&mesh.gateway()?).await.context("the gateway's statistics")?;
    Ok(all.get(&format!("outbound.{FRONTEND}.{name}")).copied().unwrap_or(0))
}
