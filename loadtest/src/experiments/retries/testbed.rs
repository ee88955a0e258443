//! A caller's sidecar with a listener for each way, and four servers.

use super::cases::{Case, Failure};
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::backend::Backend;
use bloc_mesh::envoy::{
    Balancing, Envoy, EnvoyError, Outbound, Plugin, SERVICE, route_configuration, sidecar_inbound, sidecar_outbound,
};
use bloc_mesh::http::{self, HttpError};
use bloc_policy::config::{PluginSpec, RoutingKind, ServiceSpec};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const SERVERS: usize = 4;
const LIMIT: Duration = Duration::from_secs(20);
/// The normal service time; a slow answer takes a hundred times as long.
const SERVICE_TIME: Duration = Duration::from_millis(10);
/// How long to wait for the filters' counters, which lag behind.
const COUNTED: Duration = Duration::from_secs(10);
/// The cluster and listener without filters.
const STOCK: &str = "stock";

/// The way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Stock Envoy.
    Stock,
    /// The filters, with this routing.
    Filters(RoutingKind),
}

/// The ways, in the order of the table.
pub const WAYS: [Way; 5] = [
    Way::Stock,
    Way::Filters(RoutingKind::Bloc),
    Way::Filters(RoutingKind::Bid),
    Way::Filters(RoutingKind::Mu),
    Way::Filters(RoutingKind::LeastRequest),
];

impl Way {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => STOCK,
            Self::Filters(RoutingKind::Bloc) => "bloc",
            Self::Filters(RoutingKind::Bid) => "bid",
            Self::Filters(RoutingKind::Mu) => "mu",
            Self::Filters(RoutingKind::LeastRequest) => "least_request",
            Self::Filters(RoutingKind::Random) => "random",
            Self::Filters(RoutingKind::RoundRobin) => "round_robin",
        }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RetriesError {
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// A socket or a directory failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A request got no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A server that should answer does not.
    #[error("a request was answered {0} before the application failed")]
    Answer(StatusCode),
    /// The counts of the filters and of Envoy differ.
    #[error("of {all} attempts of Envoy's the filters have seen {seen}")]
    Books {
        /// Envoy's count.
        all: u64,
        /// The filters' count.
        seen: u64,
    },
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// How often an application received it, or a connection to one was tried.
    pub attempts: u64,
    /// What the client got.
    pub status: StatusCode,
    /// How long it took.
    pub took: Duration,
}

/// Servers, each with a listener for the filters and one without.
#[derive(Debug)]
pub struct Stand {
    envoy: PathBuf,
    module: PathBuf,
    directory: PathBuf,
    servers: Vec<Envoy>,
    /// Applications; dropping this ends them.
    _tasks: JoinSet<()>,
}

impl Stand {
    /// Starts the servers with this Envoy and `bloc.wasm`; files and logs go to `directory`.
    ///
    /// # Errors
    /// Something is missing or does not start.
    pub async fn start(envoy: &Path, module: &Path, directory: &Path) -> Result<Self, RetriesError> {
        std::fs::create_dir_all(directory)?;
        let mut tasks = JoinSet::new();
        let mut servers = Vec::new();
        for n in 0..SERVERS {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let time = ServiceTime::Fixed(SERVICE_TIME);
            tasks.spawn(Backend::new(&format!("backend-{n}"), time, 100, 1.0, 1).serve(listener));
            let spec = ServiceSpec { concurrency: Some(100), hold: Some(false), ..ServiceSpec::default() };
            let mut bootstrap = sidecar_inbound(address, Some(&plugin(module, Some(SERVICE), SERVICE, spec)));
            let mut stock = sidecar_inbound(address, None)["static_resources"]["listeners"][0].take();
            stock["name"] = json!(STOCK);
            if let Some(listeners) = bootstrap["static_resources"]["listeners"].as_array_mut() {
                listeners.push(stock);
            }
            servers.push(Envoy::start(envoy, directory, &format!("server-{n}"), &bootstrap, 1).await?);
        }
        let [envoy, module, directory] = [envoy, module, directory].map(Path::to_owned);
        Ok(Self { envoy, module, directory, servers, _tasks: tasks })
    }

    /// Sends one request each way.
    ///
    /// # Errors
    /// The caller does not start, or a request gets no answer.
    pub async fn see(&self, case: &Case) -> Result<Vec<Course>, RetriesError> {
        let (caller, _ports) = self.caller(case).await?;
        let mut courses = Vec::new();
        for way in WAYS {
            courses.push(self.send(&caller, case, way).await?);
        }
        caller.end().await;
        Ok(courses)
    }

    /// Ends it.
    pub async fn end(self) {
        for server in self.servers {
            server.end().await;
        }
    }

    async fn send(&self, caller: &Envoy, case: &Case, way: Way) -> Result<Course, RetriesError> {
        let to = caller.listener(way.name())?;
        if case.failure != Failure::NoConnection {
            // Makes the servers known, with their load reports.
            for _ in 0..2 * SERVERS {
                let status = http::fetch(to, "/", &[("host", "backend.mesh")], LIMIT).await?.status();
                if status != StatusCode::OK {
                    return Err(RetriesError::Answer(status));
                }
            }
        }
        let path = match case.failure {
            Failure::Status503 => "/status/503",
            Failure::Slow => "/cost/100",
            Failure::Hedged => "/cost/60",
            Failure::NoConnection | Failure::No => "/",
        };
        let headers: Vec<_> = [("host", "backend.mesh")].into_iter().chain(case.asks.iter().copied()).collect();
        let before = self.attempts(caller, case, way).await?;
        let began = Instant::now();
        let status = http::fetch(to, path, &headers, LIMIT).await?.status();
        let took = began.elapsed();
        let attempts = self.attempts(caller, case, way).await?.saturating_sub(before);
        Ok(Course { attempts, status, took })
    }

    /// How often the applications received a request so far, or a connection to one was tried.
    async fn attempts(&self, caller: &Envoy, case: &Case, way: Way) -> Result<u64, RetriesError> {
        if case.failure == Failure::NoConnection {
            let name = way.name();
            let [requests, retries, refused, ours] = [
                format!("http.{name}.downstream_rq_total"),
                format!("cluster.{name}.upstream_rq_retry"),
                format!("wasmcustom.bloc.outbound.{name}.refused_retries"),
                format!("wasmcustom.bloc.outbound.{name}.attempts"),
            ];
            let deadline = Instant::now() + COUNTED;
            loop {
                let all = counter(caller, &requests).await? + counter(caller, &retries).await?;
                let (refused, ours) = (counter(caller, &refused).await?, counter(caller, &ours).await?);
                if way == Way::Stock {
                    return Ok(all);
                }
                if ours + refused == all {
                    return Ok(ours);
                }
                if Instant::now() > deadline {
                    return Err(RetriesError::Books { all, seen: ours + refused });
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        let mut attempts = 0;
        for server in &self.servers {
            attempts += counter(server, "cluster.app.upstream_rq_total").await?;
        }
        Ok(attempts)
    }

    /// The caller, and the ports at which nobody listens, which must be kept as long as it runs.
    async fn caller(&self, case: &Case) -> Result<(Envoy, Vec<TcpSocket>), RetriesError> {
        let mut whole: Option<Value> = None;
        let mut ports = Vec::new();
        for way in WAYS {
            let endpoints = match (case.failure, way) {
                (Failure::NoConnection, _) => nobody(SERVERS, &mut ports)?,
                (_, Way::Stock) => self.listeners(STOCK)?,
                (_, Way::Filters(_)) => self.listeners("inbound")?,
            };
            let part = part(&self.module, case, way, &endpoints);
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => merge(whole, part),
            }
        }
        let bootstrap = whole.unwrap_or_default();
        Ok((Envoy::start(&self.envoy, &self.directory, "caller", &bootstrap, 1).await?, ports))
    }

    fn listeners(&self, name: &str) -> Result<Vec<SocketAddr>, EnvoyError> {
        self.servers.iter().map(|server| server.listener(name)).collect()
    }
}

/// Addresses at which nobody listens: their sockets are bound, and added to `ports`. Otherwise a
/// listener of the caller may get such a port, and its requests come back to it.
fn nobody(count: usize, ports: &mut Vec<TcpSocket>) -> Result<Vec<SocketAddr>, std::io::Error> {
    let mut addresses = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        addresses.push(socket.local_addr()?);
        ports.push(socket);
    }
    Ok(addresses)
}

async fn counter(envoy: &Envoy, name: &str) -> Result<u64, RetriesError> {
    Ok(envoy.stats(name).await?.get(name).copied().unwrap_or_default())
}

/// The filters with the parameters of one service. `own` is the service behind them; none for a
/// caller.
fn plugin(module: &Path, own: Option<&str>, service: &str, spec: ServiceSpec) -> Plugin {
    let services = BTreeMap::from([(service.to_owned(), spec)]);
    let configuration = json!(PluginSpec { service: own.map(str::to_owned), services, ..PluginSpec::default() });
    Plugin { module: module.to_owned(), configuration: configuration.to_string(), control_plane: None }
}

/// The listener and the cluster of one way.
fn part(module: &Path, case: &Case, way: Way, endpoints: &[SocketAddr]) -> Value {
    let name = way.name();
    let plugin = match way {
        Way::Stock => None,
        Way::Filters(routing) => {
            let spec = ServiceSpec {
                routing: Some(routing),
                retries: Some(case.ours.into()),
                route_retries: case.retries.filter(|_| !case.virtual_service).map(i64::from),
                virtual_service_retries: retries_by_name(case),
                retry_budget: Some(1.0),
                endpoints: Some(endpoints.iter().map(ToString::to_string).collect()),
                ..ServiceSpec::default()
            };
            Some(plugin(module, None, name, spec))
        }
    };
    let balancing = if plugin.is_some() { Balancing::ChosenByFilter } else { Balancing::RoundRobin };
    let outbound = Outbound { cluster: name, endpoints, balancing, plugin: plugin.as_ref() };
    let mut bootstrap = sidecar_outbound(&outbound);
    let whole = &mut route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0];
    if case.virtual_service {
        let path = "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/backend";
        whole["metadata"] = json!({"filter_metadata": {"istio": {"config": path}}});
    }
    let route = &mut whole["route"];
    let back_off = route["retry_policy"]["retry_back_off"].take();
    let mut policy = json!({});
    if let Some(conditions) = case.retry_on {
        policy["retry_on"] = json!(conditions);
        policy["retriable_status_codes"] = json!([503]);
    }
    if let Some(retries) = case.retries {
        policy["num_retries"] = json!(retries);
    }
    if case.failure == Failure::Hedged {
        route["hedge_policy"] = json!({"hedge_on_per_try_timeout": true});
    }
    if let Some(millis) = case.per_try_timeout_ms {
        policy["per_try_timeout"] = json!(format!("{:.3}s", millis as f64 / 1e3));
    }
    if !back_off.is_null() {
        policy["retry_back_off"] = back_off;
    }
    if case.retry_on.is_some() || plugin.is_some() {
        route["retry_policy"] = policy;
    } else if let Some(route) = route.as_object_mut() {
        route.remove("retry_policy");
    }
    let listener = &mut bootstrap["static_resources"]["listeners"][0];
    listener["name"] = json!(name);
    // The client is inside the mesh: Envoy accepts x-envoy-* headers only from there.
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["stat_prefix"] = json!(name);
    manager["use_remote_address"] = json!(true);
    manager["internal_address_config"] = json!({"cidr_ranges": [{"address_prefix": "127.0.0.0", "prefix_len": 8}]});
    bootstrap
}

/// What a control plane sends that has read the VirtualService.
fn retries_by_name(case: &Case) -> BTreeMap<String, i64> {
    let retries = case.retries.filter(|_| case.virtual_service);
    retries.into_iter().map(|retries| ("shop/backend".to_owned(), retries.into())).collect()
}

/// Adds the listeners and clusters of a part to the whole.
fn merge(whole: &mut Value, mut part: Value) {
    for kind in ["listeners", "clusters"] {
        let more = part["static_resources"][kind].as_array_mut().map(std::mem::take).unwrap_or_default();
        if let Some(all) = whole["static_resources"][kind].as_array_mut() {
            all.extend(more);
        }
    }
}
