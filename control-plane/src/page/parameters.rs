//! The parameters in force of a service, as a list for people: every parameter, with its default if
//! it was not written.

use bloc_policy::config::{ServiceParameters, ServiceSpec};
use serde::Serialize;

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name, as in a services file.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Whether it was written; otherwise this is the default.
    pub written: bool,
}

/// All parameters except the endpoints.
pub fn in_force(spec: &ServiceSpec, parameters: &ServiceParameters) -> Vec<Parameter> {
    let shown = spec.shown(parameters).into_iter();
    let mut list: Vec<_> = shown.map(|(name, value, written)| Parameter { name, value, written }).collect();
    let routes: Vec<_> = parameters.named_retries().map(|(name, retries)| format!("{name}: {retries}")).collect();
    let value = if routes.is_empty() { "none".to_owned() } else { routes.join(", ") };
    list.push(Parameter { name: "virtualServiceRetries", value, written: !spec.virtual_service_retries.is_empty() });
    list
}

/// The addresses in the spec, with the port in front if they are by port; `None` if the endpoints
/// are learned from responses.
pub fn addresses(spec: &ServiceSpec) -> Option<Vec<String>> {
    let by_port = spec.endpoints_by_port.iter();
    let by_port =
        by_port.flat_map(|(port, addresses)| addresses.iter().map(move |address| format!("{port}: {address}")));
    let known = spec.endpoints.is_some() || !spec.endpoints_by_port.is_empty();
    known.then(|| spec.endpoints.iter().flatten().cloned().chain(by_port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_every_parameter_except_endpoints() {
        let all = json!({
            "routing": "mu", "retries": 1, "routeRetries": 2, "virtualServiceRetries": {"shop/checkout": 5}, "retryBudget": 0.1, "bouncePrice": 0.3, "resetInterval": "200ms", "capacity": {"estimator": "slo", "slo": "2s"}, "headroom": 0.5,
            "concurrency": 4, "hold": false, "maxQueueWait": "1s", "bodyLimit": 4096, "streamIdle": "2s", "slo": "3s", "orca": true,
            "debugHeaders": true,
        });
        let spec: ServiceSpec = serde_json::from_value(all.clone()).unwrap();
        let list = in_force(&spec, &spec.validate().unwrap());
        assert!(list.iter().all(|parameter| parameter.written));
        let mut names: Vec<&str> = list.iter().map(|parameter| parameter.name).collect();
        names.sort_unstable();
        let mut fields: Vec<&String> = all.as_object().unwrap().keys().collect();
        fields.sort_unstable();
        assert_eq!(names, fields);
        let value = |name: &str| list.iter().find(|p| p.name == name).unwrap().value.clone();
        assert_eq!(
            [value("capacity"), value("hold"), value("maxQueueWait"), value("virtualServiceRetries")],
            ["as many as finish within 2s", "false", "1s", "shop/checkout: 5"]
        );
        let known = ServiceSpec::NAMES.iter().filter(|name| !name.starts_with("endpoints")).count();
        assert_eq!(known, list.len());
    }

    #[test]
    fn shows_the_defaults_of_parameters_that_are_not_set() {
        let spec = ServiceSpec::default();
        let list = in_force(&spec, &spec.validate().unwrap());
        assert!(list.iter().all(|parameter| !parameter.written));
        assert_eq!((list[0].value.as_str(), list[1].value.as_str()), ("bid", "no limit"));
    }
    #[test]
    fn shows_the_service_port_before_its_addresses() {
        let addresses = |spec: serde_json::Value| addresses(&serde_json::from_value(spec).unwrap());
        assert_eq!(addresses(json!({})), None);
        assert_eq!(addresses(json!({"endpoints": []})), Some(vec![]));
        let by_port = json!({"endpoints": ["1.1.1.1:1"], "endpointsByPort": {"80": ["2.2.2.2:8080"]}});
        assert_eq!(addresses(by_port), Some(vec!["1.1.1.1:1".to_owned(), "80: 2.2.2.2:8080".to_owned()]));
    }
}
