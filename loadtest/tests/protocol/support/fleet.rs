//! Servers behind their sidecars, and a caller that has several ways to send to them. Each way has
//! servers of its own.
//!
//! The sidecars of the servers are listeners of one Envoy, and the ways are listeners of another.
//! To the filters a way is a cluster, and the nth server of a way is the service `WAY-N`.

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
/// The worker threads of the Envoy with the servers' sidecars.
const WORKERS: usize = 2;

/// What a test decides.
pub struct Plan<'a> {
    /// The worker threads of the caller's Envoy.
    pub workers: usize,
    /// The parameters of a way, for its servers and its caller.
    pub spec: &'a dyn Fn(&str) -> Value,
    /// Changes the bootstrap of the nth server's sidecar last.
    pub server: &'a dyn Fn(usize, &mut Value),
    /// Changes the bootstrap of each way last.
    pub caller: &'a dyn Fn(&mut Value),
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { workers: WORKERS, spec: &|_| json!({}), server: &|_, _| (), caller: &|_| () }
    }
}

/// A way of the caller to some servers.
pub struct Way {
    pub name: &'static str,
    /// Where to send requests.
    pub to: SocketAddr,
    /// The sidecars of its servers.
    pub servers: Vec<SocketAddr>,
}

/// All servers, and their caller.
pub struct Fleet {
    pub ways: Vec<Way>,
    caller: Envoy,
    servers: Envoy,
    _place: Place,
}

impl Fleet {
    /// Starts it with these ways and the addresses of their applications.
    pub async fn start(ways: &[(&'static str, Vec<SocketAddr>)], plan: Plan<'_>) -> Self {
        let place = Place::new();
        let mut parts = Vec::new();
        for (way, apps) in ways {
            for (n, app) in apps.iter().enumerate() {
                let name = service(way, n);
                let configuration = json!({"service": name, "services": {&name: (plan.spec)(way)}});
                let plugin = (*way != STOCK).then(|| plugin(&place, &configuration));
                let mut part = sidecar_inbound(*app, plugin.as_ref());
                (plan.server)(n, &mut part);
                manager(&mut part["static_resources"]["listeners"][0])["stat_prefix"] = json!(name);
                parts.push(named(part, &name));
            }
        }
        let servers = Envoy::start(&place.envoy, place.path(), "servers", &merged(parts), WORKERS).await.unwrap();

        let at = |way: &str, apps: usize| -> Vec<SocketAddr> {
            (0..apps).map(|n| servers.listener(&service(way, n)).unwrap()).collect()
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
        let caller = Envoy::start(&place.envoy, place.path(), "caller", &merged(parts), plan.workers).await.unwrap();
        let ways = ways.iter().map(|(name, apps)| Way {
            name,
            to: caller.listener(name).unwrap(),
            servers: at(name, apps.len()),
        });
        Self { ways: ways.collect(), caller, servers, _place: place }
    }

    /// A gauge or counter of `bloc.inbound` in front of the nth server of a way.
    pub async fn inbound(&self, way: &str, n: usize, name: &str) -> u64 {
        stat(&self.servers, &format!("wasmcustom.bloc.inbound.{}.{name}", service(way, n))).await
    }

    /// A gauge or counter of the caller's filters on a way.
    pub async fn outbound(&self, way: &str, name: &str) -> u64 {
        stat(&self.caller, &format!("wasmcustom.bloc.outbound.{way}.{name}")).await
    }

    /// How many attempts have reached the sidecar of the nth server of a way.
    pub async fn attempts(&self, way: &str, n: usize) -> u64 {
        stat(&self.servers, &format!("http.{}.downstream_rq_total", service(way, n))).await
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
        "bloc" => json!({"capacity": {"estimator": "static", "limit": count}}),
        "bid" => json!({"concurrency": count, "hold": false}),
        _ => json!({"concurrency": count}),
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
    let (begun, answers) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let client = async || {
        let mut connection = Connection::open(to).await;
        loop {
            let n = begun.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            let answer = connection.send(next(n), "").await.unwrap();
            answers.lock().unwrap().push((n, answer));
        }
    };
    join_all((0..clients).map(|_| client())).await;
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
