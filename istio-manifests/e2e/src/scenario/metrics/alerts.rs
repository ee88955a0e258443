//! Each alert fires when its cause happens, and not before.

use super::autoscalers;
use super::testbed::{BACKEND, HOST, prometheus};
use crate::mesh::Mesh;
use crate::prometheus::Prometheus;
use crate::scenario::chapter::AT_FIRST;
use anyhow::Result;
use bloc_mesh::load::{Client, Load, LoadPlan, Outcome, Tally, run};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const REJECTING: &str = "BlocServiceRejecting";
const EXHAUSTED: &str = "BlocRetriesExhausted";
const OVERFLOW: &str = "BlocRetriesOverflow";
const OVERLOADED: &str = "BlocServiceOverloaded";
const REFUSED: &str = "BlocConfigurationRefused";
const STALE: &str = "BlocConfigurationStale";
const UNREAD: &str = "BlocParametersUnread";
const DOWN: &str = "BlocControlPlaneDown";

/// Longer than any scenario; each ends its load itself.
const MOST: Duration = Duration::from_secs(600);
/// A client's pause after a rejection, so that rejections do not take up the whole machine.
const PAUSE: Duration = Duration::from_millis(100);
/// 400 ms each.
const SLOW: &str = "/cost/20";

/// One retry at a time, and many callers whose requests are rejected.
const ONE_RETRY: &str = "apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: backend, namespace: shop}
spec:
  host: backend.shop.svc.cluster.local
  trafficPolicy:
    connectionPool: {http: {maxRetries: 1}}
";

/// Makes the control plane look like a later version that is wrong about what filters know: its
/// answers have another name, `TO`, for a member, `FROM`.
const LATER: &str = r#"apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: later, namespace: bloc-system}
spec:
  workloadSelector: {labels: {app: bloc-control-plane}}
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_INBOUND
      listener:
        filterChain:
          filter:
            name: envoy.filters.network.http_connection_manager
            subFilter: {name: envoy.filters.http.router}
    patch:
      operation: INSERT_BEFORE
      value:
        name: later
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code:
            inline_string: |
              function envoy_on_response(handle)
                local body = handle:body()
                if body then
                  local text = body:getBytes(0, body:length())
                  body:setBytes((text:gsub('"FROM"', '"TO"')))
                end
              end
"#;

/// The backends admit ten requests, and many clients exceed all of them. (What retries heal fires
/// nothing.)
pub async fn rejections_and_exhausted_retries_fire_their_alerts(mesh: &Mesh) -> Result<()> {
    let prometheus = prometheus(mesh).await?;
    for (alert, retries, number) in [(REJECTING, 0, 40), (EXHAUSTED, 1, 40)] {
        let limits = "routing: bloc, capacity: {estimator: static, limit: 2}, resetInterval: 100ms";
        let limits = format!("{limits}, retries: {retries}");
        mesh.set_parameters("shop", &limits).await?;
        mesh.capacity_in_force(2).await?;
        quiet(mesh, &prometheus).await?;
        let clients = clients(mesh, number)?;
        fires(mesh, &prometheus, alert).await?;
        drop(clients);
    }
    quiet(mesh, &prometheus).await?;
    let limits = "routing: bloc, capacity: {estimator: static, limit: 2}, retries: 3, resetInterval: 100ms";
    mesh.set_parameters("shop", limits).await?;
    mesh.api.apply(ONE_RETRY).await?;
    allows_one_retry(mesh, true).await?;
    let clients = clients(mesh, 40)?;
    fires(mesh, &prometheus, OVERFLOW).await?;
    drop(clients);
    mesh.api.kubectl(["-n", "shop", "delete", "destinationrule", "backend"]).await?;
    allows_one_retry(mesh, false).await?;
    as_at_first(mesh).await
}

/// Waits until the gateway's cluster of the backends allows one retry at a time, or not any more.
async fn allows_one_retry(mesh: &Mesh, one: bool) -> Result<()> {
    let gateway = mesh.gateway()?;
    mesh.until("the circuit breaker", async || {
        let clusters = mesh.admin(&gateway, "config_dump?resource=dynamic_active_clusters").await?;
        Ok(clusters.contains("\"max_retries\": 1,") | clusters.contains("\"max_retries\": 1\n") == one)
    })
    .await
}

/// Five backends that finish 25 requests a second together get 40.
pub async fn an_overload_fires_its_alert_and_autoscalers_get_their_numbers(mesh: &Mesh) -> Result<()> {
    let prometheus = prometheus(mesh).await?;
    let limits = "concurrency: 2, hold: true, maxQueueWait: 10m, capacity: {estimator: static, limit: 100000}";
    mesh.set_parameters("shop", limits).await?;
    mesh.capacity_in_force(100_000).await?;
    quiet(mesh, &prometheus).await?;
    let load = overload(mesh, 40.0)?;
    let servers = format!("sum(bloc_service_servers{{service=\"{HOST}\",bloc_service=\"{BACKEND}\"}}) == 5");
    mesh.until(&servers, async || prometheus.number(&servers).await.map(|_| true)).await?;
    fires(mesh, &prometheus, OVERLOADED).await?;
    autoscalers::get_their_numbers(mesh, &prometheus).await?;
    drop(load);
    as_at_first(mesh).await
}

/// A parameter out of its range; an unknown parameter; no replica.
pub async fn a_refused_or_stale_configuration_or_lost_replicas_fire_alerts(mesh: &Mesh) -> Result<()> {
    let prometheus = prometheus(mesh).await?;
    quiet(mesh, &prometheus).await?;
    mesh.set_parameters("shop", "capacity: {estimator: static, limit: 9}, retries: 11").await?;
    fires(mesh, &prometheus, REFUSED).await?;
    as_at_first(mesh).await?;

    // A parameter that filters do not know; an answer that is none.
    for (alert, from, to, retries) in [(UNREAD, "capacity", "capacitz", 1), (STALE, "services", "servicez", 2)] {
        quiet(mesh, &prometheus).await?;
        mesh.api.apply(&LATER.replace("FROM", from).replace("TO", to)).await?;
        for pod in mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane") {
            mesh.until("a control plane of a later version", async || {
                Ok(mesh.admin(&pod, "config_dump?resource=dynamic_listeners").await?.contains(to))
            })
            .await?;
        }
        // The old listeners would still answer requests with this version.
        mesh.drained().await?;
        mesh.set_parameters("shop", &format!("capacity: {{estimator: static, limit: 8}}, retries: {retries}")).await?;
        fires(mesh, &prometheus, alert).await?;
        if alert == UNREAD {
            mesh.api.kubectl(["-n", "bloc-system", "delete", "envoyfilter", "later"]).await?;
            mesh.drained().await?;
            as_at_first(mesh).await?;
        }
    }
    mesh.api.kubectl(["-n", "bloc-system", "delete", "envoyfilter", "later"]).await?;
    mesh.capacity_in_force(8).await?;
    as_at_first(mesh).await?;

    quiet(mesh, &prometheus).await?;
    let scale = |replicas: &'static str| {
        mesh.api.kubectl(["-n", "bloc-system", "scale", "deployment", "bloc-control-plane", replicas])
    };
    scale("--replicas=0").await?;
    fires(mesh, &prometheus, DOWN).await?;
    scale("--replicas=2").await?;
    mesh.ready("bloc-system", "bloc-control-plane", 2).await?;
    mesh.capacity_in_force(9).await
}

/// Restores the parameters for the next scenario.
async fn as_at_first(mesh: &Mesh) -> Result<()> {
    mesh.set_parameters("shop", AT_FIRST).await?;
    mesh.capacity_in_force(9).await
}

async fn quiet(mesh: &Mesh, prometheus: &Prometheus) -> Result<()> {
    mesh.until("no alert", async || Ok(prometheus.firing().await?.is_empty())).await
}

async fn fires(mesh: &Mesh, prometheus: &Prometheus, alert: &str) -> Result<()> {
    let began = Instant::now();
    mesh.until(alert, async || Ok(prometheus.firing().await?.contains(alert))).await?;
    println!("        {alert} fires after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// So many clients, until the result is dropped; each sends its next request after the answer to
/// the last one.
fn clients(mesh: &Mesh, number: usize) -> Result<JoinSet<()>> {
    let client = Arc::new(Client::new(SocketAddr::from((mesh.gateway()?.address, 8080)), "/", true, MOST));
    let mut clients = JoinSet::new();
    for _ in 0..number {
        let client = Arc::clone(&client);
        clients.spawn(async move {
            loop {
                if client.request().await != Outcome::Ok {
                    sleep(PAUSE).await;
                }
            }
        });
    }
    Ok(clients)
}

/// So many slow requests a second, until the result is dropped.
fn overload(mesh: &Mesh, rate: f64) -> Result<JoinSet<()>> {
    let plan = LoadPlan {
        target: SocketAddr::from((mesh.gateway()?.address, 8080)),
        path: SLOW.to_owned(),
        body: 0,
        load: Load::Poisson { rate },
        keep_alive: true,
        timeout: MOST,
        warm_up: Duration::ZERO,
        window: MOST,
        outstanding_limit: 2_000,
        seed: 1,
    };
    let mut load = JoinSet::new();
    load.spawn(async move {
        run(&plan, Instant::now(), Arc::new(Tally::default())).await;
    });
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Without a scenario, an alert may be unable to fire.
    #[test]
    fn every_shipped_alert_has_a_scenario() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../control-plane/dashboards/alerts.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let alerts = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
        // Only promtool's tests make these fire: the node agent, which leases are for, is no part
        // of the mesh, and CutOff takes four minutes without the API server.
        let others = ["BlocNode", "BlocLease", "BlocControlPlaneCutOff"];
        let is_tried = |alert: &&str| !others.iter().any(|start| alert.starts_with(start));
        let mut shipped: Vec<&str> = alerts.filter(is_tried).collect();
        let mut tried = [REJECTING, EXHAUSTED, OVERFLOW, OVERLOADED, REFUSED, STALE, UNREAD, DOWN];
        shipped.sort_unstable();
        tried.sort_unstable();
        assert_eq!(shipped, tried);
    }
}
