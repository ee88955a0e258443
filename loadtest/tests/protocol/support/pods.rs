//! Pods (an application behind its sidecar) and senders (the sidecar of a caller), each a real
//! Envoy with two workers.

use super::{App, Place};
use bloc_mesh::envoy::{Balancing, Envoy, Outbound, Plugin, SERVICE, sidecar_inbound, sidecar_outbound};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const WORKERS: usize = 2;

/// An application behind its sidecar.
pub struct Pod {
    pub app: App,
    pub sidecar: Envoy,
    pub address: SocketAddr,
}

impl Pod {
    /// A pod whose sidecar has this plugin configuration.
    pub async fn start(place: &Place, name: &str, configuration: Value) -> Self {
        let app = App::start(name).await;
        let bootstrap = inbound(place, app.address, &configuration, None);
        let sidecar = Envoy::start(&place.envoy, place.path(), name, &bootstrap, WORKERS).await.unwrap();
        let address = sidecar.listener("inbound").unwrap();
        Self { app, sidecar, address }
    }

    /// A pod with this spec, whose sidecar balances its connections over so many workers. `edit`
    /// changes its bootstrap last.
    pub async fn balanced(
        place: &Place,
        name: &str,
        spec: Value,
        workers: usize,
        edit: impl FnOnce(&mut Value),
    ) -> Self {
        let app = App::start(name).await;
        let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
        let mut bootstrap = inbound(place, app.address, &configuration, None);
        balance(&mut bootstrap);
        edit(&mut bootstrap);
        let sidecar = Envoy::start(&place.envoy, place.path(), name, &bootstrap, workers).await.unwrap();
        let address = sidecar.listener("inbound").unwrap();
        Self { app, sidecar, address }
    }

    /// A pod that admits `capacity` requests at once.
    pub async fn with_capacity(place: &Place, name: &str, capacity: u32) -> Self {
        let spec = json!({"capacity": {"estimator": "static", "limit": capacity}});
        Self::start(place, name, json!({"service": SERVICE, "services": {SERVICE: spec}})).await
    }

    /// A gauge or counter of the inbound filter.
    pub async fn metric(&self, name: &str) -> u64 {
        metric(&self.sidecar, "inbound", name).await
    }
}

/// A metric of the filters in `envoy`.
pub async fn metric(envoy: &Envoy, side: &str, name: &str) -> u64 {
    let full = format!("wasmcustom.bloc.{side}.{SERVICE}.{name}");
    envoy.stats(&full).await.unwrap().get(&full).copied().unwrap_or(0)
}

/// The bootstrap of a backend's sidecar.
pub fn inbound(place: &Place, app: SocketAddr, configuration: &Value, control_plane: Option<SocketAddr>) -> Value {
    let plugin = Plugin { module: place.module.clone(), configuration: configuration.to_string(), control_plane };
    sidecar_inbound(app, Some(&plugin))
}

/// The bootstrap of a caller's sidecar.
pub fn outbound(
    place: &Place,
    endpoints: &[SocketAddr],
    configuration: &Value,
    control_plane: Option<SocketAddr>,
) -> Value {
    let plugin = Plugin { module: place.module.clone(), configuration: configuration.to_string(), control_plane };
    sidecar_outbound(&Outbound {
        cluster: SERVICE,
        endpoints,
        balancing: Balancing::ChosenByFilter,
        plugin: Some(&plugin),
    })
}

/// The sidecar of a caller, and where to send requests.
pub async fn sender(place: &Place, bootstrap: &Value) -> (Envoy, SocketAddr) {
    let envoy = Envoy::start(&place.envoy, place.path(), "sender", bootstrap, WORKERS).await.unwrap();
    let address = envoy.listener("outbound").unwrap();
    (envoy, address)
}

/// A caller's sidecar with a single worker, so that all requests share its knowledge.
pub async fn single_sender(
    place: &Place,
    name: &str,
    endpoints: &[SocketAddr],
    mut spec: Value,
) -> (Envoy, SocketAddr) {
    spec["endpoints"] = json!(endpoints.iter().map(ToString::to_string).collect::<Vec<_>>());
    let bootstrap = outbound(place, endpoints, &json!({"services": {SERVICE: spec}}), None);
    let envoy = Envoy::start(&place.envoy, place.path(), name, &bootstrap, 1).await.unwrap();
    let address = envoy.listener("outbound").unwrap();
    (envoy, address)
}

/// Balances connections over the workers.
pub fn balance(bootstrap: &mut Value) {
    bootstrap["static_resources"]["listeners"][0]["connection_balance_config"] = json!({"exact_balance": {}});
}

/// Moves the listeners of a bootstrap into a file that Envoy watches; [`Listeners::update`]
/// rewrites the file.
pub fn dynamic(bootstrap: &mut Value, directory: &Path) -> Listeners {
    let listeners = bootstrap["static_resources"]["listeners"].take();
    bootstrap["static_resources"].as_object_mut().unwrap().remove("listeners");
    let file = directory.join("listeners.json");
    bootstrap["dynamic_resources"] = json!({"lds_config": {
        "resource_api_version": "V3",
        "path_config_source": {"path": file, "watched_directory": {"path": directory}},
    }});
    let listeners = Listeners { file, listeners };
    listeners.write(0);
    listeners
}

/// Listeners in a file that Envoy watches.
pub struct Listeners {
    file: PathBuf,
    listeners: Value,
}

impl Listeners {
    /// Gives the first HTTP filter another plugin configuration.
    pub fn update(&mut self, version: u32, configuration: &Value) {
        let manager = &mut self.listeners[0]["filter_chains"][0]["filters"][0]["typed_config"];
        manager["http_filters"][0]["typed_config"]["config"]["configuration"]["value"] =
            json!(configuration.to_string());
        self.write(version);
    }

    fn write(&self, version: u32) {
        let mut resources = self.listeners.clone();
        for listener in resources.as_array_mut().unwrap() {
            listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        }
        let response = json!({"version_info": version.to_string(), "resources": resources});
        let new = self.file.with_extension("new");
        std::fs::write(&new, response.to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }
}
