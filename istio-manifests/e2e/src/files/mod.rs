//! `bloc-e2e files`: the shipped EnvoyFilters on a real istiod that reads them from files. No API
//! server, no root, no namespaces, half a minute at most.
//!
//! A frontend's sidecar and an ingress gateway call two backends, each behind its own sidecar.
//! Every Envoy has its own loopback address, because istiod identifies proxies by address. Traffic
//! is plain text and not captured. Only `test` covers admission, injection, mTLS, and the control
//! plane on Kubernetes.

mod addresses;
mod dump;
mod istiod;
mod proxy;

use crate::api::eventually;
use crate::mesh::Answer;
use crate::programs::start;
use crate::tools::Tools;
use addresses::{BACKENDS, FRONTEND, GATEWAY, SERVICE};
use anyhow::{Context, Result, ensure};
use bloc_mesh::backend::Backend;
use bloc_mesh::envoy::target_directory;
use bloc_mesh::process::Process;
use dump::Dump;
use istiod::Istiod;
use proxy::Proxy;
use std::collections::BTreeSet;
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

const CLUSTER: &str = "outbound|8080||backend.shop.svc.cluster.local";
/// The application's time for a request of cost 1. The request that occupies a server costs 100,
/// all others less.
const SERVICE_TIME: &str = "fixed:100ms";
const OCCUPIES: (&str, &str) = ("x-cost", "100");
const QUICK: (&str, &str) = ("x-cost", "0.05");
/// With two servers, the chance that none of so many requests tries the full one first is one in a
/// million.
const REQUESTS: usize = 20;

/// The headers that routes must remove, by direction.
const ALL: &[&str] = &["x-bloc-bid", "x-bloc-endpoints", "x-bloc-load", "x-bloc-reject"];
const OUT_OF_REQUESTS: &[&str] = &["x-bloc-bid", "x-bloc-load", "x-bloc-reject"];
const OUT_OF_ANSWERS: &[&str] = &["x-bloc-bid", "x-bloc-endpoints", "x-bloc-load"];

/// Everything that runs.
struct Mesh {
    istiod: Istiod,
    control_plane: Process,
    frontend: Proxy,
    gateway: Proxy,
    backends: Vec<Proxy>,
    applications: JoinSet<()>,
}

/// Runs a step and prints its result.
macro_rules! step {
    ($mesh:expr, $step:ident) => {{
        let began = Instant::now();
        $mesh.$step().await.context(stringify!($step).replace('_', " "))?;
        println!("ok      {} ({:.1} s)", stringify!($step).replace('_', " "), began.elapsed().as_secs_f64());
        $mesh.check()?;
    }};
}

/// Brings the mesh up and checks it; logs go to target/istio-files.
///
/// # Errors
/// A part does not get ready, or a check failed.
pub async fn run() -> Result<ExitCode> {
    let began = Instant::now();
    let mut mesh = Mesh::start().await?;
    println!("istiod on files and four Envoys started after {:.1} s", began.elapsed().as_secs_f64());
    step!(mesh, every_envoy_has_the_shipped_configuration);
    step!(mesh, applications_and_clients_see_no_internal_headers);
    step!(mesh, a_free_server_serves_requests_that_a_full_one_rejects);
    step!(mesh, no_envoy_refused_a_configuration);
    println!("all passed after {:.1} s", began.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

impl Mesh {
    async fn start() -> Result<Self> {
        let tools = Tools::find()?;
        let logs = target_directory().join("istio-files");
        let _ = std::fs::remove_dir_all(&logs);
        std::fs::create_dir_all(&logs)?;

        let mut applications = JoinSet::new();
        let mut ports = Vec::new();
        for (address, name) in BACKENDS.iter().zip(["backend-1", "backend-2"]) {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            ports.push((name, *address, listener.local_addr()?.port()));
            let service_time = SERVICE_TIME.parse().map_err(|error| anyhow::anyhow!("{SERVICE_TIME}: {error}"))?;
            applications.spawn(Backend::new(name, service_time, 10, 1.0, 1).serve(listener));
        }

        let services = logs.join("services.yaml");
        let endpoints = BACKENDS.map(|address| format!("'{address}:8080'")).join(", ");
        let parameters = "capacity: {estimator: static, limit: 1}, resetInterval: 100ms, retries: 3";
        std::fs::write(&services, format!("services:\n  {SERVICE}: {{{parameters}, endpoints: [{endpoints}]}}\n"))?;
        let program = tools.own.join("bloc-control-plane").display().to_string();
        let source = format!("file:{}", services.display());
        let listen = format!("{}:7080", istiod::ADDRESS);
        let command = [program, "--source".into(), source, "--listen".into(), listen];
        let control_plane = start("control-plane", &logs, command).await?;

        let istiod = Istiod::start(&tools, &logs, &ports).await.context("istiod")?;
        let proxy = async |kind, name, address, labels| Proxy::start(&tools, &logs, kind, name, address, labels).await;
        let frontend = proxy("sidecar", "frontend", FRONTEND, "frontend").await?;
        let gateway = proxy("router", "gateway", GATEWAY, "ingressgateway").await?;
        let mut backends = Vec::new();
        for (name, address, _) in ports {
            backends.push(proxy("sidecar", name, address, "backend").await?);
        }
        Ok(Self { istiod, control_plane, frontend, gateway, backends, applications })
    }

    /// Filters and module, the cluster's load balancing policy, the routes' back-off and removed
    /// headers.
    async fn every_envoy_has_the_shipped_configuration(&mut self) -> Result<()> {
        for (caller, listener, route) in [
            (&mut self.frontend, "127.77.0.2_8080", "8080"),
            (&mut self.gateway, "127.77.0.5_8080", "http.8080.127.77.0.5"),
        ] {
            caller
                .has(|dump| {
                    filters(dump, listener, &["bloc.outbound", "bloc.attempt"])?;
                    removes(dump, route, OUT_OF_REQUESTS, OUT_OF_ANSWERS)?;
                    dump.contains("RouteConfiguration", route, "\"base_interval\":\"0.001s\"")?;
                    dump.contains("Cluster", CLUSTER, "override_host.v3.OverrideHost")?;
                    dump.contains("Cluster", CLUSTER, "x-bloc-endpoints")
                })
                .await?;
        }
        for backend in &mut self.backends {
            let listener = format!("{}_8080", backend.address);
            backend
                .has(|dump| {
                    filters(dump, &listener, &["bloc.inbound"])?;
                    removes(dump, "inbound|8080||", ALL, ALL)
                })
                .await?;
        }
        Ok(())
    }

    /// An application shows the headers that it got, and a client those of its answer; also for a
    /// client that sends our headers itself.
    async fn applications_and_clients_see_no_internal_headers(&mut self) -> Result<()> {
        self.parameters_in_force().await?;
        let forged = [("x-bloc-bid", "1"), ("x-bloc-load", "queue=1"), ("x-bloc-reject", "capacity")];
        for caller in [FRONTEND, GATEWAY] {
            for headers in [&[QUICK][..], &[&[QUICK][..], &forged].concat()] {
                let answer = ask(caller, "/headers", headers).await?;
                ensure!(answer.status == 200, "{caller}: {answer:?}");
                ensure!(answer.body.contains("x-request-id"), "not the request's headers: {}", answer.body);
                ensure!(!answer.body.contains("x-bloc"), "an application sees {}", answer.body);
                ensure!(!answer.headers.contains("x-bloc"), "a client sees {}", answer.headers);
            }
        }
        Ok(())
    }

    /// Each server admits one request. While one of them is full, every other request is still
    /// served.
    async fn a_free_server_serves_requests_that_a_full_one_rejects(&mut self) -> Result<()> {
        let [full, free] = &self.backends[..] else { anyhow::bail!("two backends") };
        let mut occupant = JoinSet::new();
        occupant.spawn(ask(BACKENDS[0], "/", &[OCCUPIES]));
        let in_flight = format!("inbound.{SERVICE}.in_flight");
        eventually("a full server", async || Ok((full.statistic(&in_flight).await? == 1).then_some(()))).await?;
        for (name, caller, proxy) in [("frontend", FRONTEND, &self.frontend), ("gateway", GATEWAY, &self.gateway)] {
            let rejections = format!("outbound.{SERVICE}.rejections");
            let before = proxy.statistic(&rejections).await?;
            for _ in 0..REQUESTS {
                let answer = ask(caller, "/", &[QUICK]).await?;
                ensure!(answer.status == 200, "{name}: {answer:?}");
                ensure!(answer.body.contains(&free.name), "{name}: the full server served: {answer:?}");
            }
            eventually(&format!("a rejection that the {name} saw"), async || {
                Ok((proxy.statistic(&rejections).await? > before).then_some(()))
            })
            .await?;
        }
        ensure!(occupant.try_join_next().is_none(), "the request that was to occupy the server ended early");
        let rejected = format!("inbound.{SERVICE}.rejected_capacity");
        // Counters lag.
        eventually("a rejection that the full server counts", async || {
            Ok((full.statistic(&rejected).await? > 0).then_some(()))
        })
        .await?;
        occupant.shutdown().await;
        Ok(())
    }

    /// According to istiod's log and to the Envoys themselves.
    async fn no_envoy_refused_a_configuration(&mut self) -> Result<()> {
        let refused = self.istiod.refused_configurations()?;
        ensure!(refused.is_empty(), "{}", refused.join("\n"));
        for proxy in [&self.frontend, &self.gateway].into_iter().chain(&self.backends) {
            let refused = proxy.dump().await?.refused();
            ensure!(refused.is_empty(), "{} refused {}", proxy.name, refused.join("\n"));
        }
        Ok(())
    }

    /// Waits until the filters of all Envoys use the control plane's parameters.
    async fn parameters_in_force(&self) -> Result<()> {
        let servers = self.backends.iter().map(|proxy| (proxy, "inbound", "capacity"));
        let callers = [&self.frontend, &self.gateway].map(|proxy| (proxy, "outbound", "attempts"));
        let all: Vec<_> = servers.chain(callers).collect();
        // A filter learns its service, and those that it calls, from its first request, and their
        // parameters seconds later: all filters at the same time.
        for (proxy, ..) in &all {
            ask(&proxy.address, "/", &[QUICK]).await?;
        }
        for (proxy, side, name) in all {
            eventually(&format!("{side}.{name} in {}", proxy.name), async || {
                ask(&proxy.address, "/", &[QUICK]).await?;
                Ok((proxy.statistic(&format!("{side}.{SERVICE}.{name}")).await? > 0).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Whether everything still runs.
    fn check(&mut self) -> Result<()> {
        self.istiod.process.check()?;
        self.control_plane.check()?;
        for proxy in [&mut self.frontend, &mut self.gateway].into_iter().chain(&mut self.backends) {
            proxy.process.check()?;
        }
        ensure!(self.applications.try_join_next().is_none(), "an application has ended");
        Ok(())
    }
}

/// Requests the service at an Envoy's address.
async fn ask(address: &str, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    let headers = [&[("host", "backend.shop.svc.cluster.local:8080")], headers].concat();
    Answer::get(&format!("http://{address}:8080{path}"), &headers).await
}

/// Checks that these filters are in the listener, and use the module.
fn filters(dump: &Dump, listener: &str, filters: &[&str]) -> Result<()> {
    for filter in filters {
        dump.contains("Listener", listener, &format!("\"name\":\"{filter}\""))?;
        dump.contains("TypedExtensionConfig", filter, "filters.http.wasm.v3.Wasm")?;
    }
    Ok(())
}

/// Checks that the routes remove exactly these headers from requests and answers.
fn removes(dump: &Dump, route: &str, requests: &[&str], answers: &[&str]) -> Result<()> {
    for (field, expected) in [("request_headers_to_remove", requests), ("response_headers_to_remove", answers)] {
        let removed = &dump.resource("RouteConfiguration", route)?[field];
        let removed: BTreeSet<&str> =
            removed.as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
        ensure!(removed.iter().eq(expected), "{route}: {field} is {removed:?}, not {expected:?}");
    }
    Ok(())
}
