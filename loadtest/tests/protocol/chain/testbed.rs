//! The Envoys of a group of combinations: a sender, and a proxy in front of all applications. The
//! proxy has a listener for each application, like as many sidecars; each is a service of its own
//! to the filters. A combination has its own listeners, clusters and services in both Envoys, and
//! shares threads and VMs with the others.

use super::application::{self, CONCURRENCY, Seen};
use super::combinations::{Combination, OnRequest, OnResponse, Protocol, Spot};
use super::services::Services;
use crate::support::bootstraps::{manager, merged, named};

use crate::support::{Place, eventually};
use bloc_mesh::envoy::{
    Balancing, Certificates, Envoy, Outbound, Plugin, sidecar_inbound, sidecar_outbound, static_cluster,
};
use bloc_policy::config::RoutingKind;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Requests that each server of a combination admits at once. The first two are often full.
const CAPACITIES: [Option<u32>; 5] = [Some(1), Some(1), None, None, None];
/// How long a sender avoids a full server.
const RESET_INTERVAL: &str = "50ms";
/// The cluster of the services that other filters call.
const ASKED: &str = "asked";
const HTTP_FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";

/// The servers that a sender calls, in one combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The servers without a capacity: they reject nothing, and chips are plentiful.
    Calm,
    /// Those, and a full one: some requests are rejected and sent again.
    Crowded,
    /// A full server alone: clients get many rejections.
    Full,
    /// As many servers, without our filters.
    Stock,
}

impl Target {
    /// The name of its listener and its cluster.
    pub fn name(self, number: usize) -> String {
        format!("{self:?}-{number}").to_lowercase()
    }

    fn servers(self) -> Range<usize> {
        match self {
            Self::Calm => 2..CAPACITIES.len(),
            Self::Full => 0..1,
            Self::Crowded | Self::Stock => 1..CAPACITIES.len(),
        }
    }
}

/// A listener of the proxy in front of the applications.
fn server_name(number: usize, server: usize, stock: bool) -> String {
    format!("{}-{number}-{server}", if stock { "stock" } else { "server" })
}

/// All that runs in a group.
pub struct Stand {
    pub sender: Envoy,
    pub servers: Envoy,
    pub services: Services,
    pub seen: Arc<Mutex<Seen>>,
    _place: Place,
}

impl Stand {
    pub async fn start(combinations: &[(usize, Combination)]) -> Self {
        let place = Place::new();
        let seen = Arc::<Mutex<Seen>>::default();
        let services = Services::start().await;
        let certificates = Certificates::new().unwrap();

        let mut parts = Vec::new();
        for &(number, combination) in combinations {
            let mut listeners = Vec::new();
            for (n, capacity) in CAPACITIES.into_iter().enumerate() {
                let app = application::start(&seen).await;
                let ours = server_name(number, n, false);
                listeners.push(named(server(&place, &combination, app, &ours, capacity), &ours));
                listeners.push(named(sidecar_inbound(app, None), &server_name(number, n, true)));
            }
            let mut part = merged(listeners);
            if combination.protocol == Protocol::Upgraded {
                speak(&mut part, "http_protocol_options");
            }
            if combination.tls {
                part["static_resources"]["listeners"]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|one| certificates.require(one));
            }
            add_waiting(&mut part, &combination, [Spot::BeforeInbound, Spot::AfterInbound]);
            parts.push(part);
        }
        parts.extend(asked(services.address));
        let servers = Envoy::start(&place.envoy, place.path(), "servers", &merged(parts), 2).await.unwrap();

        let mut parts = Vec::new();
        for &(number, combination) in combinations {
            let senders = [Target::Calm, Target::Crowded, Target::Full, Target::Stock].map(|target| {
                let names = target.servers().map(|n| server_name(number, n, target == Target::Stock));
                let endpoints: Vec<_> = names.map(|name| servers.listener(&name).unwrap()).collect();
                let name = target.name(number);
                named(sender(&place, &combination, target, &name, &endpoints), &name)
            });
            let mut part = merged(senders.into());
            if combination.protocol == Protocol::Upgraded {
                speak(&mut part, "http2_protocol_options");
            }
            if combination.tls {
                part["static_resources"]["clusters"]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|one| certificates.present(one));
            }
            // Connections are balanced over the workers, so that both are warm after as many
            // requests.
            for listener in part["static_resources"]["listeners"].as_array_mut().unwrap() {
                listener["connection_balance_config"] = json!({"exact_balance": {}});
            }
            add_waiting(&mut part, &combination, [Spot::BeforeOutbound, Spot::AfterOutbound]);
            parts.push(part);
        }
        parts.extend(asked(services.address));
        let sender = Envoy::start(&place.envoy, place.path(), "sender", &merged(parts), 2).await.unwrap();
        Self { sender, servers, services, seen, _place: place }
    }

    /// The counters of `bloc.outbound`, once they include this many requests.
    pub async fn counters(&self, service: &str, requests: u64) -> Counters {
        eventually("all requests in the counters", async || {
            let counters = Counters::read(&self.sender, service).await;
            (counters.requests >= requests).then_some(counters)
        })
        .await
    }

    /// Waits until no server has a request in flight.
    pub async fn idle(&self) {
        eventually("gauges that return to 0", async || {
            let gauges = self.servers.stats(r"^wasmcustom\.bloc\.inbound\..*\.in_flight$").await.ok()?;
            (!gauges.is_empty() && gauges.values().all(|&value| value == 0)).then_some(())
        })
        .await;
    }

    /// A statistic of one of the sender's clusters.
    pub async fn of_cluster(&self, cluster: &str, name: &str) -> u64 {
        self.sender.stats(&format!(r"^cluster\.{cluster}\.{name}$")).await.unwrap().values().sum()
    }
}

/// Counters of `bloc.outbound`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub requests: u64,
    pub attempts: u64,
    pub forced: u64,
    pub fallbacks: u64,
    /// Rejections and bounces.
    pub rejected: u64,
    pub failures: u64,
    pub retries_exhausted: u64,
}

impl Counters {
    async fn read(sender: &Envoy, service: &str) -> Self {
        let prefix = format!("wasmcustom.bloc.outbound.{service}.");
        let stats = sender.stats(&format!("^{prefix}")).await.unwrap();
        let of = |name: &str| stats.get(&format!("{prefix}{name}")).copied().unwrap_or(0);
        Self {
            requests: of("requests"),
            attempts: of("attempts"),
            forced: of("forced"),
            fallbacks: of("fallbacks"),
            rejected: of("rejections") + of("bounces"),
            failures: of("failures"),
            retries_exhausted: of("retries_exhausted"),
        }
    }

    /// The counts since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            attempts: self.attempts - before.attempts,
            forced: self.forced - before.forced,
            fallbacks: self.fallbacks - before.fallbacks,
            rejected: self.rejected - before.rejected,
            failures: self.failures - before.failures,
            retries_exhausted: self.retries_exhausted - before.retries_exhausted,
        }
    }
}

fn plugin(place: &Place, configuration: &Value) -> Plugin {
    Plugin { module: place.module.clone(), configuration: configuration.to_string(), control_plane: None }
}

fn server(place: &Place, combination: &Combination, app: SocketAddr, service: &str, capacity: Option<u32>) -> Value {
    let mut spec = json!({});
    if let Some(limit) = capacity {
        spec["capacity"] = json!({"estimator": "static", "limit": limit});
    }
    if combination.routing != RoutingKind::Bloc {
        spec["concurrency"] = json!(CONCURRENCY);
        spec["hold"] = json!(combination.routing == RoutingKind::Mu);
    }
    sidecar_inbound(app, Some(&plugin(place, &json!({"service": service, "services": {service: spec}}))))
}

fn sender(place: &Place, combination: &Combination, target: Target, cluster: &str, endpoints: &[SocketAddr]) -> Value {
    if target == Target::Stock {
        let balancing = Balancing::LeastRequestOfTwo;
        return sidecar_outbound(&Outbound { cluster, endpoints, balancing, plugin: None });
    }
    let mut spec = json!({"routing": combination.routing, "retries": 5});
    match target {
        Target::Crowded => spec["resetInterval"] = json!(RESET_INTERVAL),
        Target::Full => spec["retries"] = json!(1),
        // The default: a server that is avoided for no reason stays so for a while.
        Target::Calm | Target::Stock => {}
    }
    if combination.named {
        spec["endpoints"] = json!(endpoints);
    }
    let plugin = plugin(place, &json!({"services": {cluster: spec}}));
    let balancing = Balancing::ChosenByFilter;
    sidecar_outbound(&Outbound { cluster, endpoints, balancing, plugin: Some(&plugin) })
}

/// Sets one protocol for all clusters.
fn speak(bootstrap: &mut Value, protocol: &str) {
    for cluster in bootstrap["static_resources"]["clusters"].as_array_mut().unwrap() {
        for options in cluster["typed_extension_protocol_options"].as_object_mut().unwrap().values_mut() {
            options.as_object_mut().unwrap().remove("use_downstream_protocol_config");
            options["explicit_http_config"] = json!({protocol: {}});
        }
    }
}

/// Adds the combination's delaying filters to all listeners, if their spot is one of these two:
/// before all others, or right before the router.
fn add_waiting(bootstrap: &mut Value, combination: &Combination, spots: [Spot; 2]) {
    let on_request = combination.on_request.map(|(filter, spot)| (on_request(filter), spot));
    let on_response = combination.on_response.map(|(filter, spot)| (on_response(filter), spot));
    for (filter, spot) in on_request.into_iter().chain(on_response) {
        for listener in bootstrap["static_resources"]["listeners"].as_array_mut().unwrap() {
            let chain = manager(listener)["http_filters"].as_array_mut().unwrap();
            if spot == spots[0] {
                chain.insert(0, filter.clone());
            } else if spot == spots[1] {
                chain.insert(chain.len() - 1, filter.clone());
            }
        }
    }
}

/// The clusters that other filters call, for pages and by gRPC.
fn asked(services: SocketAddr) -> [Value; 2] {
    [(ASKED.to_owned(), "http_protocol_options"), (grpc(ASKED), "http2_protocol_options")].map(|(name, protocol)| {
        let cluster = static_cluster(&name, &[services], Balancing::RoundRobin);
        let mut part = json!({"static_resources": {"listeners": [], "clusters": [cluster]}});
        speak(&mut part, protocol);
        part
    })
}

fn grpc(name: &str) -> String {
    format!("{name}-grpc")
}

fn filter(name: &str, message: &str, mut config: Value) -> Value {
    config["@type"] = json!(format!("{HTTP_FILTERS}.{name}.v3.{message}"));
    json!({"name": format!("envoy.filters.http.{name}"), "typed_config": config})
}

fn on_request(kind: OnRequest) -> Value {
    match kind {
        OnRequest::ExtAuthz => {
            let config = json!({"transport_api_version": "V3", "grpc_service": asked_by_grpc()});
            filter("ext_authz", "ExtAuthz", config)
        }
        OnRequest::Fault => {
            let delay = json!({"fixed_delay": "0.010s", "percentage": {"numerator": 100}});
            filter("fault", "HTTPFault", json!({"delay": delay}))
        }
        OnRequest::Lua => lua("envoy_on_request"),
    }
}

fn on_response(kind: OnResponse) -> Value {
    match kind {
        OnResponse::Script => lua("envoy_on_response"),
        OnResponse::ExtProc => {
            let mode = json!({"request_header_mode": "SKIP", "response_header_mode": "SEND"});
            let service = asked_by_grpc();
            let config = json!({"grpc_service": service, "message_timeout": "20s", "processing_mode": mode});
            filter("ext_proc", "ExternalProcessor", config)
        }
    }
}

fn asked_by_grpc() -> Value {
    json!({"envoy_grpc": {"cluster_name": grpc(ASKED)}, "timeout": "20s"})
}

/// A script that requests a page at this point, and waits for it.
fn lua(callback: &str) -> Value {
    let code = format!(
        r#"function {callback}(handle)
             local ask = {{[":method"] = "GET", [":path"] = "/page", [":authority"] = "{ASKED}"}}
             local answer = handle:httpCall("{ASKED}", ask, "", 20000)
             if answer[":status"] ~= "200" then handle:logCritical("no page") end
           end"#
    );
    filter("lua", "Lua", json!({"default_source_code": {"inline_string": code}}))
}
