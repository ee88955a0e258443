//! The parameters in force of a service, as a list for people: every parameter, with its default if
//! it was not written.

use bloc_policy::config::{CapacityParameters, ServiceParameters, ServiceSpec};
use serde::Serialize;
use std::time::Duration;

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
    let duration = |duration: Duration| humantime::format_duration(duration).to_string();
    let or = |value: Option<String>, otherwise: &str| value.unwrap_or_else(|| otherwise.to_owned());
    let routing = serde_json::to_value(parameters.routing()).ok().and_then(|value| value.as_str().map(str::to_owned));
    let capacity = match parameters.capacity() {
        CapacityParameters::Unlimited => "no limit".to_owned(),
        CapacityParameters::Static(limit) => format!("{} requests", limit.get()),
        CapacityParameters::PerCore { per_core, limit: None } => format!("{per_core} requests per core"),
        CapacityParameters::PerCore { per_core, limit: Some(limit) } => {
            format!("{per_core} requests per core, at most {}", limit.get())
        }
        CapacityParameters::Average(interval) => format!("average, every {}", duration(interval)),
        CapacityParameters::Slo(slo) => format!("as many as finish within {}", duration(slo)),
    };
    let concurrency = parameters.concurrency().map(|places| format!("{} requests", places.get()));
    let hold = if parameters.hold() { "in the sidecar" } else { "in the application" };
    let routes: Vec<_> =
        parameters.route_retries().named().map(|(name, retries)| format!("{name}: {retries}")).collect();
    let routes = Some(routes.join(", ")).filter(|text| !text.is_empty());
    let parameter = |name, value, written| Parameter { name, value, written };
    vec![
        parameter("routing", or(routing, "?"), spec.routing.is_some()),
        parameter("capacity", capacity, spec.capacity.is_some()),
        parameter("concurrency", or(concurrency, "not known"), spec.concurrency.is_some()),
        parameter("hold", hold.to_owned(), spec.hold.is_some()),
        parameter("maxQueueWait", duration(parameters.max_queue_wait()), spec.max_queue_wait.is_some()),
        parameter("bodyLimit", parameters.body_limit().to_string(), spec.body_limit.is_some()),
        parameter("streamIdle", duration(parameters.stream_idle()), spec.stream_idle.is_some()),
        parameter("slo", or(parameters.slo().map(duration), "none"), spec.slo.is_some()),
        parameter("sloGrace", duration(parameters.slo_grace()), spec.slo_grace.is_some()),
        parameter("retries", parameters.retries().to_string(), spec.retries.is_some()),
        parameter("routeRetries", parameters.route_retries().default().to_string(), spec.route_retries.is_some()),
        parameter("virtualServiceRetries", or(routes, "none"), !spec.virtual_service_retries.is_empty()),
        parameter("retryBudget", parameters.retry_budget().get().to_string(), spec.retry_budget.is_some()),
        parameter("bouncePrice", parameters.bounce_price().to_string(), spec.bounce_price.is_some()),
        parameter("resetInterval", duration(parameters.reset_interval()), spec.reset_interval.is_some()),
        parameter("headroom", parameters.headroom().get().to_string(), spec.headroom.is_some()),
        parameter("orca", if parameters.orca() { "reported" } else { "no" }.to_owned(), spec.orca.is_some()),
        parameter(
            "debugHeaders",
            if parameters.debug_headers() { "rejections say why" } else { "no" }.to_owned(),
            spec.debug_headers.is_some(),
        ),
        parameter("maxChips", parameters.max_chips().to_string(), spec.max_chips.is_some()),
    ]
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
            "routing": "mu", "retries": 1, "routeRetries": 2, "virtualServiceRetries": {"shop/checkout": 5}, "retryBudget": 0.1, "bouncePrice": 0.3, "resetInterval": "200ms", "capacity": {"estimator": "slo", "slo": "2s"}, "headroom": 0.5, "maxChips": 7,
            "concurrency": 4, "hold": false, "maxQueueWait": "1s", "bodyLimit": 4096, "streamIdle": "2s", "slo": "3s", "sloGrace": "10ms", "orca": true,
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
            [value("capacity"), value("hold"), value("sloGrace"), value("virtualServiceRetries")],
            ["as many as finish within 2s", "in the application", "10ms", "shop/checkout: 5"]
        );
        // The list has as many parameters as the schema.
        let spec = serde_json::from_value::<ServiceSpec>(json!({"nonsense": 1})).unwrap_err().to_string();
        let known = spec.split('`').skip(3).step_by(2).filter(|name| !name.starts_with("endpoints")).count();
        assert_eq!(known, list.len(), "{spec}");
    }

    #[test]
    fn shows_the_defaults_of_parameters_that_are_not_set() {
        let spec = ServiceSpec::default();
        let list = in_force(&spec, &spec.validate().unwrap());
        assert!(list.iter().all(|parameter| !parameter.written));
        assert_eq!((list[0].value.as_str(), list[1].value.as_str()), ("bloc", "no limit"));
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
