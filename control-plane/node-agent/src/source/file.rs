//! Pods from a file, for a machine without Kubernetes.
//!
//! ```yaml
//! - namespace: shop
//!   name: checkout-0
//!   uid: 0a1b
//!   labels: {app: checkout}
//!   containers: [{name: app, id: c0, requests: 50m, memory: 64Mi}]
//! ```

use crate::bytes::Bytes;
use crate::cores::Cores;
use crate::pods::{Container, Pod};
use bloc_policy::config::ConfigError;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PodSpec {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    containers: Vec<ContainerSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerSpec {
    name: String,
    id: String,
    #[serde(default)]
    requests: Cores,
    #[serde(default)]
    memory: Bytes,
}

/// Reads YAML.
///
/// # Errors
/// The first value that does not fit, with its path.
pub fn read(text: &str) -> Result<Vec<Pod>, ConfigError> {
    let pods: Vec<PodSpec> = bloc_yaml::read(text)?;
    Ok(pods.into_iter().map(PodSpec::pod).collect())
}

impl PodSpec {
    fn pod(self) -> Pod {
        let Self { namespace, name, uid, labels, containers } = self;
        let containers = containers.into_iter().map(ContainerSpec::container).collect();
        Pod { namespace, name, uid, labels, containers }
    }
}

impl ContainerSpec {
    fn container(self) -> Container {
        let Self { name, id, requests, memory } = self;
        Container { name, id, requests, memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pods() {
        let pods = read(
            "
- namespace: shop
  name: checkout-0
  uid: 0a1b
  labels: {app: checkout}
  containers: [{name: app, id: c0, requests: 50m, memory: 64Mi}, {name: other, id: c1}]
- {namespace: shop, name: cart, uid: u, containers: []}
",
        )
        .unwrap();
        let container = |name: &str, id: &str, requests, memory| Container {
            name: name.to_owned(),
            id: id.to_owned(),
            requests,
            memory,
        };
        assert_eq!(pods.len(), 2);
        assert_eq!(pods[0].labels, BTreeMap::from([("app".to_owned(), "checkout".to_owned())]));
        assert_eq!(
            pods[0].containers,
            [
                container("app", "c0", Cores::milli(50), Bytes::mebi(64)),
                container("other", "c1", Cores::ZERO, Bytes::ZERO)
            ]
        );
        let names = [&pods[0].namespace, &pods[0].name, &pods[0].uid, &pods[1].name, &pods[1].uid];
        assert_eq!(names, ["shop", "checkout-0", "0a1b", "cart", "u"]);
    }

    #[test]
    fn refuses_with_the_path() {
        for (name, amount) in [("requests", "CPU"), ("memory", "memory")] {
            let text = format!("[{{namespace: shop, name: a, uid: u, containers: [{{name: b, id: c, {name}: x}}]}}]");
            let error = read(&text).unwrap_err().to_string();
            let expected = format!("[0].containers[0].{name}: \"x\" is no amount of {amount}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
