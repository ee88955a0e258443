//! `bloc-e2e demo`: least request, BLOC and bids in the same mesh, one after the other, each
//! enabled as a user would.
//!
//! Clients call the shop through the ingress gateway; its three frontends pass each request on, and
//! their sidecars choose one of the five backends. A backend takes 50 ms for one request at a time.
//! Arrivals are a Poisson process at 90% of the backends' capacity, the same for each case.
//!
//! The case without filters is Istio with a DestinationRule for LEAST_REQUEST, without any label.
//! The rule stays when the shop gets the label: the EnvoyFilter of the service takes precedence. An
//! edit of the ConfigMap changes from BLOC to bids.

use crate::api::eventually;
use crate::kubelet::Pod;
use crate::mesh::Mesh;
use anyhow::{Context, Result, ensure};
use bloc_figures::stats::rounded;
use bloc_lab::case::{Case, cpu_time};
use bloc_lab::record::{Environment, Record};
use bloc_lab::report;
use bloc_mesh::MeshSpec;
use bloc_mesh::envoy::version;
use bloc_mesh::load::{Load, LoadPlan, Tally, run as load};
use bloc_mesh::policy::Policy;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const SERVICE: &str = "backend.shop.svc.cluster.local";
const FRONTENDS: usize = 3;
const BACKENDS: usize = 5;
const SERVICE_TIME: &str = "fixed:50ms";
const SERVICE_MS: f64 = 50.0;
/// 90% of the backends' capacity.
const RATE: f64 = 0.9 * BACKENDS as f64 * 1e3 / SERVICE_MS;
/// Twice the time in which a queue at 90% load forgets its initial state.
const WARM_UP: Duration = Duration::from_secs(5);
/// Some 2,700 requests: 27 are above the 99th percentile, and all three cases fit into three
/// minutes.
const WINDOW: Duration = Duration::from_secs(30);

/// Istio's default, explicitly.
const LEAST_REQUEST: &str = "apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: backend, namespace: shop}
spec:
  host: backend.shop.svc.cluster.local
  trafficPolicy:
    loadBalancer: {simple: LEAST_REQUEST}
";

/// What both candidates have in the ConfigMap, as in `make demo`.
const COMMON: &str = "capacity: {estimator: static, limit: 10}, resetInterval: 200ms, retries: 3, routeRetries: 2";

/// The parameters of the backend in the ConfigMap; none without filters.
fn parameters(policy: Policy) -> Option<String> {
    match policy {
        Policy::Bloc => Some(format!("routing: bloc, {COMMON}")),
        Policy::Bid => Some(format!("routing: bid, concurrency: 1, hold: false, {COMMON}")),
        _ => None,
    }
}

/// Brings up the mesh, measures the three cases, prints the table, and writes the report to `out`.
///
/// # Errors
/// The mesh does not come up, or a part of it ends.
pub async fn run(out: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    let say = |what: &str| println!("{:>4.0} s  {what}", began.elapsed().as_secs_f64());
    say("istiod, API server and ingress gateway start");
    let mut mesh = Mesh::start(&out.join("logs")).await?;
    say("the shop starts: 3 frontends, 5 backends, sidecars without filters");
    mesh.kubelet.tell("backend", &["--service-time", SERVICE_TIME, "--concurrency", "1"]);
    mesh.apply_folder("samples/shop").await?;
    mesh.api.apply(LEAST_REQUEST).await?;
    shop_is_ready(&mesh).await?;
    let took = began.elapsed();

    let mut records = Vec::new();
    for policy in [Policy::LeastRequest, Policy::Bloc, Policy::Bid] {
        if policy == Policy::Bloc {
            say("the shop gets the label, the module and the control plane");
            attach(&mesh).await?;
        }
        if let Some(parameters) = parameters(policy) {
            say(&format!("the ConfigMap says {{{parameters}}}"));
            mesh.set_parameters("shop", &parameters).await?;
            in_force(&mesh, policy).await?;
        }
        let seconds = (WARM_UP + WINDOW).as_secs();
        say(&format!("{}: {RATE} requests per second for {seconds} s", policy.name()));
        records.push(measure(&mesh, policy, took).await?);
        mesh.check()?;
    }
    let refused = mesh.refused_configurations()?;
    ensure!(refused.is_empty(), "refused configurations:\n{}", refused.join("\n"));

    println!("{}", report::table(&records));
    report::write_summary(&records, &out.join("summary.json"))?;
    report::write_records(&records, &out.join("records.json"))?;
    report::write_page(&records, "bloc-e2e demo", &[], &out.join("report.html"))?;
    say(&format!("done; report.html, summary.json and the logs are in {}", out.display()));
    Ok(ExitCode::SUCCESS)
}

async fn shop_is_ready(mesh: &Mesh) -> Result<()> {
    mesh.ready("shop", "backend", BACKENDS).await?;
    mesh.ready("shop", "frontend", FRONTENDS).await?;
    mesh.until("an answer through the gateway", async || Ok(mesh.ask("/").await?.status == 200)).await?;
    mesh.drained().await
}

/// Attaches the filters as the README describes.
async fn attach(mesh: &Mesh) -> Result<()> {
    mesh.apply_folder("overlays/everything").await?;
    mesh.bring_module("shop", &mesh.tools.module).await?;
    mesh.apply_folder("samples/shop-bloc").await?;
    mesh.ready("bloc-system", "bloc-control-plane", 2).await?;
    shop_is_ready(mesh).await
}

fn control_planes(mesh: &Mesh) -> Vec<Pod> {
    mesh.kubelet.pods("bloc-system", "app", "bloc-control-plane")
}

/// Waits until the control plane shows these parameters of the backend for every sidecar of the
/// shop.
async fn in_force(mesh: &Mesh, policy: Policy) -> Result<()> {
    let pods: Vec<Pod> = mesh.frontends().into_iter().chain(mesh.backends()).collect();
    eventually(&format!("{} in every sidecar", policy.name()), async || {
        // A filter learns its service and those that it calls from its first request.
        mesh.ask("/").await?;
        let mut current = Vec::new();
        for replica in control_planes(mesh) {
            let service = format!("http://127.0.0.1:7080/v1/status/services/{SERVICE}");
            let service = mesh.ask_from(&replica, &service).await?.body;
            let service: Value = serde_json::from_str(&service).context("the service")?;
            // The status may be a second old, so the parameters have to be in it, too.
            let status = format!("http://127.0.0.1:7080/v1/status?filter={SERVICE}");
            let status: Value =
                serde_json::from_str(&mesh.ask_from(&replica, &status).await?.body).context("the status")?;
            let (routing, proxies) = (&status["services"][0]["routing"], &status["proxies"]);
            if *routing != policy.name() || proxies["current"] != proxies["connected"] {
                return Ok(None);
            }
            current.extend(connected(&service));
        }
        let has = |pod: &Pod| current.iter().any(|proxy| proxy.contains(&pod.name));
        Ok(pods.iter().all(has).then_some(()))
    })
    .await
}

/// The proxies that call or serve a service, of those that this replica counts.
fn connected(service: &Value) -> Vec<String> {
    let [senders, servers] = ["senderList", "servers"].map(|list| service[list].as_array().into_iter().flatten());
    let all = senders.filter(|sender| sender["state"] != "elsewhere").chain(servers);
    all.filter_map(|proxy| proxy["proxy"].as_str().map(str::to_owned)).collect()
}

async fn measure(mesh: &Mesh, policy: Policy, mesh_start: Duration) -> Result<Record> {
    let case = case(policy);
    let target = SocketAddr::from((mesh.gateway()?.address, 8080));
    let plan = LoadPlan { outstanding_limit: 1_000, seed: 1, ..case.plan(target) };
    let envoys = envoys()?;
    let start = Instant::now();
    let counters = async {
        sleep_until(start + WARM_UP).await;
        let (before, cpu) = (counters(mesh).await?, cpu_time(&envoys));
        sleep_until(start + WARM_UP + WINDOW).await;
        let cpu = cpu_time(&envoys).saturating_sub(cpu);
        Ok::<_, anyhow::Error>((before, counters(mesh).await?, cpu))
    };
    let (measured, counters) = tokio::join!(load(&plan, start, Arc::new(Tally::default())), counters);
    let (before, after, cpu) = counters?;
    let grown: BTreeMap<String, u64> = (after.into_iter())
        .map(|(name, value)| (name.clone(), value.saturating_sub(before.get(&name).copied().unwrap_or_default())))
        .collect();
    let attempts = attempts_per_request(&grown);
    Ok(Record {
        counters: grown,
        command: format!("bloc-e2e demo: {}", parameters(policy).unwrap_or_else(|| "no filters".to_owned())),
        mesh_start_s: rounded(mesh_start.as_secs_f64(), 10.0),
        environment: Environment::here(version(&mesh.tools.envoy)),
        ..case.result(&measured, attempts, cpu)
    })
}

/// What is measured, as the lab describes it.
fn case(policy: Policy) -> Case {
    let service_time = Duration::from_secs_f64(SERVICE_MS / 1e3);
    Case {
        experiment: Some("istio-mesh".to_owned()),
        mesh: MeshSpec { backends: BACKENDS, ..MeshSpec::fleet(policy, FRONTENDS, service_time.into()) },
        load: Load::Poisson { rate: RATE },
        keep_alive: true,
        timeout: Duration::from_secs(20),
        warm_up: WARM_UP,
        duration: WINDOW,
    }
}

/// Envoy's own counters of the frontends' clusters, by their names in this file's sums.
const SENT: &str = "upstream_rq_total";
const RETRIED: &str = "upstream_rq_retry";

/// How often a frontend's sidecar sent a request to a backend, by Envoy's own count, which exists
/// with and without filters.
fn attempts_per_request(counters: &BTreeMap<String, u64>) -> f64 {
    let of = |name| counters.get(name).copied().unwrap_or_default();
    let (sent, retried) = (of(SENT), of(RETRIED));
    if sent > retried { sent as f64 / (sent - retried) as f64 } else { 0.0 }
}

/// The counters about the backend in all frontends' sidecars, added up: Envoy's own and the
/// filters'.
async fn counters(mesh: &Mesh) -> Result<BTreeMap<String, u64>> {
    let mut sum = BTreeMap::new();
    for pod in mesh.frontends() {
        // Not through Istio's agent, which would cost more than the measured cases.
        let text = mesh.ask_from(&pod, &format!("http://127.0.0.1:15000/stats?filter={SERVICE}")).await?.body;
        for (name, value) in text.lines().filter_map(counter) {
            *sum.entry(name).or_default() += value;
        }
    }
    ensure!(sum.contains_key(SENT), "Envoy's counters of {SERVICE} are missing");
    Ok(sum)
}

/// A line of Envoy's statistics, if it is a counter of a filter or one of the two.
fn counter(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.split_once(": ")?;
    let value = value.parse().ok()?;
    if let Some(name) = name.strip_prefix("wasmcustom.") {
        return Some((name.to_owned(), value));
    }
    let own = [SENT, RETRIED]
        .into_iter()
        .find(|own| name.starts_with("cluster.outbound|8080||") && name.ends_with(&format!(".{own}")));
    own.map(|own| (own.to_owned(), value))
}

/// Every Envoy of the mesh: this process namespace contains no others.
fn envoys() -> Result<Vec<u32>> {
    let processes = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_envoy =
        |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim_end() == "envoy");
    let envoys: Vec<u32> = processes.filter(is_envoy).collect();
    // At least those of the gateway and the shop.
    ensure!(envoys.len() > FRONTENDS + BACKENDS, "only {} Envoys run", envoys.len());
    Ok(envoys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_attempts_from_envoys_counters_and_keeps_filter_counters() {
        let stats = "cluster.outbound|8080||backend.shop.svc.cluster.local;.upstream_rq_retry: 30\n\
                     cluster.outbound|8080||backend.shop.svc.cluster.local;.upstream_rq_total: 130\n\
                     cluster.outbound|8080||backend.shop.svc.cluster.local;.upstream_rq_retry_success: 28\n\
                     cluster.inbound|8080||;.upstream_rq_total: 500\n\
                     cluster.outbound|8080||backend.shop.svc.cluster.local;.upstream_cx_total: 7\n\
                     wasmcustom.bloc.outbound.backend.shop.svc.cluster.local.bounces: 29\n";
        let counters: BTreeMap<String, u64> = stats.lines().filter_map(counter).collect();
        let expected = [("bloc.outbound.backend.shop.svc.cluster.local.bounces", 29), (RETRIED, 30), (SENT, 130)];
        assert_eq!(counters, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(attempts_per_request(&counters), 1.3);
        assert_eq!(attempts_per_request(&BTreeMap::new()), 0.0);
    }

    #[test]
    fn lists_the_callers_and_servers_that_a_replica_counts() {
        let service = json!({
            "senderList": [{"proxy": "frontend-1", "state": "current"}, {"proxy": "frontend-2", "state": "elsewhere"}],
            "servers": [{"proxy": "backend-1"}],
        });
        assert_eq!(connected(&service), ["frontend-1", "backend-1"]);
    }
}
