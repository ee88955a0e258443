//! Servers behind their sidecars, and callers that have several ways to send to them. Each way has
//! servers of its own.
//!
//! The sidecars of the servers are listeners of one Envoy, or of one for each server, and the ways
//! are listeners of each caller's. To the filters a way is a cluster, and the nth server of a way
//! is the service `WAY-N`.

use super::bootstraps::{manager, merged, named};
use super::{Answer, App, Connection, Place, balance};
use bloc_mesh::envoy::{Balancing, Envoy, Outbound, Plugin, route_configuration, sidecar_inbound, sidecar_outbound};
use futures_util::future::join_all;
use hyper::http::request::Builder;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ways through our filters, named by their routings.
pub const ROUTINGS: [&str; 3] = ["bloc", "bid", "mu"];
/// The way by least request, without our filters at either side.
pub const STOCK: &str = "stock";
/// The worker threads of an Envoy with servers' sidecars.
const WORKERS: usize = 2;

/// What a test decides.
pub struct Plan<'a> {
    /// The callers, each an Envoy.
    pub callers: usize,
    /// The worker threads of each.
    pub workers: usize,
    /// Whether each server has an Envoy of its own, which it shares with those of other ways.
    pub apart: bool,
    /// The parameters of a way, for its servers and its caller.
    pub spec: &'a dyn Fn(&str) -> Value,
    /// Changes the bootstrap of the nth server's sidecar last.
    pub server: &'a dyn Fn(usize, &mut Value),
    /// Changes the bootstrap of each way of a caller last.
    pub caller: &'a dyn Fn(&mut Value),
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { callers: 1, workers: WORKERS, apart: false, spec: &|_| json!({}), server: &|_, _| (), caller: &|_| () }
    }
}

/// A way to some servers.
pub struct Way {
    pub name: &'static str,
    /// Where to send requests: to the first caller.
    pub to: SocketAddr,
    /// The same of each caller.
    pub callers: Vec<SocketAddr>,
    /// The sidecars of its servers.
    pub servers: Vec<SocketAddr>,
}

/// All servers, and their callers.
pub struct Fleet {
    pub ways: Vec<Way>,
    callers: Vec<Envoy>,
    servers: Vec<Envoy>,
    _place: Place,
}

impl Fleet {
    /// Starts it with these ways and the addresses of their applications.
    pub async fn start(ways: &[(&'static str, Vec<SocketAddr>)], plan: Plan<'_>) -> Self {
        let place = Place::new();
        let most = ways.iter().map(|(_, apps)| apps.len()).max().unwrap();
        let mut parts = vec![Vec::new(); if plan.apart { most } else { 1 }];
        let envoys = parts.len();
        for (way, apps) in ways {
            for (n, app) in apps.iter().enumerate() {
                let name = service(way, n);
                let configuration = json!({"service": name, "services": {&name: (plan.spec)(way)}});
                let plugin = (*way != STOCK).then(|| plugin(&place, &configuration));
                let mut part = sidecar_inbound(*app, plugin.as_ref());
                (plan.server)(n, &mut part);
                manager(&mut part["static_resources"]["listeners"][0])["stat_prefix"] = json!(name);
                parts[n % envoys].push(named(part, &name));
            }
        }
        let mut servers = Vec::new();
        for (n, parts) in parts.into_iter().enumerate() {
            let name = format!("servers-{n}");
            servers.push(Envoy::start(&place.envoy, place.path(), &name, &merged(parts), WORKERS).await.unwrap());
        }

        let at = |way: &str, apps: usize| -> Vec<SocketAddr> {
            (0..apps).map(|n| servers[n % envoys].listener(&service(way, n)).unwrap()).collect()
        };
        let mut parts = Vec::new();
        for (way, apps) in ways {
            let endpoints = at(way, apps.len());
            let mut spec = (plan.spec)(way);
            (spec["routing"], spec["endpoints"]) = (json!(way), json!(endpoints));
            let plugin = (*way != STOCK).then(|| plugin(&place, &json!({"services": {*way: spec}})));
            let balancing = if plugin.is_some() { Balancing::ChosenByFilter } else { Balancing::LeastRequestOfTwo };
            let plugin = plugin.as_ref();
            let mut part = sidecar_outbound(&Outbound { cluster: way, endpoints: &endpoints, balancing, plugin });
            (plan.caller)(&mut part);
            balance(&mut part);
            parts.push(named(part, way));
        }
        let (bootstrap, mut callers) = (merged(parts), Vec::new());
        for n in 0..plan.callers {
            let name = format!("caller-{n}");
            callers.push(Envoy::start(&place.envoy, place.path(), &name, &bootstrap, plan.workers).await.unwrap());
        }
        let way = |(name, apps): &(&'static str, Vec<SocketAddr>)| {
            let callers: Vec<SocketAddr> = callers.iter().map(|caller| caller.listener(name).unwrap()).collect();
            Way { name, to: callers[0], callers, servers: at(name, apps.len()) }
        };
        Self { ways: ways.iter().map(way).collect(), callers, servers, _place: place }
    }

    /// A gauge or counter of `bloc.inbound` in front of the nth server of a way.
    pub async fn inbound(&self, way: &str, n: usize, name: &str) -> u64 {
        stat(self.server(n), &format!("wasmcustom.bloc.inbound.{}.{name}", service(way, n))).await
    }

    /// The sum of a gauge or counter of the callers' filters on a way.
    pub async fn outbound(&self, way: &str, name: &str) -> u64 {
        let name = format!("wasmcustom.bloc.outbound.{way}.{name}");
        join_all(self.callers.iter().map(|caller| stat(caller, &name))).await.into_iter().sum()
    }

    /// How many attempts have reached the sidecar of the nth server of a way.
    pub async fn attempts(&self, way: &str, n: usize) -> u64 {
        stat(self.server(n), &format!("http.{}.downstream_rq_total", service(way, n))).await
    }

    fn server(&self, n: usize) -> &Envoy {
        &self.servers[n % self.servers.len()]
    }
}

/// So many applications for each of these ways, named `0`, `1`, ...
pub async fn applications(ways: &[&'static str], servers: usize) -> Vec<(&'static str, Vec<App>)> {
    let names: Vec<String> = (0..servers).map(|n| n.to_string()).collect();
    join_all(ways.iter().map(|way| async { (*way, join_all(names.iter().map(|name| App::start(name))).await) })).await
}

/// The same by address, for [`Fleet::start`].
pub fn addresses(apps: &[(&'static str, Vec<App>)]) -> Vec<(&'static str, Vec<SocketAddr>)> {
    apps.iter().map(|(way, apps)| (*way, apps.iter().map(|app| app.address).collect())).collect()
}

/// The parameters of servers that work on so many requests at once, as this routing needs them.
pub fn places(routing: &str, count: u32) -> Value {
    match routing {
        "bloc" => json!({"routing": "bloc", "capacity": {"estimator": "static", "limit": count}}),
        "bid" => json!({"concurrency": count, "hold": false}),
        _ => json!({"concurrency": count, "hold": true}),
    }
}

/// Removes the retries of a route's user, so that only ours are left.
pub fn without_user_retries(bootstrap: &mut Value) {
    let route = &mut route_configuration(bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
    route["retry_policy"].as_object_mut().unwrap().retain(|field, _| field == "retry_back_off");
}

/// Clients send `count` requests, each client one after the other on its own connection. `next`
/// builds the nth. Returns the answers in the order of the requests.
pub async fn send_all(to: SocketAddr, clients: usize, count: usize, next: impl Fn(usize) -> Builder) -> Vec<Answer> {
    send_to_all(&[to], clients, count, next).await
}

/// The same to several callers, which have as many of the clients each.
pub async fn send_to_all(
    callers: &[SocketAddr],
    clients: usize,
    count: usize,
    next: impl Fn(usize) -> Builder,
) -> Vec<Answer> {
    let (begun, answers) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let client = async |number: usize| {
        let mut connection = Connection::open(callers[number % callers.len()]).await;
        loop {
            let n = begun.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            let answer = connection.send(next(n), "").await.unwrap();
            answers.lock().unwrap().push((n, answer));
        }
    };
    join_all((0..clients).map(client)).await;
    let mut answers = answers.into_inner().unwrap();
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The share of the answers that each of so many applications gave.
pub fn shares(answers: &[Answer], servers: usize) -> Vec<f64> {
    let of = |n: usize| answers.iter().filter(|answer| answer.app() == Some(&*n.to_string())).count();
    (0..servers).map(|n| of(n) as f64 / answers.len() as f64).collect()
}

fn service(way: &str, n: usize) -> String {
    format!("{way}-{n}")
}

fn plugin(place: &Place, configuration: &Value) -> Plugin {
    Plugin { module: place.module.clone(), configuration: configuration.to_string(), control_plane: None }
}

async fn stat(envoy: &Envoy, name: &str) -> u64 {
    let filter = format!("^{}$", name.replace('.', r"\."));
    envoy.stats(&filter).await.unwrap().get(name).copied().unwrap_or(0)
}
