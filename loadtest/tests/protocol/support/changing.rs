//! An Envoy whose listeners come and go: it watches a file of listeners, and each step moves a new
//! file into place. Replaced and removed listeners drain for a few seconds.

use super::{Place, eventually};
use bloc_mesh::envoy::Envoy;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The worker threads of the Envoy.
pub const WORKERS: usize = 2;

/// An Envoy whose listeners come and go.
pub struct Changing {
    pub envoy: Envoy,
    log: PathBuf,
    file: PathBuf,
    version: u32,
    /// The names of all listeners so far.
    names: Vec<String>,
    /// The listeners in the file, by name.
    listeners: BTreeMap<String, Value>,
    /// How often a worker has activated a listener, and how many listeners were removed.
    created: u64,
    removed: u64,
}

impl Changing {
    /// Starts Envoy with these clusters and listeners, at least one of them with the module: Envoy
    /// compiles it before it is ready, and stalls meanwhile. `drain` is in whole seconds.
    pub async fn start(place: &Place, drain: Duration, clusters: &[Value], first: &[Value]) -> Self {
        let directory = place.path();
        // In a directory of its own: Envoy reads the file again for each file that moves into its
        // directory.
        let watched = directory.join("lds");
        std::fs::create_dir_all(&watched).unwrap();
        let file = watched.join("listeners.json");
        let (mut names, mut listeners) = (Vec::new(), BTreeMap::new());
        for listener in first {
            let (name, listener) = at_its_own_address(&mut names, listener.clone());
            listeners.insert(name, listener);
        }
        let created = (WORKERS * listeners.len()) as u64;
        write(&file, 0, &listeners);
        let bootstrap = json!({
            "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
            "static_resources": {"clusters": clusters},
            "dynamic_resources": {"lds_config": {
                "resource_api_version": "V3",
                "path_config_source": {"path": file, "watched_directory": {"path": watched}},
            }},
        });
        let drain = drain.as_secs().to_string();
        let options = ["--drain-time-s", &drain, "--drain-strategy", "immediate"];
        let envoy =
            Envoy::start_with(&place.envoy, directory, "changing", &bootstrap, WORKERS, &options).await.unwrap();
        let log = directory.join("changing.log");
        let changing = Self { envoy, log, file, version: 0, names, listeners, created, removed: 0 };
        changing.in_force().await;
        changing
    }

    /// Adds or replaces a listener, and waits until all workers have it.
    pub async fn put(&mut self, listener: Value) {
        let (name, listener) = at_its_own_address(&mut self.names, listener);
        let before = self.listeners.insert(name, listener.clone());
        if before.as_ref() != Some(&listener) {
            self.created += WORKERS as u64;
            self.step().await;
        }
    }

    /// Removes the listener with this name.
    pub async fn remove(&mut self, name: &str) {
        if self.listeners.remove(name).is_some() {
            self.removed += 1;
            self.step().await;
        }
    }

    /// The present address of this listener: one that was removed and added again has another port.
    pub async fn address(&self, name: &str) -> SocketAddr {
        let text = self.envoy.admin_get("/listeners?format=json").await.unwrap();
        let said: Value = serde_json::from_str(&text).unwrap();
        let listeners = said["listener_statuses"].as_array().unwrap();
        let listener = listeners.iter().find(|listener| listener["name"] == name).expect("a listener with this name");
        let at = &listener["local_address"]["socket_address"];
        format!("{}:{}", at["address"].as_str().unwrap(), at["port_value"]).parse().unwrap()
    }

    /// Waits until nothing drains.
    pub async fn drained(&self) {
        eventually("the end of the drain", async || {
            let of = |stats: &BTreeMap<String, u64>| stats.values().sum::<u64>();
            let stats = self.envoy.stats(r"^listener_manager\.total_(filter_chains|listeners)_draining$").await;
            (of(&stats.unwrap()) == 0).then_some(())
        })
        .await;
    }

    /// A gauge or counter of the filters.
    pub async fn metric(&self, side: &str, service: &str, name: &str) -> u64 {
        self.stat(&format!("wasmcustom.bloc.{side}.{service}.{name}")).await
    }

    /// A counter or gauge of Envoy itself.
    pub async fn stat(&self, name: &str) -> u64 {
        self.envoy.stats(&format!("^{name}$")).await.unwrap().get(name).copied().unwrap_or(0)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    async fn step(&mut self) {
        self.version += 1;
        write(&self.file, self.version, &self.listeners);
        self.in_force().await;
    }

    async fn in_force(&self) {
        let names = ["listener_create_success", "listener_removed", "total_listeners_warming"]
            .map(|name| format!("listener_manager.{name}"));
        let expected = [self.created, self.removed, 0];
        eventually(&format!("version {} of the listeners", self.version), async || {
            // The main thread, which answers, may be busy for long on a loaded machine.
            let stats = self.envoy.stats(r"^listener_manager\.").await.ok()?;
            let now = names.each_ref().map(|name| stats.get(name).copied().unwrap_or(0));
            (now == expected).then_some(())
        })
        .await;
    }
}

/// Gives a listener an address of its own, and returns its name. Envoy gives a new listener the
/// socket of a draining one with the same address, and compares port 0 as such, whatever port was
/// bound.
fn at_its_own_address(names: &mut Vec<String>, mut listener: Value) -> (String, Value) {
    let name = listener["name"].as_str().unwrap().to_owned();
    let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name.clone());
        names.len() - 1
    });
    listener["address"]["socket_address"]["address"] = json!(format!("127.0.0.{}", place + 2));
    (name, listener)
}

/// The errors in Envoy's log, such as the failure of a VM or a refused listener.
pub fn errors(log: &str) -> Vec<String> {
    let bad = |line: &&str| ["[error]", "[critical]", "panicked"].iter().any(|mark| line.contains(mark));
    log.lines().filter(bad).map(str::to_owned).collect()
}

fn write(file: &Path, version: u32, listeners: &BTreeMap<String, Value>) {
    let typed = |listener: &Value| {
        let mut listener = listener.clone();
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        listener
    };
    let resources: Vec<Value> = listeners.values().map(typed).collect();
    let new = file.with_extension("new");
    std::fs::write(&new, json!({"version_info": version.to_string(), "resources": resources}).to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}
