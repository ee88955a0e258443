//! Several sidecars in one Envoy: their listeners and clusters side by side.

use serde_json::{Value, json};

/// Gives this name to the listener and the cluster of a bootstrap.
pub fn named(mut bootstrap: Value, name: &str) -> Value {
    let resources = &mut bootstrap["static_resources"];
    resources["listeners"][0]["name"] = json!(name);
    resources["clusters"][0]["name"] = json!(name);
    let manager = manager(&mut resources["listeners"][0]);
    manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["cluster"] = json!(name);
    bootstrap
}

/// One bootstrap with the listeners and clusters of all.
pub fn merged(parts: Vec<Value>) -> Value {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().expect("a bootstrap");
    for mut part in parts {
        for kind in ["listeners", "clusters"] {
            let more = std::mem::take(part["static_resources"][kind].as_array_mut().unwrap());
            whole["static_resources"][kind].as_array_mut().unwrap().extend(more);
        }
    }
    whole
}

/// The connection manager of a listener.
pub fn manager(listener: &mut Value) -> &mut Value {
    &mut listener["filter_chains"][0]["filters"][0]["typed_config"]
}
