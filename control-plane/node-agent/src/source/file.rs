//! Pods from a file, for a machine without Kubernetes.
//!
//! ```yaml
//! - namespace: shop
//!   name: checkout-0
//!   uid: 0a1b
//!   labels: {app: checkout}
//!   containers: [{name: app, id: c0, requests: 50m}]
//! ```

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
        let containers =
            containers.into_iter().map(|ContainerSpec { name, id, requests }| Container { name, id, requests });
        Pod { namespace, name, uid, labels, containers: containers.collect() }
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
  containers: [{name: app, id: c0, requests: 50m}, {name: other, id: c1}]
- {namespace: shop, name: cart, uid: u, containers: []}
",
        )
        .unwrap();
        let container =
            |name: &str, id: &str, requests| Container { name: name.to_owned(), id: id.to_owned(), requests };
        assert_eq!(pods.len(), 2);
        assert_eq!(pods[0].labels, BTreeMap::from([("app".to_owned(), "checkout".to_owned())]));
        assert_eq!(
            pods[0].containers,
            [container("app", "c0", Cores::milli(50)), container("other", "c1", Cores::ZERO)]
        );
        let names = [&pods[0].namespace, &pods[0].name, &pods[0].uid, &pods[1].name, &pods[1].uid];
        assert_eq!(names, ["shop", "checkout-0", "0a1b", "cart", "u"]);
    }

    #[test]
    fn refuses_with_the_path() {
        let error =
            read("[{namespace: shop, name: a, uid: u, containers: [{name: b, id: c, requests: x}]}]").unwrap_err();
        assert!(error.to_string().starts_with("[0].containers[0].requests: \"x\" is no amount of CPU"), "{error}");
    }
}
