//! One caller's sidecar, and servers behind theirs.
//!
//! A sidecar has a listener for each way to call. The last one is stock Envoy's: none of our
//! filters is on the way, neither at the caller nor at the servers.

use super::app::App;
use super::client::Client;
use crate::support::{Place, balance, eventually, inbound, metric, outbound};
use bloc_mesh::envoy::{
    Balancing, Envoy, Outbound, ROUTE_RETRIES, SERVICE, route_configuration, sidecar_inbound, sidecar_outbound,
    static_cluster,
};
use serde_json::{Value, json};
use std::net::SocketAddr;

pub const WORKERS: usize = 2;
const STOCK: &str = "stock";
/// The ways to call through our filters, named by their routings.
pub const ROUTINGS: [&str; 3] = ["bloc", "bid", "mu"];

/// An application behind its sidecar.
pub struct Pod {
    pub app: App,
    pub sidecar: Envoy,
    address: SocketAddr,
    stock: SocketAddr,
}

impl Pod {
    /// A pod whose sidecar has these parameters.
    pub async fn start(place: &Place, name: &str, mut spec: Value) -> Self {
        // Even on a slow machine a stream keeps its place between two messages.
        spec["streamIdle"] = json!("1h");
        let app = App::start(name).await;
        let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
        let mut bootstrap = inbound(place, app.address, &configuration, None);
        without_retries(&mut bootstrap);
        // Peers are inside the mesh: Envoy accepts x-envoy-* headers only from them.
        let manager = manager(&mut bootstrap);
        manager["use_remote_address"] = json!(true);
        manager["internal_address_config"] = json!({"cidr_ranges": [{"address_prefix": "127.0.0.0", "prefix_len": 8}]});
        let mut stock = sidecar_inbound(app.address, None);
        without_retries(&mut stock);
        let listeners = [listener(bootstrap.clone(), "inbound"), listener(stock, STOCK)];
        bootstrap["static_resources"]["listeners"] = json!(listeners);
        let sidecar = Envoy::start(&place.envoy, place.path(), name, &bootstrap, WORKERS).await.unwrap();
        let [address, stock] = ["inbound", STOCK].map(|name| sidecar.listener(name).unwrap());
        Self { app, sidecar, address, stock }
    }

    /// A client that calls this sidecar directly.
    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub async fn metric(&self, name: &str) -> u64 {
        metric(&self.sidecar, "inbound", name).await
    }

    /// Waits until the gauge shows `count`.
    pub async fn has_in_flight(&self, count: u64) {
        eventually(&format!("{count} in flight"), async || (self.metric("in_flight").await == count).then_some(()))
            .await;
    }

    /// Waits until the application works on `count` calls.
    pub async fn works_on(&self, count: usize) {
        eventually(&format!("{count} inside"), async || (self.app.at_once() == count).then_some(())).await;
    }

    /// How many calls of this method the application has received.
    pub fn calls(&self, method: &str) -> usize {
        self.app.calls().iter().filter(|call| call.method == method).count()
    }
}

/// The sidecar of a caller.
pub struct Caller {
    pub sidecar: Envoy,
}

impl Caller {
    /// Calls these servers, with enough retries for all of them. `edit` changes the route of each
    /// way to call last.
    pub async fn start(place: &Place, pods: &[&Pod], edit: impl Fn(&mut Value)) -> Self {
        Self::start_with(place, pods, edit, |_| ()).await
    }

    /// The same; `adjust` changes each cluster of servers last.
    pub async fn start_with(
        place: &Place,
        pods: &[&Pod],
        edit: impl Fn(&mut Value),
        adjust: impl Fn(&mut Value),
    ) -> Self {
        let at = |pod: &&Pod| pod.address;
        let (endpoints, stock): (Vec<_>, Vec<_>) = pods.iter().map(|pod| (at(pod), pod.stock)).unzip();
        let named: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        let of = |routing: &str| {
            let spec = json!({"routing": routing, "endpoints": named, "retries": 3, "routeRetries": ROUTE_RETRIES});
            outbound(place, &endpoints, &json!({"services": {SERVICE: spec}}), None)
        };
        let mut listeners: Vec<Value> = ROUTINGS.iter().map(|routing| with(of(routing), &edit, routing)).collect();
        let nowhere = Outbound { cluster: STOCK, endpoints: &stock, balancing: Balancing::RoundRobin, plugin: None };
        listeners.push(with(sidecar_outbound(&nowhere), &edit, STOCK));
        let mut bootstrap = of("bloc");
        let clusters = bootstrap["static_resources"]["clusters"].as_array_mut().unwrap();
        clusters.push(static_cluster(STOCK, &stock, Balancing::LeastRequestOfTwo));
        clusters.iter_mut().for_each(adjust);
        bootstrap["static_resources"]["listeners"] = json!(listeners);
        let sidecar = Envoy::start(&place.envoy, place.path(), "caller", &bootstrap, WORKERS).await.unwrap();
        Self { sidecar }
    }

    /// A client that calls this way.
    pub async fn client(&self, way: &str) -> Client {
        Client::connect(self.sidecar.listener(way).unwrap()).await
    }

    /// A client without our filters on its way.
    pub async fn stock(&self) -> Client {
        self.client(STOCK).await
    }

    pub async fn metric(&self, name: &str) -> u64 {
        metric(&self.sidecar, "outbound", name).await
    }
}

/// As in Istio's inbound routes for gRPC.
fn without_retries(bootstrap: &mut Value) {
    let route = &mut route_configuration(bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
    route.as_object_mut().unwrap().remove("retry_policy").unwrap();
}

fn manager(bootstrap: &mut Value) -> &mut Value {
    &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

fn with(mut bootstrap: Value, edit: &impl Fn(&mut Value), name: &str) -> Value {
    edit(&mut route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0]["route"]);
    listener(bootstrap, name)
}

fn listener(mut bootstrap: Value, name: &str) -> Value {
    balance(&mut bootstrap);
    let mut listener = bootstrap["static_resources"]["listeners"][0].take();
    listener["name"] = json!(name);
    listener
}
