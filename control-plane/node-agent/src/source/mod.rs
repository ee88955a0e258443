//! Where the pods of this node come from: Kubernetes, or a file on a machine without it.
//!
//! ```yaml
//! - namespace: shop
//!   name: checkout-0
//!   uid: 0a1b
//!   labels: {app: checkout}
//!   containers: [{name: app, id: c0, requests: 50m, memory: 64Mi}]
//! ```

pub mod kubernetes;

use crate::pods::Pod;
use bloc_policy::config::ConfigError;

/// Reads the file.
pub fn read_pods(text: &str) -> Result<Vec<Pod>, ConfigError> {
    bloc_yaml::read(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::cores::Cores;
    use crate::pods::Container;
    use std::collections::BTreeMap;

    #[test]
    fn reads_pods() {
        let pods = read_pods(
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
            let error = read_pods(&text).unwrap_err().to_string();
            let expected = format!("[0].containers[0].{name}: \"x\" is not an amount of {amount}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
